"""Files of reference rows: recognised by their content, each row predicted by its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from cosmic_opt.analysis.astra_sim_rows import Prediction, Row, Traces, predict_collective, predict_workload, traces_in
from cosmic_opt.analysis.validation.kinds import LARGEST, ROW_KINDS, Outcome
from cosmic_opt.analysis.validation.measured import measured_of, unusable
from cosmic_opt.analysis.validation.report import Facts, ValidationReport, ValidationRow, scale_of, summarise
from cosmic_opt.analysis.validation.row_keys import unread
from cosmic_opt.analysis.validation.themis import predict_themis, themis_rows
from cosmic_opt.analysis.validation.themis_bars import bar_rows, predict_bar
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import CosmicError, SpecError, Where, nearest
from cosmic_opt.psa.json_document import read_json

NOT_PREDICTED = "not predicted by this version"
SOURCE = Where("--source")
ROWS = "give a JSON file of reference rows"
POINTS, BARS = "all_reduce_time_us", "end_to_end_breakdown"
"""What a file of Themis' figures has."""
ASTRA_SIM_FILES = {"astrasim_collectives": False, "astrasim_workloads": True}
"""Whether the rows of a file name a workload."""
Predict = Callable[[Row, float | None], Prediction]
"""Maps a row and what was measured to a prediction and a note."""


def shipped_files() -> tuple[Path, ...]:
    """Return the files of published measurements that come with the program, inside the wheel or the repository."""
    return tuple(sorted((data_root() / "benchmarks" / "data").glob("*.json")))


def validate_file(path: Path | str, *, traces: Path | None = None, source: str | None = None) -> ValidationReport:
    """Return the report on a JSON file of reference rows; `traces` holds a folder or archive per workload.

    Raises:
        SpecError: the file cannot be read, is not JSON, is not a list of reference rows, or has no row of `source`.
    """
    return validate_files([Path(path)], traces=traces, source=source)


def validate_files(paths: Sequence[Path], *, traces: Path | None = None, source: str | None = None) -> ValidationReport:
    """Return one report on the rows of several files, of one `source` only if it is given.

    Raises:
        SpecError: as `validate_file`, or there is no file.
    """
    if not paths:
        raise SpecError("no rows come with this installation", where=Where("--rows"), hint="give a file: --rows FILE")
    documents = [(_read(path), Where(file=str(path))) for path in paths]
    if source is not None:
        documents = _of_source(documents, source)
    reports = [validate(data, where=where, traces=traces) for data, where in documents]
    if len(reports) == 1:
        return reports[0]
    rows = tuple(row for report in reports for row in report.rows)
    formats = dict.fromkeys(report.summary.format for report in reports)
    return ValidationReport(rows, summarise(", ".join(formats), rows))


def validate(data: object, *, where: Where | None = None, traces: Path | None = None) -> ValidationReport:
    """Return the report on reference rows as read from JSON.

    Raises:
        SpecError: `data` is not in a known format.
    """
    if isinstance(data, dict) and (POINTS in data or BARS in data):
        return _themis(data, traces)
    name, records, predict = _recognise(data, where, traces)
    if predict is None:
        rows = tuple(_measured_row(record, index) for index, record in enumerate(records))
        return ValidationReport(rows, summarise(_kinds(records) or name, rows))
    rows = tuple(_row(record, index, predict) for index, record in enumerate(records))
    return ValidationReport(rows, summarise(name, rows))


def _themis(data: Row, tables: Path | None) -> ValidationReport:
    """Return the report on figures 8 (points) and 12 (bars) of Themis."""
    points = themis_rows(data[POINTS]) if POINTS in data else []
    bars = bar_rows(data[BARS]) if BARS in data else []
    rows = tuple(_row(record, index, predict_themis) for index, record in enumerate(points))
    predict = partial(predict_bar, tables=tables)
    rows += tuple(_outcome_row(record, index, predict, facts=False) for index, record in enumerate(bars))
    return ValidationReport(rows, summarise("themis", rows))


def _read(path: Path) -> object:
    where = Where(file=str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"the file cannot be read: {error.strerror}", where=where, hint="give an existing file"
        ) from error
    except UnicodeDecodeError:
        raise SpecError("the file is not UTF-8 text", where=where, hint=ROWS) from None
    return read_json(text, str(path), hint=ROWS)


def _of_source(documents: Sequence[tuple[object, Where]], source: str) -> list[tuple[object, Where]]:
    """Return the rows of one source, per file that has any."""
    kept, known = list[tuple[object, Where]](), Counter[str]()
    for data, where in documents:
        rows = data.get("rows", data.get("cases")) if isinstance(data, dict) else data
        records = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        known.update(str(row["source"]) for row in records if "source" in row)
        chosen = [row for row in records if row.get("source") == source]
        if chosen:
            kept.append(({"rows": chosen}, where))
    if not kept:
        hint = nearest(source, known) or "no row of this file has a 'source': leave --source out"
        raise SpecError(f"no row of the source {source!r}", where=SOURCE, hint=hint)
    return kept


def _recognise(data: object, where: Where | None, traces: Path | None) -> tuple[str, Sequence[object], Predict | None]:
    """Return the name of the format, its rows, and how to predict one; None: by the kind of each row."""
    if isinstance(data, dict):
        if data.get("cases") and isinstance(data["cases"], list):
            cases = data["cases"]
            replayed = {"workload" in row for row in cases if isinstance(row, dict)}
            names = [name for name, of_workloads in ASTRA_SIM_FILES.items() if of_workloads in replayed]
            find = None if traces is None else traces_in(traces)
            return ", ".join(names) or next(iter(ASTRA_SIM_FILES)), cases, partial(_astra_sim_row, traces=find)
        if data.get("rows") and isinstance(data["rows"], list):
            return "rows", data["rows"], None
    if isinstance(data, list) and data and all(isinstance(record, dict) for record in data):
        return "rows", data, None
    raise SpecError(
        "this is not a file of reference rows",
        where=where,
        hint="an object with 'cases' or 'rows', or a list of objects, at least one",
    )


def _astra_sim_row(record: Row, measured: float | None, traces: Traces | None) -> Prediction:
    """Return what ASTRA-sim reports: of a workload if the row names one, else of a collective."""
    if "workload" in record:
        return predict_workload(record, measured, traces)
    if "collective" not in record:
        return None, "the row has neither a 'collective' nor a 'workload'"
    return predict_collective(record, measured)


def _kinds(records: Sequence[object]) -> str:
    """Return the names of the kinds of rows that occur."""
    found = {_kind(record) for record in records if isinstance(record, dict)}
    return ", ".join(name for name in ROW_KINDS if name in found)


def _kind(record: Row) -> str | None:
    return next((name for name in ROW_KINDS if ROW_KINDS.get(name).matches(record)), None)


def _measured_row(record: object, index: int) -> ValidationRow:
    """Return a row of measurements, predicted by its kind."""
    name = _kind(record) if isinstance(record, dict) else None
    if name is None:
        return _outcome_row(record, index, None)
    assert isinstance(record, dict), "only objects have a kind"
    kind = ROW_KINDS.get(name)
    row, not_read = _outcome_row(record, index, kind.predict), unread(record, kind.keys)
    return replace(row, note=_joined(row.note, not_read), not_read=not_read)


def _outcome_row(
    record: object, index: int, predict: Callable[[Row], Outcome] | None, *, facts: bool = True
) -> ValidationRow:
    if not isinstance(record, dict):
        return ValidationRow(f"row {index}", None, None, None, "the row is not an object")
    name, measured, reason = _id(record, index), measured_of(record), unusable(record)
    if predict is None:
        return ValidationRow(name, None, measured, None, _joined(reason, NOT_PREDICTED))
    try:
        outcome = _finite(predict, record)
    except CosmicError as refusal:
        why = _joined(reason, f"the row cannot be predicted: {refusal.message}")
        return ValidationRow(name, None, measured, None, why)
    error = _error(outcome.predicted, measured)
    counted = facts and (outcome.ranked is None or outcome.ranked.absolute)
    return ValidationRow(
        name,
        outcome.predicted,
        measured,
        error,
        _joined(reason, outcome.note),
        _facts(record, outcome) if counted else None,
        outcome.ranked,
        outcome.choice,
        outcome.confidence,
    )


def _finite(predict: Callable[[Row], Outcome], record: Row) -> Outcome:
    """Return the outcome of a row whose numbers may be of any size.

    Raises:
        CosmicError: the row is refused, its arithmetic fails, or what comes out is no plausible number.
    """
    try:
        with np.errstate(all="ignore"):  # what overflows is refused below
            outcome = predict(record)
    except (ArithmeticError, ValueError) as failure:
        raise SpecError(f"its numbers cannot be computed with: {failure}", hint="check the sizes and degrees") from None
    value = outcome.predicted
    if value is not None and not 1 / LARGEST < value < LARGEST:
        raise SpecError(f"its numbers give {value:g}, which cannot be", hint="check the sizes and degrees")
    return outcome


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _id(record: Row, index: int) -> str:
    """Return the id of a row; one without is named by its place, a logged run by its file, too."""
    if record.get("id") is not None:
        return str(record["id"])
    return f"{record['file']}/{index}" if "file" in record else f"row {index}"


def _error(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else (predicted - measured) / measured


def _facts(record: Row, outcome: Outcome) -> Facts:
    fold = record.get("fold")
    return Facts(
        source=str(record.get("source", "not stated")),
        gpu=outcome.gpu,
        kind=outcome.group,
        scale=scale_of(outcome.gpus),
        fold=fold if isinstance(fold, int) and not isinstance(fold, bool) else None,
        metric=str(record.get("metric")),
        primary=outcome.primary,
    )


def _row(record: object, index: int, predict: Predict) -> ValidationRow:
    if not isinstance(record, dict):
        return ValidationRow(f"row {index}", None, None, None, "the row is not an object")
    name, measured = _id(record, index), measured_of(record)
    try:
        predicted, note = predict(record, measured)
    except (ArithmeticError, ValueError) as failure:
        why = f"the row cannot be predicted: its numbers cannot be computed with: {failure}"
        return ValidationRow(name, None, measured, None, why)
    return ValidationRow(name, predicted, measured, _error(predicted, measured), note)
