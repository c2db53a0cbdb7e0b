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
from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.feasibility.conflict import first_conflict
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.counts import why_empty
from cosmic_opt.reporting.designs import design_lines
from cosmic_opt.reporting.numbers import count_text
from cosmic_opt.reporting.parquet import PartFolder, digest_of, parts

FORMATS = (".jsonl", ".csv")
PARQUET = ".parquet"
MOST_SAMPLES = 1_000_000
MOST_IN_A_FILE = 20_000_000
MOST_IN_A_FOLDER = 10_000_000_000

Out = Annotated[Path | None, typer.Option("--out", help="Write a .jsonl or .csv file instead of stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file that --out names.")]


def enumerate_designs(
    request: Request,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many designs.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write .jsonl or .csv, or a folder .parquet.")] = None,
    force: Force = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the .parquet folder of a stopped run.")] = False,
    resume_after: Annotated[
        str | None, typer.Option("--resume-after", metavar="TOKEN", help="Start after the end of an earlier run.")
    ] = None,
) -> int:
    """Print every feasible design once, in a fixed order, as JSON lines in base units."""
    problem = request.problem
    size = problem.feasible.size
    if resume and (out is None or out.suffix != PARQUET):
        raise SpecError(
            "--resume goes on with a .parquet folder", where=Where("--resume"), hint="add --out NAME.parquet"
        )
    if out is not None and out.suffix == PARQUET:
        return _enumerate_parts(request, out, limit, resume=resume)
    if out is not None:
        check_target(out, (*FORMATS, PARQUET), force=force)
    start = 0 if resume_after is None else read_token(resume_after, problem)
    if out is not None and limit is None and size - start > MOST_IN_A_FILE:
        raise LimitError(
            f"{count_text(size - start)} designs are too many for one file",
            where=Where("--out"),
            hint=f"give --limit, or a .parquet folder; at most {MOST_IN_A_FILE:,} are written without either",
        )
    code = _deliver(request, "enumerate", _first(problem.enumerate(start), limit), out, none_found=INFEASIBLE)
    if code == DONE and limit is not None and start + limit < size and not _simulated(problem):
        request.output.log(f"to go on: --resume-after {token_of(start + limit, problem)}")
    return code


def _enumerate_parts(request: Request, out: Path, limit: int | None, *, resume: bool) -> int:
    """Write a Parquet folder part by part; its parts are whole whenever the run is stopped."""
    problem, output = request.problem, request.output
    size = problem.feasible.size
    if _simulated(problem):
        hint = "enumerate to .jsonl, or drop the rule"
        raise SpecError("a .parquet folder cannot be filtered by simulation", where=Where("--out"), hint=hint)
    if size == 0:
        _refused_all(problem, output)
        return INFEASIBLE
    stop = size if limit is None else min(size, limit)
    if stop > MOST_IN_A_FOLDER:
        hint = f"give --limit; at most {MOST_IN_A_FOLDER:,}"
        raise LimitError(f"{count_text(stop)} designs are too many to write", where=Where("--out"), hint=hint)
    folder = PartFolder(out, problem.parameter_set, size)
    start = folder.open(resume=resume)
    for number, (first, last) in enumerate(parts(start, stop), 1):
        folder.write(first, problem.parameter_set.batch(problem.feasible.span(first, last)))
        if number & (number - 1) == 0 or last == stop:
            output.log(f"{last:,} of {stop:,} designs, {100 * last / stop:.2f} %")
    output.result("enumerate", {"designs": stop, "file": str(out)}, f"{stop:,} designs in {out}")
    return DONE


def token_of(rank: int, problem: Problem) -> str:
    """Return the token that names the first `rank` designs of a problem."""
    return f"{rank}-{digest_of(problem.parameter_set)}"


def read_token(token: str, problem: Problem) -> int:
    """Return the rank after which to go on.

    Raises:
        SpecError: not a token, or one of another problem.
    """
    where = Where("--resume-after")
    rank, _, digest = token.partition("-")
    if not rank.isdecimal() or not digest:
        raise SpecError(f"{token!r} is not a token", where=where, hint="copy it from the end of an earlier run")
    if digest != digest_of(problem.parameter_set):
        raise SpecError("the token belongs to another problem", where=where, hint="give the options of the first run")
    if int(rank) >= problem.feasible.size:
        raise SpecError("there are no designs after this token", where=where, hint="the enumeration is complete")
    return int(rank)


def _simulated(problem: Problem) -> bool:
    return any(rule.simulated for rule in problem.parameter_set.constraints)


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
    output.log(f"error: no feasible design\n\n{why_empty(first_conflict(problem.parameter_set))}")
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
