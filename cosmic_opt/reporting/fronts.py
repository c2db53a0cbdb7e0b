"""The Pareto front as a table."""

from __future__ import annotations

from itertools import chain

from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.reporting.answers import value_text
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.numbers import designs_text, exact, table
from cosmic_opt.reporting.runnable import nothing_runs_text
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.pareto import ParetoFront
from cosmic_opt.search.runnable import CannotRun
from cosmic_opt.units import show

SHOWN = 40
"""Rows of the text table; the JSON answer has every point."""


def front_status(front: ParetoFront) -> str:
    """Return what is proved, as the status of `solve`: optimal, infeasible, or feasible or unknown at a limit."""
    if front.stop is Stop.PROVED:
        return "optimal" if len(front.designs) else "infeasible"
    return "feasible" if len(front.designs) else "unknown"


def front_keys(front: ParetoFront, *, interrupted: bool = False) -> dict[str, object]:
    """Return the keys of `pareto`; amounts are in the base unit of their quantity."""
    names = [quantity.name for quantity in front.quantities]
    designs = designs_keys(front.designs)
    return {
        "status": front_status(front),
        "stop": _stop(front, interrupted),
        "objectives": [front.scored.name, *names],
        "points": [
            {
                _key(front.scored): front.scored.show(int(ticks)),
                **{
                    _key(quantity): _value(quantity, int(amount))
                    for quantity, amount in zip(front.quantities, amounts, strict=True)
                },
                "design": design,
            }
            for ticks, amounts, design in zip(front.step_ticks, front.amounts, designs, strict=True)
        ],
        "feasible_designs": front.designs_counted,
        "before_simulated_rules": front.before_simulated_rules,
        "regions": front.regions,
        "regions_closed": front.regions_closed,
        "nodes": front.nodes,
        "designs_scored": front.designs_scored,
    }


def _key(quantity: Quantity | Objective) -> str:
    """Return a quantity's name in JSON; a time is in seconds."""
    return f"{quantity.name}_s" if isinstance(quantity, Objective) and quantity.unit == "s" else quantity.name


def _value(quantity: Quantity | Objective, amount: int) -> float | int:
    return quantity.show(amount) if isinstance(quantity, Objective) else amount


def front_text(title: str, front: ParetoFront, idle: CannotRun | None = None, *, interrupted: bool = False) -> str:
    """Return the front on one screen, fastest first; a long one shows evenly spaced points and both ends.

    Without a point, `idle` says why no design can run.
    """
    count, stop = len(front.designs), _stop(front, interrupted)
    if count == 0:
        none = _why_none(front, stop) if idle is None else f"no design can run, proved\n\n{nothing_runs_text(idle)}"
        return f"{title}\n{none}"
    shown = range(count) if count <= SHOWN else sorted({round(i * (count - 1) / (SHOWN - 1)) for i in range(SHOWN)})
    rows = [
        (
            *_shown(front.scored, int(front.step_ticks[row]), int(front.step_ticks[0])),
            *chain.from_iterable(_amount(front, row, at) for at in range(len(front.quantities))),
        )
        for row in shown
    ]
    designs = designs_text(front.designs_counted, before_simulated_rules=front.before_simulated_rules)
    effort = f"{exact(front.regions_closed)} regions closed, {exact(front.nodes)} boxes bounded"
    if not front.regions:
        scored = f"the best of {exact(front.designs_scored or 0)} designs scored so far"
        effort = "every design scored" if front.stop is Stop.PROVED else scored
    proof = f"proved: {effort}" if front.stop is Stop.PROVED else f"not proved ({stop}): {effort}"
    head = f"{title}\n{exact(count)} Pareto-optimal point{'s'[: count != 1]} of {designs}, {proof}"
    columns = (
        front.scored.name.replace("step_time", "step time"),
        "",
        *chain.from_iterable((quantity.name, "") for quantity in front.quantities),
    )
    body = table(columns, rows, right=range(len(columns)))
    note = (
        "  percentages are against the fastest" if front.scored.unit == "s" else "  percentages are against the first"
    )
    more = f"; {exact(count - len(rows))} points between these are left out, --json has every point"
    return f"{head}\n\n{body}\n\n{note}{more if len(rows) < count else ''}"


def _stop(front: ParetoFront, interrupted: bool) -> str:
    """Return what ended the search; an interrupt ends it as a limit of time does."""
    return "interrupted" if interrupted and front.stop is not Stop.PROVED else front.stop.value


def _why_none(front: ParetoFront, stop: str) -> str:
    """Return what is known of a front without points: a limit that came before any look says nothing of designs."""
    if front.stop is Stop.PROVED:
        return "no feasible design, proved"
    if front.designs_scored:
        looked = f"no feasible design among the {exact(front.designs_scored)} scored"
    elif front.designs_scored == 0:
        looked = "no design was scored"
    elif front.regions_closed:
        looked = f"no feasible design in the {exact(front.regions_closed)} regions closed"
    else:
        looked = "no region was closed"
    return f"{looked} before the limit: {stop}"


def _amount(front: ParetoFront, row: int, at: int) -> tuple[str, str]:
    """Return one amount of one point, and how far it is from that of the fastest point."""
    return _shown(front.quantities[at], int(front.amounts[row, at]), int(front.amounts[0, at]))


def _shown(quantity: Quantity | Objective, amount: int, first: int) -> tuple[str, str]:
    """Return a value with its unit, and how far it is from the first point's."""
    value, reference = _value(quantity, amount), _value(quantity, first)
    text = value_text(amount, quantity) if isinstance(quantity, Objective) else show(amount, quantity.unit)
    return text, f"{100 * (value / reference - 1):+.2f} %" if reference else ""
