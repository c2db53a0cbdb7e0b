"""`optimise`: the least or greatest amount, exactly."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from cosmic_opt.cli.design_file import read_values
from cosmic_opt.cli.exits import DONE, INFEASIBLE, LIMIT
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.time_limit import TimeLimit, seconds_of
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.feasibility.conflict import Conflict, first_conflict
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
    time_limit: TimeLimit = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="FILE", help="Begin with this design: JSON or YAML, '-' for stdin.")
    ] = None,
) -> int:
    """Find the feasible design with the least or greatest cost, bandwidth, memory, step or the like, and prove it."""
    from cosmic_opt.reporting.cluster_warnings import warnings_of, warnings_text
    from cosmic_opt.reporting.optima import optimum_keys, optimum_text

    expression = _expression(minimise, maximise)
    limit_s = None if time_limit is None else seconds_of(time_limit)
    begin = [] if start is None else [read_values(request.problem, start, "--start")[1]]
    clock = Budget()
    ask = partial(request.problem.optimise, solver=solver, time_limit_s=limit_s, start=begin, seed=request.seed)
    optimum = ask(expression, maximise=maximise is not None)
    seconds = clock.elapsed()
    for why in optimum.passed_over:
        request.output.log(f"the start is passed over: {why}")
    infeasible = optimum.status is SolveStatus.INFEASIBLE
    conflict = first_conflict(optimum.design.parameter_set) if infeasible else Conflict()
    instance = request.problem.instance
    warnings = warnings_of(instance, optimum.design)
    keys = {"name": instance.name, "scope": instance.scope, **optimum_keys(optimum, conflict, seconds)}
    text = optimum_text(request.title, optimum, conflict, seconds)
    text = "\n\n".join(filter(None, (text, warnings_text(warnings))))
    request.output.result("optimise", {**keys, "warnings": warnings}, text)
    return EXITS.get(optimum.status, DONE)


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "optimise", optimise)


def _expression(minimise: str | None, maximise: str | None) -> str:
    if (minimise is None) == (maximise is None):
        both = minimise is not None
        raise SpecError(
            "--minimise and --maximise are both given" if both else "nothing to optimise",
            where=Where("--minimise"),
            hint="keep one of the two" if both else "write for example --minimise network_cost",
        )
    return maximise if minimise is None else minimise  # type: ignore[return-value]
