"""The Pareto front as a table."""

from __future__ import annotations

from itertools import chain

from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.numbers import count_text, exact, table
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.pareto import ParetoFront
from cosmic_opt.units import TICKS_PER_SECOND, show, show_seconds

SHOWN = 40
"""Rows of the text table; the JSON answer has every point."""


def front_status(front: ParetoFront) -> str:
    """Return what is proved, as the status of `solve`: optimal, infeasible, or feasible or unknown at a limit."""
    if front.stop is Stop.PROVED:
        return "optimal" if len(front.designs) else "infeasible"
    return "feasible" if len(front.designs) else "unknown"


def front_keys(front: ParetoFront) -> dict[str, object]:
    """Return the keys of `pareto`; amounts are in the base unit of their quantity."""
    names = [quantity.name for quantity in front.quantities]
    designs = designs_keys(front.designs)
    return {
        "status": front_status(front),
        "stop": front.stop.value,
        "objectives": ["step_time", *names],
        "points": [
            {
                "step_time_s": int(ticks) / TICKS_PER_SECOND,
                **{name: int(amount) for name, amount in zip(names, amounts, strict=True)},
                "design": design,
            }
            for ticks, amounts, design in zip(front.step_ticks, front.amounts, designs, strict=True)
        ],
        "feasible_designs": front.feasible_designs,
        "regions": front.regions,
        "regions_closed": front.regions_closed,
        "nodes": front.nodes,
    }


def front_text(title: str, front: ParetoFront) -> str:
    """Return the front on one screen, fastest first; a long one shows evenly spaced points and both ends."""
    count = len(front.designs)
    if count == 0:
        return (
            f"{title}\nno feasible design{', proved' if front.stop is Stop.PROVED else f' found: {front.stop.value}'}"
        )
    shown = range(count) if count <= SHOWN else sorted({round(i * (count - 1) / (SHOWN - 1)) for i in range(SHOWN)})
    rows = [
        (
            show_seconds(int(front.step_ticks[row]) / TICKS_PER_SECOND),
            f"{100 * (int(front.step_ticks[row]) / int(front.step_ticks[0]) - 1):+.2f} %",
            *chain.from_iterable(_amount(front, row, at) for at in range(len(front.quantities))),
        )
        for row in shown
    ]
    designs = f"{count_text(front.feasible_designs)} feasible designs"
    effort = f"{exact(front.regions_closed)} regions closed, {exact(front.nodes)} boxes bounded"
    if not front.regions:
        effort = "every design scored" if front.stop is Stop.PROVED else "the best of those scored"
    proof = f"proved: {effort}" if front.stop is Stop.PROVED else f"not proved ({front.stop.value}): {effort}"
    head = f"{title}\n{exact(count)} Pareto-optimal points of {designs}, {proof}"
    columns = ("step time", "", *chain.from_iterable((quantity.name, "") for quantity in front.quantities))
    body = table(columns, rows, right=range(len(columns)))
    note = "  percentages are against the fastest"
    more = f"; {exact(count - len(rows))} points between these are left out, --json has every point"
    return f"{head}\n\n{body}\n\n{note}{more if len(rows) < count else ''}"


def _amount(front: ParetoFront, row: int, at: int) -> tuple[str, str]:
    """Return one amount of one point, and how far it is from that of the fastest point."""
    amount, first = int(front.amounts[row, at]), int(front.amounts[0, at])
    return show(amount, front.quantities[at].unit), f"{100 * (amount / first - 1):+.2f} %" if first else ""
