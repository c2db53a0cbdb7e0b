"""`validation`: predictions beside reference numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import cosmic_opt.interop  # noqa: F401 - enters the reader of traces
from cosmic_opt.analysis.validation import ValidationReport, validate, validate_file
from cosmic_opt.catalog.store import read_text
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.files import require_file
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.reporting.validations import validation_keys, validation_text

SOURCE = Where("--source")


def validation(
    rows: Annotated[Path, typer.Option("--rows", metavar="FILE", help="JSON file of reference rows.")],
    traces: Annotated[
        Path | None,
        typer.Option("--traces", metavar="DIR", help="Folder with a folder or .tar.xz of traces per workload."),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only the rows of this source.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Predict every row of a file of reference numbers, and print the errors."""
    output = Output(as_json, quiet)
    require_file(rows, "--rows")
    if traces is not None and not traces.is_dir():
        raise SpecError(f"there is no folder {str(traces)!r}", where=Where("--traces"), hint="name a folder")
    report = validate_file(rows, traces=traces) if source is None else _of_source(rows, source)
    output.result("validation", validation_keys(report), validation_text(report))
    return DONE


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validation", cls=Command)(validation)


def _of_source(path: Path, source: str) -> ValidationReport:
    """Return the report on the rows whose `source` is `source`."""
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the file is not JSON: {error}", where=Where(str(path)), hint="give a JSON file") from None
    rows = data.get("rows", data.get("cases")) if isinstance(data, dict) else data
    records = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    known = {str(row["source"]) for row in records if "source" in row}
    if source not in known:
        hint = nearest(source, known) or "no row of this file has a 'source': leave --source out"
        raise SpecError(f"no row of the source {source!r}", where=SOURCE, hint=hint)
    return validate({"rows": [row for row in records if row.get("source") == source]}, where=Where(str(path)))
