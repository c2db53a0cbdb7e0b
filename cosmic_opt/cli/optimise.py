"""`optimise`: the least or greatest amount, exactly."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from cosmic_opt.cli.design_file import read_values
from cosmic_opt.cli.exits import DONE, INFEASIBLE, LIMIT
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.time_limit import seconds_of
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.feasibility.conflict import first_conflict
from cosmic_opt.psa.domain import Value
from cosmic_opt.search.budget import Budget
from cosmic_opt.solvers.base import SolveStatus

EXITS = {SolveStatus.INFEASIBLE: INFEASIBLE, SolveStatus.UNKNOWN: LIMIT}


def optimise(
    request: Request,
    minimise: Annotated[
        str | None, typer.Option("--minimise", metavar="EXPR", help="Written as in a rule: network_cost.")
    ] = None,
    maximise: Annotated[
        str | None, typer.Option("--maximise", metavar="EXPR", help="'memory_capacity - memory_per_npu', ...")
    ] = None,
    solver: Annotated[
        str | None, typer.Option("--solver", help="exhaustive, cp_sat or milp; by default the size chooses.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", metavar="TIME", help="Stop after 60, '90 s' or '5 min'.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="FILE", help="Begin with this design: JSON or YAML, '-' for stdin.")
    ] = None,
) -> int:
    """Find the feasible design with the least or greatest cost, bandwidth, memory, step or the like, and prove it."""
    from cosmic_opt.reporting.optima import optimum_keys, optimum_text

    expression = _expression(minimise, maximise)
    limit_s = None if time_limit is None else seconds_of(time_limit)
    begin = [] if start is None else [_read_start(request, start)]
    clock = Budget()
    ask = partial(request.problem.optimise, solver=solver, time_limit_s=limit_s, start=begin, seed=request.seed)
    optimum = ask(expression, maximise=maximise is not None)
    seconds = clock.elapsed()
    infeasible = optimum.status is SolveStatus.INFEASIBLE
    conflict = first_conflict(optimum.design.parameter_set) if infeasible else ()
    instance = request.problem.instance
    keys = {"name": instance.name, "scope": instance.scope, **optimum_keys(optimum, conflict, seconds)}
    request.output.result("optimise", keys, optimum_text(request.title, optimum, conflict, seconds))
    return EXITS.get(optimum.status, DONE)


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "optimise", optimise)


def _read_start(request: Request, source: str) -> dict[str, Value]:
    """Return the design to begin with; say why, if it is no member of the problem, which then does without."""
    problem = request.problem
    _, values = read_values(problem, source, "--start")
    columns = problem.parameter_set.columns
    outside = [column for column in columns if values[column.name] not in column.codes]
    if outside:
        value = outside[0].show(values[outside[0].name])
        request.output.log(f"the start is passed over: {outside[0].name} = {value} is not free here")
        return values
    for rule in problem.violations(problem.parameter_set.design(values)):
        request.output.log(f"the start is passed over: it breaks the rule {rule.name}: {rule.text}")
    return values


def _expression(minimise: str | None, maximise: str | None) -> str:
    if (minimise is None) == (maximise is None):
        both = minimise is not None
        raise SpecError(
            "--minimise and --maximise are both given" if both else "nothing to optimise",
            where=Where("--minimise"),
            hint="keep one of the two" if both else "write for example --minimise network_cost",
        )
    return maximise if minimise is None else minimise  # type: ignore[return-value]
