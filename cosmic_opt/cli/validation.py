"""`validation`: predictions beside reference numbers."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosmic_opt.cli.exits import BAD_INPUT, DONE
from cosmic_opt.cli.files import check_target, require_file, whole_file
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where

if TYPE_CHECKING:
    from cosmic_opt.analysis.validation import ValidationReport

PAGE = (".html",)
HTML = Where("--html")
SHOWN = 3
"""Reasons that the error names when no row is predicted."""


def validation(
    rows: Annotated[
        Path | None,
        typer.Option("--rows", metavar="FILE", help="JSON file of reference rows; without it, those shipped."),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            metavar="DIR",
            help="Folder with a folder or .tar.xz of traces, or a .txt layer table, per workload.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only the rows of this source.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page of plots; it needs no network.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Predict every row of a file of reference numbers, and print the errors."""
    from cosmic_opt.analysis.validation import shipped_files, validate_files
    from cosmic_opt.reporting.validations import validation_keys, validation_text

    output = Output(as_json, quiet)
    if rows is not None:
        require_file(rows, "--rows")
    if traces is not None and not traces.is_dir():
        raise SpecError(f"there is no folder {str(traces)!r}", where=Where("--traces"), hint="name a folder")
    if html is not None:
        check_target(html, PAGE, force=force, where=HTML)
    report = validate_files(shipped_files() if rows is None else [rows], traces=traces, source=source)
    if html is not None:
        _write_page(html, report, output)
    output.result("validation", validation_keys(report), validation_text(report))
    if report.summary.predicted:
        return DONE
    print(f"error: 0 of {report.summary.rows:,} rows are predicted\n  hint: {_reasons(report)}", file=sys.stderr)
    return BAD_INPUT


def _reasons(report: ValidationReport) -> str:
    """Return the most frequent reasons why rows are not predicted, as the rows' notes say."""
    found = Counter(row.note or "no reason given" for row in report.rows)
    shown = [f"{note} ({times:,} rows)" if times > 1 else note for note, times in found.most_common(SHOWN)]
    return "; ".join(shown) + (f"; {len(found) - SHOWN:,} reasons more" if len(found) > SHOWN else "")


def _write_page(path: Path, report: ValidationReport, output: Output) -> None:
    from cosmic_opt.reporting.validation_page import validation_page

    with whole_file(path, where=HTML) as file:
        file.write(validation_page(report))
    output.log(f"wrote {path}")


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validation", cls=Command)(validation)
