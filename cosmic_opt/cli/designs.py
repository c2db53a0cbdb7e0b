"""`enumerate` and `sample`: feasible designs, one a line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.cli.exits import DONE, INFEASIBLE, LIMIT
from cosmic_opt.cli.files import check_target, whole_file
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import LimitError, Where
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.conflict import minimal_conflict
from cosmic_opt.reporting.counts import why_empty
from cosmic_opt.reporting.designs import design_lines
from cosmic_opt.reporting.numbers import count_text

FORMATS = (".jsonl", ".csv")
MOST_SAMPLES = 1_000_000
MOST_IN_A_FILE = 20_000_000

Out = Annotated[Path | None, typer.Option("--out", help="Write a .jsonl or .csv file instead of stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file that --out names.")]


def enumerate_designs(
    request: Request,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many designs.")] = None,
    out: Out = None,
    force: Force = False,
) -> int:
    """Print every feasible design once, in a fixed order, as JSON lines in base units."""
    if out is not None:
        check_target(out, FORMATS, force=force)
    problem = request.problem
    size = problem.feasible.size
    if out is not None and limit is None and size > MOST_IN_A_FILE:
        raise LimitError(
            f"{count_text(size)} designs are too many for a file",
            where=Where("--out"),
            hint=f"give --limit; at most {MOST_IN_A_FILE:,} are written without it",
        )
    return _deliver(request, "enumerate", _first(problem.enumerate(), limit), out, none_found=INFEASIBLE)


def sample_designs(
    request: Request,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many designs.")] = 1,
    distinct: Annotated[bool, typer.Option("--distinct", help="No design twice.")] = False,
    out: Out = None,
    force: Force = False,
) -> int:
    """Print uniformly random feasible designs, as JSON lines in base units."""
    if out is not None:
        check_target(out, FORMATS, force=force)
    if number > MOST_SAMPLES:
        raise LimitError(
            f"{number:,} samples at a time", where=Where("--number"), hint=f"at most {MOST_SAMPLES:,}; or enumerate"
        )
    batch = request.problem.sample(number, seed=request.seed, distinct=distinct)
    request.output.log(f"seed {request.seed}")
    if 0 < len(batch) < number:
        request.output.log(f"only {len(batch):,} of {number:,} designs: no more were found")
    return _deliver(request, "sample", iter([batch]), out, none_found=LIMIT)


def add(app: typer.Typer) -> None:
    """Add both commands."""
    problem_command(app, "enumerate", enumerate_designs)
    problem_command(app, "sample", sample_designs)


def _first(batches: Iterator[DesignBatch], limit: int | None) -> Iterator[DesignBatch]:
    for batch in batches:
        if limit is not None and len(batch) >= limit:
            yield batch.take(slice(limit))
            return
        limit = None if limit is None else limit - len(batch)
        yield batch


def _deliver(
    request: Request, command: str, batches: Iterator[DesignBatch], out: Path | None, *, none_found: int
) -> int:
    """Write the designs; without any, say why on stderr. `none_found` is the exit code when simulation refused all."""
    problem, output = request.problem, request.output
    simulated = [rule for rule in problem.parameter_set.constraints if rule.simulated]
    if simulated and problem.feasible.size:
        output.log(f"filtered by simulation: {'; '.join(rule.text for rule in simulated)}")
    filled = (batch for batch in batches if len(batch))
    first = next(filled, None)
    if first is None:
        return none_found if _refused_all(problem, output) else INFEASIBLE
    batches = chain([first], filled)
    if out is None:
        for batch in batches:
            print("\n".join(design_lines(batch)))
        return DONE
    written = _write(batches, problem, out)
    output.result(command, {"designs": written, "file": str(out)}, f"{written:,} designs in {out}")
    return DONE


def _refused_all(problem: Problem, output: Output) -> bool:
    """Say why there is no design; tell whether only rules on simulated quantities stand in the way."""
    if problem.feasible.size:
        output.log("error: no design found that obeys the rules on simulated quantities\n  hint: relax them")
        return True
    output.log(f"error: no feasible design\n\n{why_empty(minimal_conflict(problem.parameter_set))}")
    return False


def _write(batches: Iterator[DesignBatch], problem: Problem, out: Path) -> int:
    written = 0
    with whole_file(out) as file:
        table = csv.writer(file)
        if out.suffix == ".csv":
            table.writerow(problem.parameter_set.positions)
        for batch in batches:
            written += len(batch)
            if out.suffix == ".csv":
                table.writerows(point.values() for point in batch.points())
            else:
                file.writelines(f"{line}\n" for line in design_lines(batch))
    return written
