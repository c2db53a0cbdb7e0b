"""The Pareto front as a table."""

from __future__ import annotations

from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.numbers import count_text, exact, table
from cosmic_opt.search.pareto import ParetoFront
from cosmic_opt.units import TICKS_PER_SECOND, show, show_seconds

SHOWN = 40
"""Rows of the text table; the JSON answer has every point."""


def front_keys(front: ParetoFront) -> dict[str, object]:
    """Return the keys of `pareto`; amounts are in the base unit of their quantity."""
    designs = designs_keys(front.designs)
    return {
        "status": "optimal" if len(front.designs) else "infeasible",
        "objectives": ["step_time", front.quantity.name],
        "points": [
            {"step_time_s": int(ticks) / TICKS_PER_SECOND, front.quantity.name: int(amount), "design": design}
            for ticks, amount, design in zip(front.step_ticks, front.amounts, designs, strict=True)
        ],
        "feasible_designs": front.feasible_designs,
        "regions": front.regions,
        "nodes": front.nodes,
    }


def front_text(title: str, front: ParetoFront) -> str:
    """Return the front on one screen, fastest first; a long one shows evenly spaced points and both ends."""
    count = len(front.designs)
    shown = range(count) if count <= SHOWN else sorted({round(i * (count - 1) / (SHOWN - 1)) for i in range(SHOWN)})
    rows = [
        (
            show_seconds(int(front.step_ticks[row]) / TICKS_PER_SECOND),
            show(int(front.amounts[row]), front.quantity.unit),
            f"{100 * (int(front.step_ticks[row]) / int(front.step_ticks[0]) - 1):+.2f} %",
            f"{100 * (int(front.amounts[row]) / int(front.amounts[0]) - 1):+.2f} %" if front.amounts[0] else "",
        )
        for row in shown
    ]
    designs = f"{count_text(front.feasible_designs)} feasible designs"
    proof = f"{exact(front.regions)} regions closed, {exact(front.nodes)} boxes bounded"
    head = f"{title}\n{exact(count)} Pareto-optimal points of {designs}, proved: {proof}"
    columns = ("step time", front.quantity.name, "slower than the fastest", "against its amount")
    body = table(columns, rows, right=(0, 1, 2, 3))
    more = (
        f"\n  {count - len(rows)} points between these are left out; --json has every point"
        if len(rows) < count
        else ""
    )
    return f"{head}\n\n{body}{more}"
