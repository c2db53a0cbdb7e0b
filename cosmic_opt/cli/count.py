"""`count`: how many designs are feasible, exactly."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_opt.cli.exits import DONE, INFEASIBLE, LIMIT
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.feasibility.conflict import Conflict, first_conflict
from cosmic_opt.reporting.counts import count_keys, explain_count, shape_text
from cosmic_opt.reporting.dead_knobs import equivalence_keys, equivalence_text
from cosmic_opt.search.budget import Budget


def count(
    request: Request,
    solver: Annotated[
        str, typer.Option("--solver", help="diagram (default), or a cross-check: exhaustive, cp_sat, milp.")
    ] = "diagram",
    up_to_equivalence: Annotated[
        bool, typer.Option("--up-to-equivalence", help="Also count the designs that differ in a knob that matters.")
    ] = False,
) -> int:
    """Count the feasible designs, exactly, and say which choices multiply to that number.

    Where the diagram outgrows memory, certified limits are printed and the exit code is that of a limit.
    """
    clock = Budget()
    problem = request.problem
    result = problem.count(engine=solver)
    seconds = clock.elapsed()
    conflict = first_conflict(problem.parameter_set) if result.value == 0 else Conflict()
    keys = count_keys(result, conflict, seconds)
    text = explain_count(request.title, problem.parameter_set, result, conflict, seconds)
    if up_to_equivalence and result.value and result.outgrown_at is None:
        distinct = problem.count_up_to_equivalence()
        keys |= equivalence_keys(distinct)
        text += f"\n\n{equivalence_text(distinct, problem.instance.objective)}"
    request.output.result("count", keys, text)
    request.output.log(shape_text(result))
    if result.outgrown_at is not None:
        return LIMIT
    return DONE if result.value else INFEASIBLE


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "count", count)
