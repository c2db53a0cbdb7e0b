"""Numbers and tables as text, in plain ASCII, so that a pipe and a terminal show the same."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby

from cosmic_opt.psa.family import member_name, split_member

BEFORE = " before rules on simulated times"
"""What a number of designs is called that is not known to obey them."""


def exact(value: int) -> str:
    """Return a count with separators, every digit kept."""
    return f"{value:,}"


def count_text(value: int) -> str:
    """Return a count exactly, with its size where there are many digits: "10,865,885,184,000 (1.087e13)"."""
    return exact(value) if value < 10**9 else f"{exact(value)} ({scientific(value)})"


def designs_text(number: int, *, before_simulated_rules: bool = False) -> str:
    """Return a number of feasible designs, with what it does not take in: "1 feasible design"."""
    return f"{count_text(number)} feasible design{'s'[: number != 1]}{BEFORE if before_simulated_rules else ''}"


def scientific(value: int) -> str:
    """Return four significant digits of a positive count: "1.087e13"."""
    return f"{Decimal(value):.3e}".replace("e+", "e")


def share_text(part: int, whole: int) -> str:
    """Return how rare `part` is in `whole`: "all", "all but 24", "1 in 876", "41.7 %"."""
    if part == whole:
        return "all"
    if 2000 * (whole - part) < whole:  # would round to 100 %
        return f"all but {exact(whole - part)}"
    if part == 0:
        return "none"
    ratio = (2 * whole + part) // (2 * part)
    return f"1 in {exact(ratio)}" if ratio >= 10 else f"{100 * part / whole:.3g} %"


def percent(share: float) -> str:
    """Return a share of one as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def rate(value: float | None) -> str:
    """Return a rate with five significant digits or, from a thousand on, whole."""
    number = value or 0.0
    return f"{number:,.0f}" if number >= 1000 else f"{number:.5g}"


def clip(text: str, width: int = 64) -> str:
    """Return text of at most `width` characters, its end cut where it is longer."""
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def compress(names: Sequence[str]) -> str:
    """Return names joined by commas, members of one family in a run: "dp, bandwidth[0..3]"."""
    shown = []
    for start, members in groupby(names, key=_before_last_index):
        run = list(members)
        indices = [int(name[len(start) : -1]) for name in run if name != start]
        consecutive = len(indices) > 1 and indices == list(range(indices[0], indices[-1] + 1))
        shown += [f"{start}{indices[0]}..{indices[-1]}]"] if consecutive else run
    return ", ".join(shown)


def _before_last_index(name: str) -> str:
    """Return the part of a member's name before its last index: "extent[tp," or "bandwidth["; else the name."""
    family, labels = split_member(name)
    if labels is None or not labels[-1].isdecimal():
        return name
    return member_name(family, (*labels[:-1], ""))[:-1]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: int = 2) -> str:
    """Return aligned columns under a header; columns whose position is in `right` are set flush right."""
    lines = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))] if lines else []
    shown = []
    for line in lines:
        cells = [
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append((" " * indent + "  ".join(cells)).rstrip())
    return "\n".join(shown)


def shares(parts: Sequence[float]) -> list[str]:
    """Return each part of the total in percent with one decimal; the printed numbers add up to 100.0 exactly."""
    total = sum(parts)
    exact_tenths = [1000 * part / total for part in parts]
    tenths = [int(tenth) for tenth in exact_tenths]
    by_rest = sorted(range(len(parts)), key=lambda at: tenths[at] - exact_tenths[at])
    for at in by_rest[: 1000 - sum(tenths)]:
        tenths[at] += 1
    return [f"{tenth / 10:.1f} %" for tenth in tenths]
