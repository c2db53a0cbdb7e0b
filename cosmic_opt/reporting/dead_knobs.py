"""Knobs without effect, and the count that leaves them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosmic_opt.reporting.numbers import compress, count_text, exact

if TYPE_CHECKING:  # loads the simulator, and with it numba
    from cosmic_opt.analysis.dead_knobs import DeadKnobs, EquivalentCount

WITHOUT_EFFECT = "without effect on the objective wherever the rules leave a choice"


NOT_LOOKED_FOR = "knobs without effect were not looked for: no time was left"


def dead_keys(knobs: DeadKnobs | None) -> dict[str, object]:
    """Return `inert`, the knobs proved without effect, and `undecided`, those of which nothing is proved.

    Both are null where no time was left to look for them.
    """
    if knobs is None:
        return {"inert": None, "undecided": None}
    return {"inert": list(knobs.dead), "undecided": list(knobs.undecided)}


def dead_text(knobs: DeadKnobs | None) -> str:
    """Return a line for each of the two kinds that has a member; "" when neither has; None: that no time was left.

    What has no effect on the objective may still decide what is feasible: offloading makes room in memory.
    """
    if knobs is None:
        return NOT_LOOKED_FOR
    lines = []
    if knobs.dead:
        lines.append(f"free, but {WITHOUT_EFFECT}: {compress(knobs.dead)}")
    if knobs.undecided:
        lines.append(f"perhaps {WITHOUT_EFFECT} (not proved): {compress(knobs.undecided)}")
    return "\n".join(lines)


def equivalence_keys(count: EquivalentCount) -> dict[str, object]:
    """Return the keys that `count --up-to-equivalence` adds."""
    return {
        "distinct": count.value,
        "distinct_text": exact(count.value),
        "distinct_lower": count.lower,
        **dead_keys(count.knobs),
    }


def equivalence_text(count: EquivalentCount, objective: str) -> str:
    """Return how many designs differ in a knob that matters to the objective, and which knobs do not."""
    number = count_text(count.value)
    if not count.exact:
        number = f"between {exact(count.lower)} and {number}"
    about = dead_text(count.knobs) or "every free knob matters"
    return f"{number} of them differ in a knob that can change {objective}\n{about}"
