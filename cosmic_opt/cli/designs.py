"""`enumerate` and `sample`: feasible designs, one a line, or in files that a stopped run goes on with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import typer

from cosmic_opt.api import Problem
from cosmic_opt.cli.exits import DONE, INFEASIBLE, LIMIT
from cosmic_opt.cli.files import check_target, whole_file
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.output import Output
from cosmic_opt.cli.progress import progress_bar
from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.feasibility.conflict import first_conflict
from cosmic_opt.feasibility.feasible_set import CHUNK
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.counts import why_empty
from cosmic_opt.reporting.design_source import Block, DesignSource
from cosmic_opt.reporting.line_file import LineFile, Position
from cosmic_opt.reporting.lines import CsvLines, JsonLines
from cosmic_opt.reporting.numbers import count_text
from cosmic_opt.reporting.parquet import PartFolder, arrow_table, write_whole

FORMATS = (".jsonl", ".csv", ".parquet")
PARQUET = ".parquet"
MOST_SAMPLES = 1_000_000
MOST_IN_A_FILE = 20_000_000
MOST_IN_A_FOLDER = 10_000_000_000

With = Annotated[
    str | None, typer.Option("--with", metavar="NAMES", help="Metrics to add: step_time,memory_per_npu,...")
]


class Sink(Protocol):
    """Where designs go, block by block."""

    @property
    def chunk(self) -> int:
        """Blocks end at multiples of so many ranks."""

    def open(self, *, resume: bool) -> Position:
        """Begin, or go on; return where."""

    def add(self, block: Block, designs: int) -> None:
        """Take a block; there are `designs` before it."""

    def finish(self) -> None:
        """Make what was written complete."""

    def discard(self) -> None:
        """Remove what was begun: there is no design."""


def enumerate_designs(
    request: Request,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many designs.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write .jsonl or .csv, or a folder .parquet.")] = None,
    with_: With = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the .jsonl or .csv file that --out names.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the --out of a stopped run.")] = False,
    resume_after: Annotated[
        str | None, typer.Option("--resume-after", metavar="TOKEN", help="Start after the end of an earlier run.")
    ] = None,
) -> int:
    """Print every feasible design once, in a fixed order, as JSON lines in base units."""
    if resume and out is None:
        raise SpecError("--resume goes on with a file", where=Where("--resume"), hint="add --out NAME")
    if out is not None and (out.suffix != PARQUET or not resume):
        _check_out(out, force=force)
    source = _source(request.problem, with_)
    start = 0 if resume_after is None else source.read_token(resume_after)
    if out is not None:
        _refuse_too_many(source, out, start, limit)
    if source.size == 0:
        _say_why_none(request.problem, request.output)
        return INFEASIBLE
    if source.filtered:
        request.output.log(f"filtered by simulation: {'; '.join(source.filtered)}")
    written = _pour(source, _sink(source, out, start), start, limit, resume=resume, quiet=request.output.quiet)
    if not written.held:
        _say_why_none(request.problem, request.output)
        return INFEASIBLE
    if resume and limit is not None and written.held > limit:
        held = f"{out} already held {written.held:,} designs, more than --limit {limit:,}"
        request.output.log(f"{held}: all of them are kept, and none is added")
    token = source.token(written.reached) if written.reached < source.size else None
    if token is not None:
        request.output.log(f"to go on: --resume-after {token}")
    if out is not None:
        keys = {"designs": written.held, "file": str(out), "resume_after": token}
        request.output.result("enumerate", keys, f"{written.held:,} designs in {out}")
    return DONE


def sample_designs(
    request: Request,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many designs.")] = 1,
    distinct: Annotated[bool, typer.Option("--distinct", help="No design twice.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write a .jsonl, .csv or .parquet file.")] = None,
    with_: With = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that --out names.")] = False,
) -> int:
    """Print uniformly random feasible designs, as JSON lines in base units."""
    if out is not None:
        check_target(out, FORMATS, force=force)
    if number > MOST_SAMPLES:
        raise LimitError(
            f"{number:,} samples at a time", where=Where("--number"), hint=f"at most {MOST_SAMPLES:,}; or enumerate"
        )
    source = _source(request.problem, with_)
    output = request.output
    if source.filtered and source.size:
        output.log(f"filtered by simulation: {'; '.join(source.filtered)}")
    batch = request.problem.sample(number, seed=request.seed, distinct=distinct)
    output.log(f"seed {request.seed}")
    if not len(batch):
        _say_why_none(request.problem, output)
        return LIMIT if source.size else INFEASIBLE
    if len(batch) < number:
        output.log(f"only {len(batch):,} of {number:,} designs: no more were found")
    if out is None:
        _print(source, batch)
        return DONE
    _write_sample(source, batch, out)
    output.result("sample", {"designs": len(batch), "file": str(out)}, f"{len(batch):,} designs in {out}")
    return DONE


def add(app: typer.Typer) -> None:
    """Add both commands."""
    problem_command(app, "enumerate", enumerate_designs)
    problem_command(app, "sample", sample_designs)


def _source(problem: Problem, with_: str | None) -> DesignSource:
    """Return the designs with the metrics that `--with` names."""
    names = [] if with_ is None else [name.strip() for name in with_.split(",")]
    if not all(names):
        raise SpecError("a name is empty", where=Where("--with"), hint="write for example step_time,memory_per_npu")
    return problem.designs(*names)


def _check_out(out: Path, *, force: bool) -> None:
    """Refuse what cannot be written; a Parquet folder is never replaced."""
    if out.suffix == PARQUET and force:
        hint = "remove it yourself, or add --resume to go on with it"
        raise SpecError("--force does not replace a folder", where=Where("--force"), hint=hint)
    if out.suffix != PARQUET or not out.exists():
        check_target(out, FORMATS, force=force)


def _refuse_too_many(source: DesignSource, out: Path, start: int, limit: int | None) -> None:
    """Refuse to fill a disk by accident."""
    wanted = source.size - start if limit is None else min(limit, source.size - start)
    if out.suffix == PARQUET and wanted > MOST_IN_A_FOLDER:
        hint = f"give --limit; at most {MOST_IN_A_FOLDER:,}"
        raise LimitError(f"{count_text(wanted)} designs are too many to write", where=Where("--out"), hint=hint)
    if out.suffix != PARQUET and wanted > MOST_IN_A_FILE and limit is None:
        hint = f"give --limit, or a .parquet folder; at most {MOST_IN_A_FILE:,} are written without either"
        raise LimitError(f"{count_text(wanted)} designs are too many for one file", where=Where("--out"), hint=hint)


def _sink(source: DesignSource, out: Path | None, start: int) -> Sink:
    parameter_set = source.measures.instance.parameter_set
    lines, manifest = JsonLines(parameter_set), source.manifest(start)
    if out is None:
        return _Stdout(start, lines)
    if out.suffix == PARQUET:
        return PartFolder(out, manifest, start, source.size)
    if out.suffix == ".jsonl":
        return LineFile(out, manifest, start, lines.text)
    table = CsvLines(parameter_set)
    return LineFile(out, manifest, start, table.text, table.header(source.measures.names))


@dataclass(frozen=True)
class _Stdout:
    """Designs as lines on stdout."""

    start: int
    lines: JsonLines
    chunk: int = CHUNK

    def open(self, *, resume: bool) -> Position:
        del resume  # the reader keeps what is printed
        return Position(self.start, 0, 0, self.start)

    def add(self, block: Block, designs: int) -> None:
        del designs
        print(self.lines.text(block.batch, block.metrics), end="")

    def finish(self) -> None:
        """Nothing is left to do."""

    def discard(self) -> None:
        """Nothing was printed."""


def _pour(source: DesignSource, sink: Sink, start: int, limit: int | None, *, resume: bool, quiet: bool) -> Position:
    """Send the designs that are missing to the sink; return how far it is then."""
    at = sink.open(resume=resume)
    left = None if limit is None else limit - at.held
    if left is not None and left <= 0:
        sink.finish()
        return at
    stop = source.size if limit is None or source.filtered else min(source.size, start + limit)
    with progress_bar(stop - start, quiet=quiet) as show:
        for block in source.blocks(at.rank, None if limit is None else limit - at.designs, sink.chunk):
            sink.add(block, at.designs)
            done = at.designs + len(block.batch)
            at = Position(block.last, done, done, block.last)
            show(at.rank - start)
    if at.held:
        sink.finish()
    else:
        sink.discard()
    return at


def _print(source: DesignSource, batch: DesignBatch) -> None:
    lines = JsonLines(batch.parameter_set)
    for first in range(0, len(batch), CHUNK):
        part = batch.take(slice(first, first + CHUNK))
        print(lines.text(part, source.measured(part)), end="")


def _write_sample(source: DesignSource, batch: DesignBatch, out: Path) -> None:
    metrics = source.measured(batch)
    if out.suffix == PARQUET:
        write_whole(arrow_table(batch, metrics), out, "give a file in a folder you may write")
        return
    with whole_file(out) as file:
        if out.suffix == ".csv":
            table = CsvLines(batch.parameter_set)
            file.write(table.header(source.measures.names))
            file.write(table.text(batch, metrics))
        else:
            file.write(JsonLines(batch.parameter_set).text(batch, metrics))


def _say_why_none(problem: Problem, output: Output) -> None:
    """Say on stderr why there is no design."""
    if problem.feasible.size:
        output.log("error: no design found that obeys the rules on simulated quantities\n  hint: relax them")
    else:
        output.log(f"error: no feasible design\n\n{why_empty(first_conflict(problem.parameter_set))}")
