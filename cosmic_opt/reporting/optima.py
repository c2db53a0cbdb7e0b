"""The answer of `optimise`: an exact amount, its proof state and the design that has it."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.analysis.optimise import Optimum
from cosmic_opt.feasibility.conflict import Conflict
from cosmic_opt.reporting.answers import gap_text, may_have_less_code
from cosmic_opt.reporting.counts import why_empty
from cosmic_opt.reporting.designs import design_text, designs_keys
from cosmic_opt.reporting.numbers import exact
from cosmic_opt.reporting.rules import conflict_keys
from cosmic_opt.reporting.runnable import cannot_run_keys, nothing_runs_text
from cosmic_opt.search.objective import objective_of
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.units import Unit, show


def optimum_keys(optimum: Optimum, conflict: Conflict, seconds: float) -> dict[str, object]:
    """Return the object of `optimise --json`; amounts are in base units, a throughput as the nearest float."""
    keys: dict[str, object] = {
        "status": optimum.status.value,
        "stop": optimum.stop.value,
        "objective": {
            "name": optimum.expression,
            "sense": _sense(optimum),
            "value": _number(optimum.value),
            "unit": optimum.unit.value,
        },
        "bound": _number(optimum.bound),
        "gap": optimum.gap,
        "start": _number(optimum.start),
        "passed_over": list(optimum.passed_over),
        "proved_by_start": optimum.proved_by_start,
        "least_code": optimum.least_code,
        "table_rows": optimum.table_rows,
        "cannot_run": cannot_run_keys(optimum.cannot_run),
        "design": next(designs_keys(optimum.design), {}),
        "solver": optimum.solver,
        "seconds": seconds,
    }
    if optimum.status is SolveStatus.INFEASIBLE:
        keys |= conflict_keys(conflict)
    return keys


def optimum_text(title: str, optimum: Optimum, conflict: Conflict, seconds: float) -> str:
    """Return the answer for a person."""
    by = "by its start, no solver needed," if optimum.proved_by_start else f"by {optimum.solver}"
    if optimum.solver is None:
        by = "before what is simulated was a table that a solver could be given,"
    head = f"{title}\n{_sense(optimum)} {optimum.expression}: {_proof(optimum)}\n{by} in {seconds:.3g} s"
    if optimum.table_rows is not None:
        head += f", with what is simulated as a table of {optimum.table_rows:,} rows"
    if optimum.status is SolveStatus.OPTIMAL and not optimum.least_code:
        head += f"\n{may_have_less_code('time limit')}"
    idle = optimum.cannot_run
    if optimum.status is SolveStatus.INFEASIBLE:
        return f"{head}\n\n{why_empty(conflict) if idle is None else nothing_runs_text(idle)}"
    if idle is not None:
        head += f"\nit cannot run, though it obeys every rule: {idle.reason}\n  hint: {idle.hint}"
    return f"{head}\n\n{design_text(optimum.design)}" if len(optimum.design) else head


def _number(value: int | Fraction | None) -> int | float | None:
    return float(value) if isinstance(value, Fraction) else value


def _sense(optimum: Optimum) -> str:
    return "maximise" if optimum.maximise else "minimise"


def _proof(optimum: Optimum) -> str:
    if optimum.status is SolveStatus.INFEASIBLE:
        return "no feasible design, proved" if optimum.cannot_run is None else "no design can run, proved"
    if optimum.bound is None:
        return f"no design found yet: {optimum.stop.value}"
    bound = _value_text(optimum, optimum.bound)
    if optimum.value is None or optimum.gap is None:
        return f"no design found yet: {optimum.stop.value}, bound {bound}"
    value = _value_text(optimum, optimum.value)
    if optimum.status is SolveStatus.OPTIMAL:
        return f"{value}, proved optimal (bound = value)"
    return f"{value}, not proved: {optimum.stop.value}, bound {bound}, gap {gap_text(optimum.gap)}"


def _value_text(optimum: Optimum, value: int | Fraction) -> str:
    """Return the value or the bound; a fraction is a rate, or an energy."""
    if optimum.unit is Unit.ENERGY:
        unit = objective_of(optimum.expression, optimum.design.parameter_set).unit
        return f"{show(float(value), Unit.ENERGY)}{unit.removeprefix('J')}"
    if isinstance(value, Fraction):
        return f"{float(value):.6g} {objective_of(optimum.expression, optimum.design.parameter_set).unit}"
    return amount_text(value, optimum.unit)


def amount_text(value: int, unit: Unit) -> str:
    """Return an amount for a person and, where rounding may hide digits, exactly: "19.6445 GB (19,644,458,984 B)"."""
    if unit in (Unit.NONE, Unit.DOLLARS):
        return show(value, unit)
    return f"{show(value, unit)} ({exact(value)} {unit.value})"
