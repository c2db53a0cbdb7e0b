"""`what-if` and `sweep`: how the answer moves when the question does."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.cli.exits import DONE, INFEASIBLE, INTERRUPTED
from cosmic_opt.cli.files import check_target, whole_file
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
    refine: Annotated[
        int, typer.Option("--refine", min=0, max=100, help="Searches to locate each change of the best design.")
    ] = 16,
    out: Annotated[Path | None, typer.Option("--out", help="Also write a .csv or .json file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that --out names.")] = False,
) -> int:
    """Solve at every value of one number (data or a parameter); show the optimum and where the design changes."""
    from cosmic_opt.analysis.breakpoints import Breakpoint  # numba takes a second to load
    from cosmic_opt.analysis.sweep import Point
    from cosmic_opt.reporting.differences import sweep_keys, sweep_row, sweep_rows, sweep_text

    if out is not None:
        check_target(out, (".csv", ".json"), force=force)
    swept = request.problem.sweep(over, seed=request.seed)
    points, breaks, interrupted = list[Point](), list[Breakpoint](), False
    try:
        for point in swept.points():
            points.append(point)
            request.output.log("  ".join(part for part in sweep_row(point) if part))
        breaks = request.problem.breakpoints(swept, points, solves=refine)
    except KeyboardInterrupt:
        if not points:
            raise
        interrupted = True
    keys = sweep_keys(swept.over, points, breaks, interrupted=interrupted)
    if out is not None:
        with whole_file(out) as file:
            if out.suffix == ".csv":
                csv.writer(file).writerows(sweep_rows(points))
            else:
                file.write(json.dumps({"schema": "cosmic-opt/sweep@1", **keys}, allow_nan=False) + "\n")
    request.output.result("sweep", keys, sweep_text(request.title, swept.over, points, breaks, interrupted=interrupted))
    if interrupted:
        return INTERRUPTED
    return DONE if any(point.answer.design for point in points) else INFEASIBLE


def add(app: typer.Typer) -> None:
    """Add the commands."""
    problem_command(app, "what-if", what_if)
    problem_command(app, "sweep", sweep)
