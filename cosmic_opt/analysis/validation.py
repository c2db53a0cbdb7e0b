"""Predictions beside reference numbers, row by row: nothing is skipped, and a row without a prediction says why.

A file is recognised by its content. ASTRA-sim's collectives are predicted; rows of other known formats are listed
with `predicted` None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError, Where
from cosmic_opt.simulation.collective.astra_sim import AstraCase, AstraTiming, run_case

Row = Mapping[str, Any]

NOT_PREDICTED = "not predicted by this version"

TOPOLOGY_NAMES = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switch"}
COLLECTIVE_NAMES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllToAll": "all_to_all",
}
MULTIDIM_NAMES = {"baseline": "baseline", "localBWAware": "blueconnect"}


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


def validate_file(path: Path | str) -> ValidationReport:
    """Return the report on a JSON file of reference rows.

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
    return validate(data, where=where)


def validate(data: object, *, where: Where | None = None) -> ValidationReport:
    """Return the report on reference rows as read from JSON.

    Raises:
        SpecError: `data` is not in a known format.
    """
    name, records, predict = _recognise(data, where)
    rows = tuple(_row(record, index, predict) for index, record in enumerate(records))
    return ValidationReport(rows, _summary(name, rows))


Predict = Callable[[Row, float | None], tuple[float | None, str | None]]
"""Maps a row and what was measured to a prediction and a note."""


def _recognise(data: object, where: Where | None) -> tuple[str, Sequence[object], Predict]:
    """Return the name of the format, its rows and how to predict one."""
    if isinstance(data, dict):
        if isinstance(data.get("cases"), list):
            if "workloads" in data:
                return "astrasim_workloads", data["cases"], _no_prediction
            return "astrasim_collectives", data["cases"], _predict_astra_sim
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


def _predict_astra_sim(record: Row, measured: float | None) -> tuple[float | None, str | None]:
    """Return the time in ns of a collective on ASTRA-sim's congestion-unaware backend."""
    try:
        if _get(record, "backend") != "unaware":
            return None, f"backend {record['backend']!r} is {NOT_PREDICTED}"
        timing = run_case(astra_case(record))
    except InfeasibleError as error:
        return None, error.message
    except LimitError as error:
        return None, error.message
    except SpecError as error:
        return None, f"the row cannot be read: {error.message}"
    if "time_ns" not in record:
        return timing.time_ns, "the row has no 'time_ns'"
    if measured is None:
        return None, f"ASTRA-sim gave no time: {_crash(record)}"
    return timing.time_ns, _first_npu_note(record, timing)


def _crash(record: Row) -> str:
    """Return why ASTRA-sim may have failed on an input that its algorithms can finish."""
    if record.get("failure"):
        return str(record["failure"])
    if "direct" in str(record.get("algorithm_per_dim")) and record.get("collective") == "AllReduce":
        return "a direct all-reduce over unequal distances corrupts its heap"
    if record.get("comm_groups"):
        return "communicator groups that share a one-entry implementation list are freed twice"
    return "the row states no reason"


def _first_npu_note(record: Row, timing: AstraTiming) -> str | None:
    first = record.get("first_npu_time_ns")
    if first is None or first == timing.first_npu_time_ns:
        return None
    return f"the first NPU is predicted to finish at {timing.first_npu_time_ns} ns, measured {first} ns"


def astra_case(record: Row) -> AstraCase:
    """Return the case that a row of reference runs describes. The scheduling policy has no effect on one collective.

    Raises:
        SpecError: a key is missing (the message names it), or a value means nothing.
    """
    flags = record.get("involved_dims")
    return AstraCase(
        topologies=tuple(_translate("topology", name, TOPOLOGY_NAMES) for name in _list(record, "topology")),
        npus_per_dim=_list(record, "npus_per_dim"),
        bandwidth_gib_per_s=_list(record, "bandwidth_GBps"),
        latency_ns=_list(record, "latency_ns"),
        algorithms=_list(record, "algorithm_per_dim"),
        collective=_translate("collective", _get(record, "collective"), COLLECTIVE_NAMES),
        size_bytes=_get(record, "bytes"),
        chunks=_get(record, "chunks"),
        active_chunks=_get(record, "active_chunks_per_dim"),
        multidim=_translate("optimization", _get(record, "optimization"), MULTIDIM_NAMES),
        endpoint_delay_ns=_get(record, "endpoint_delay_ns"),
        memory_gb_per_s=_get(record, "local_mem_bw_GBps"),
        involved_dims=None if flags is None else _list(record, "involved_dims"),
        groups=_groups(record),
    )


def _get(record: Row, key: str) -> Any:
    if key not in record:
        raise SpecError(f"the row has no {key!r}", hint=f"add {key!r}")
    return record[key]


def _list(record: Row, key: str) -> tuple[Any, ...]:
    value = _get(record, key)
    if not isinstance(value, list):
        raise SpecError(f"{key!r} is {value!r}", hint="write a list")
    return tuple(value)


def _groups(record: Row) -> tuple[tuple[int, ...], ...]:
    if record.get("comm_groups") is None:
        return ()
    groups = _list(record, "comm_groups")
    if not all(isinstance(group, list) for group in groups):
        raise SpecError("'comm_groups' is not a list of lists", hint="write [[0, 1], [2, 3]]")
    return tuple(tuple(group) for group in groups if group)


def _translate(key: str, value: object, names: Mapping[str, str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise SpecError(f"{key!r} is {value!r}", hint=f"known: {', '.join(names)}")
    return names[value]


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
