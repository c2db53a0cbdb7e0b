"""`what-if` and `sweep`: how the answer moves when the question does."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.cli.exits import DONE, INFEASIBLE
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.errors import SpecError, Where

CHANGES = ("set", "fix", "free", "require", "without")


def what_if(request: Request) -> int:
    """Solve the instance as it is and as the options change it; show what moved.

    --scope and --objective apply to both.
    """
    from cosmic_opt.reporting.differences import difference_keys, difference_text  # numba takes a second to load

    edits = request.edits
    if not any(getattr(edits, name) for name in CHANGES):
        raise SpecError(
            "nothing is changed", where=Where("what-if"), hint="add --set memory_capacity=80GB or --require"
        )
    baseline = Problem.load(request.name).edit(Edits(scope=edits.scope, objective=edits.objective))
    difference = baseline.what_if(request.problem, seed=request.seed)
    request.output.result("what-if", difference_keys(difference), difference_text(request.title, difference))
    return DONE if difference.changed.design else INFEASIBLE


def sweep(
    request: Request,
    over: Annotated[
        str, typer.Option("--over", metavar="NAME=VALUES", help="memory_capacity=24GB:192GB:8, or tp=1,2,4.")
    ],
) -> int:
    """Solve at every value of one number (data or a parameter); show the optimum and where the design changes."""
    from cosmic_opt.reporting.differences import sweep_keys, sweep_row, sweep_text

    points = []
    for point in request.problem.sweep(over, seed=request.seed):
        points.append(point)
        request.output.log("  ".join(part for part in sweep_row(point) if part))
    swept = request.problem.range_of(over)
    request.output.result("sweep", sweep_keys(swept, points), sweep_text(request.title, swept, points))
    return DONE if any(point.answer.design for point in points) else INFEASIBLE


def add(app: typer.Typer) -> None:
    """Add the commands."""
    problem_command(app, "what-if", what_if)
    problem_command(app, "sweep", sweep)
