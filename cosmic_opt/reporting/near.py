"""The designs around a proved optimum: how many are nearly as good, which knobs they leave free, and the best few."""

from __future__ import annotations

from cosmic_opt.reporting.answers import gap_text, value_text
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.designs import value_text as knob_text
from cosmic_opt.reporting.numbers import clip, compress, count_text, exact, table
from cosmic_opt.search.near import Knob, Near, Ranking
from cosmic_opt.search.objective import Objective

SHOWN = 6
"""Designs side by side in text; the JSON answer has every one."""
WIDTH = 100


def near_keys(near: Near, objective: Objective, stop: str) -> dict[str, object]:
    """Return the object `near` of `solve --within`."""
    return {
        "within": float(near.within),
        "limit": None if near.limit is None else objective.show(near.limit),
        "designs": near.designs,
        "designs_text": exact(near.designs),
        "designs_upper": near.designs_upper,
        "exact": near.exact,
        "stop": stop,
        "parameters": [
            {
                "name": knob.name,
                "every_value": knob.every_value,
                "values": [{"value": value, "designs": number} for value, number in knob.values.items()],
            }
            for knob in near.parameters
        ],
        "sample": ranking_keys(near.sample, objective),
        "nodes": near.nodes,
        "seconds": near.seconds,
    }


def ranking_keys(ranking: Ranking, objective: Objective) -> list[dict[str, object]]:
    """Return designs with their values, the best first; `behind` is how far from its value, as a share of it."""
    return [
        {"design": design, "value": objective.show(value), "behind": behind(ranking.values[0], value, objective)}
        for design, value in zip(designs_keys(ranking.designs), ranking.values, strict=True)
    ]


def behind(best: int, value: int, objective: Objective) -> float:
    """Return how much worse a value is than the best, as a share of the best; of throughput, how much less."""
    return 0.0 if value == best else (value - best) / (best if objective.samples is None else value)


def near_text(near: Near, objective: Objective, stop: str) -> str:
    """Return how many designs are nearly optimal, what they do with each knob, and some of them side by side."""
    share = f"{float(100 * near.within):g} %"
    up_to = "" if near.limit is None else f" ({value_text(near.limit, objective)})"
    number = f"{count_text(near.designs)} designs, exactly"
    if not near.exact:
        number = f"{count_text(near.designs)} to {count_text(near.designs_upper)} designs ({stop})"
    parts = [f"within {share} of the optimum{up_to}: {number}"]
    rows = [_knob_row(knob, near) for knob in near.parameters if not knob.every_value]
    if rows:
        parts.append(table(("knob", "occur", "values, with their share of these designs"), rows))
    free = [knob.name for knob in near.parameters if knob.every_value]
    if free:
        parts.append(f"  free to choose (with some choice of the others, every value occurs): {compress(free)}")
    parts.append(f"a diverse sample:\n{ranking_text(near.sample, objective)}")
    return "\n\n".join(parts)


def _knob_row(knob: Knob, near: Near) -> tuple[str, str, str]:
    column = near.sample.designs.parameter_set.column(knob.name)
    taken = sorted(((number, value) for value, number in knob.values.items() if number), key=lambda pair: -pair[0])
    shown = ", ".join(f"{knob_text(column, value)} ({_share(number, near.designs)})" for number, value in taken)
    return knob.name, f"{len(taken)} of {len(knob.values)}", clip(shown, WIDTH)


def _share(part: int, whole: int) -> str:
    """Return a part in percent; nearly all never reads as all, and a few never as none."""
    if part == whole:
        return "all"
    tenths = min(max(round(1000 * part / whole), 1), 999)
    return f"{tenths / 10:.1f} %"


def ranking_text(ranking: Ranking, objective: Objective) -> str:
    """Return designs side by side, only the knobs in which they differ, and what the text leaves out."""
    shown = ranking.designs.take(range(min(SHOWN, len(ranking.designs))))
    columns = shown.parameter_set.columns
    numbers = [str(number) for number in range(1, len(shown) + 1)]
    values = [value_text(value, objective) for value in ranking.values[:SHOWN]]
    gaps = [gap_text(behind(ranking.values[0], value, objective)) for value in ranking.values[:SHOWN]]
    rows = [[objective.name, *values], ["behind", *gaps]]
    for at, column in enumerate(columns):
        own = [column.values[code] for code in shown.codes[:, at]]
        if len(set(own)) > 1:
            rows.append([column.name, *(knob_text(column, value) for value in own)])
    more = len(ranking.designs) - len(shown)
    text = table(("", *numbers), rows)
    return f"{text}\n  and {exact(more)} more, in the answer of --json" if more else text


def top_text(ranking: Ranking, number: int, objective: Objective, stop: str) -> str:
    """Return the best designs side by side."""
    found = len(ranking.designs)
    head = f"the {exact(found)} best designs" if found > 1 else "the best design"
    if found < number:
        head += f" of {exact(number)} asked for ({'there are no more' if stop == 'proved' else stop})"
    return f"{head}, those of equal value by code:\n{ranking_text(ranking, objective)}"
