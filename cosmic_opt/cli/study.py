"""`study list|show|export`: what the files of `solve --study` hold."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.files import check_target, require_file, whole_file
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where

FORMATS = (".csv", ".json", ".parquet")
File = Annotated[Path, typer.Argument(metavar="FILE", help="A file that 'solve --study' made.")]
HERE = Where("FILE")


def add(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="What the files of 'solve --study' hold.", no_args_is_help=False)
    for name, command in (("list", list_studies), ("show", show), ("export", export)):
        group.command(name, cls=Command)(command)
    app.add_typer(group, name="study")


def list_studies(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder.")] = Path(),
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List the studies in a folder; other files are passed over, a damaged study says so."""
    from cosmic_opt.reporting.studies import list_text, summary_keys, summary_of
    from cosmic_opt.search.study import read_study
    from cosmic_opt.search.study_store import is_study

    found: list[tuple[str, Any]] = []
    for path in _files(folder):
        if not is_study(path):
            continue
        try:
            with read_study(path, HERE) as (identity, connection):
                found.append((path.name, summary_of(identity, connection)))
        except SpecError as error:
            found.append((path.name, error.message))
    keys = [
        {"file": name, "problem": None, "error": summary} if isinstance(summary, str) else summary_keys(name, summary)
        for name, summary in found
    ]
    Output(as_json, quiet).result("study-list", {"studies": keys}, list_text(found))
    return DONE


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"cannot read the folder {str(folder)!r}: {reason}", where=Where("DIR")) from None


def show(file: File, as_json: Json = False, quiet: Quiet = False) -> int:
    """Show what a study is of, how far its search is, and how it ended."""
    from cosmic_opt.reporting.studies import summary_keys, summary_of, summary_text
    from cosmic_opt.search.study import read_study

    require_file(file, "FILE")
    with read_study(file, HERE) as (identity, connection):
        summary = summary_of(identity, connection)
    Output(as_json, quiet).result("study-show", summary_keys(str(file), summary), summary_text(str(file), summary))
    return DONE


def export(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="Write .csv, .json or .parquet.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write every design that was scored, with its score, as a table."""
    from cosmic_opt.reporting.studies import evaluation_rows
    from cosmic_opt.search.study import read_study

    require_file(file, "FILE")
    check_target(out, FORMATS, force=force)
    with read_study(file, HERE) as (identity, connection):
        blocks = evaluation_rows(identity, connection)
        if out.suffix == ".parquet":
            number = _write_parquet(out, blocks)
        else:
            with whole_file(out) as target:
                number = (_write_csv if out.suffix == ".csv" else _write_json)(target, blocks)
    keys = {"file": str(out), "evaluations": number}
    Output(as_json, quiet).result("study-export", keys, f"{number:,} evaluations in {out}")
    return DONE


def _write_csv(target: IO[str], blocks: Iterator[list[dict[str, Any]]]) -> int:
    number = 0
    writer: csv.DictWriter[str] | None = None
    for rows in blocks:
        if writer is None:
            writer = csv.DictWriter(target, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
        writer.writerows(rows)
        number += len(rows)
    return number


def _write_json(target: IO[str], blocks: Iterator[list[dict[str, Any]]]) -> int:
    number = 0
    target.write("[")
    for rows in blocks:
        for row in rows:
            target.write(f"{',' if number else ''}\n{json.dumps(row)}")
            number += 1
    target.write("\n]\n")
    return number


def _write_parquet(out: Path, blocks: Iterator[list[dict[str, Any]]]) -> int:
    import pyarrow as pa

    from cosmic_opt.reporting.parquet import write_whole

    tables = [pa.Table.from_pylist(rows) for rows in blocks]
    table = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    write_whole(table, out, "free some space, or give another file")
    return int(table.num_rows)
