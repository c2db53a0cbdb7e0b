"""Predictions beside reference numbers, row by row: nothing is skipped, and a row without a prediction says why.

A file is recognised by its content. ASTRA-sim's collectives and, given their traces, workloads are predicted; rows of
other known formats are listed with `predicted` None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cosmic_opt.analysis.astra_sim_rows import Prediction, Row, predict_collective, predict_workload, traces_in
from cosmic_opt.errors import SpecError, Where

NOT_PREDICTED = "not predicted by this version"


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """One row: `error` is (predicted - measured) / measured; None where either is missing or measured is 0.

    Numbers have the unit of the file's own rows (ASTRA-sim: ns).
    """

    id: str
    predicted: float | None
    measured: float | None
    error: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class ValidationSummary:
    """Counts, and absolute relative errors of the rows that have one; None when there is no such row."""

    format: str
    rows: int
    predicted: int
    exact: int
    median_error: float | None
    p90_error: float | None
    worst_error: float | None


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Every row of a file, in its order, and the summary."""

    rows: tuple[ValidationRow, ...]
    summary: ValidationSummary


def validate_file(path: Path | str, *, traces: Path | None = None) -> ValidationReport:
    """Return the report on a JSON file of reference rows; `traces` holds a folder or archive per workload.

    Raises:
        SpecError: the file cannot be read, is not JSON, or is not a list of reference rows.
    """
    where = Where(file=str(path))
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(
            f"the file cannot be read: {error.strerror}", where=where, hint="give an existing file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f"the file is not JSON: {error}", where=where, hint="give a JSON file of reference rows"
        ) from error
    return validate(data, where=where, traces=traces)


def validate(data: object, *, where: Where | None = None, traces: Path | None = None) -> ValidationReport:
    """Return the report on reference rows as read from JSON.

    Raises:
        SpecError: `data` is not in a known format.
    """
    name, records, predict = _recognise(data, where, traces)
    rows = tuple(_row(record, index, predict) for index, record in enumerate(records))
    return ValidationReport(rows, _summary(name, rows))


Predict = Callable[[Row, float | None], Prediction]
"""Maps a row and what was measured to a prediction and a note."""


def _recognise(data: object, where: Where | None, traces: Path | None) -> tuple[str, Sequence[object], Predict]:
    """Return the name of the format, its rows and how to predict one."""
    if isinstance(data, dict):
        if isinstance(data.get("cases"), list):
            if "workloads" in data:
                find = None if traces is None else traces_in(traces)
                return "astrasim_workloads", data["cases"], partial(predict_workload, traces=find)
            return "astrasim_collectives", data["cases"], predict_collective
        if isinstance(data.get("rows"), list):
            return "rows", data["rows"], _no_prediction
        if "all_reduce_time_us" in data:
            return "themis", _themis_rows(data["all_reduce_time_us"]), _no_prediction
    if isinstance(data, list) and data and all(isinstance(record, dict) for record in data):
        return "rows", data, _no_prediction
    raise SpecError(
        "this is not a file of reference rows",
        where=where,
        hint="an object with 'cases' or 'rows', or a list of objects",
    )


def _themis_rows(figure: object) -> list[object]:
    """Return one row per topology, scheduler and size of the digitised all-reduce figure."""
    if not isinstance(figure, dict) or not isinstance(figure.get("time_us"), dict):
        return []
    sizes = figure.get("sizes_GB")
    rows = list[object]()
    for topology, schedulers in figure["time_us"].items():
        for scheduler, times in (schedulers if isinstance(schedulers, dict) else {}).items():
            for size, time in zip(sizes or [], times or [], strict=False):
                rows.append({"id": f"{topology}/{scheduler}/{size}", "value": time})
    return rows


def _row(record: object, index: int, predict: Predict) -> ValidationRow:
    if not isinstance(record, dict):
        return ValidationRow(f"row {index}", None, None, None, "the row is not an object")
    name = str(record.get("id", f"row {index}"))
    measured = _measured(record)
    predicted, note = predict(record, measured)
    error = None
    if predicted is not None and measured:
        error = (predicted - measured) / measured
    return ValidationRow(name, predicted, measured, error, note)


def _measured(record: Row) -> float | None:
    for key in ("time_ns", "value", "cycles_ns"):
        value = record.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
    return None


def _no_prediction(record: Row, measured: float | None) -> tuple[None, str]:
    return None, NOT_PREDICTED


def _summary(name: str, rows: Sequence[ValidationRow]) -> ValidationSummary:
    errors = sorted(abs(row.error) for row in rows if row.error is not None)

    def quantile(share: float) -> float | None:
        return errors[max(0, math.ceil(share * len(errors)) - 1)] if errors else None

    return ValidationSummary(
        format=name,
        rows=len(rows),
        predicted=sum(row.predicted is not None for row in rows),
        exact=sum(row.predicted is not None and row.predicted == row.measured for row in rows),
        median_error=quantile(0.5),
        p90_error=quantile(0.9),
        worst_error=quantile(1.0),
    )
