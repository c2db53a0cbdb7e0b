"""Rows that cannot be predicted or measured: each is listed with its reason, and no other row suffers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from cosmic_opt.analysis.validation import ROW_KINDS, validate
from cosmic_opt.analysis.validation.measured import measured_of, metric_of, plain_metric, unusable
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError
from cosmic_opt.reporting.validations import validation_keys, validation_text

GOOD: dict[str, Any] = {
    "id": "good",
    "collective": "all_reduce",
    "gpu": "H100",
    "gpus": 8,
    "size_bytes": 2**20,
    "metric": "time_s",
    "value": 3e-5,
}


@pytest.mark.parametrize("metric", ["bus_bandwidth_gb_s", "time_s"])
def test_a_collective_of_one_gpu_is_listed_and_the_other_rows_are_predicted(metric: str) -> None:
    report = validate([GOOD | {"id": "x", "gpus": 1, "metric": metric}, GOOD])
    bad, good = report.rows
    assert (bad.predicted, bad.error) == (None, None)
    assert bad.note == "the row cannot be predicted: one GPU: nothing is sent"
    assert good.predicted is not None
    assert report.summary.predicted == 1


@pytest.mark.parametrize(
    "failure", [ZeroDivisionError("division by zero"), OverflowError("too large"), ValueError("x")]
)
def test_a_failure_of_arithmetic_is_the_rows_own(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(row: Any) -> Any:
        raise failure

    kind = replace(ROW_KINDS.get("collectives"), predict=fail)
    monkeypatch.setattr(ROW_KINDS, "get", lambda name: kind)
    row = validate([GOOD]).rows[0]
    assert row.predicted is None
    assert row.note == f"the row cannot be predicted: its numbers cannot be computed with: {failure}"


@pytest.mark.parametrize("value", [-1, 0, 1e-300, 1e300, float("nan"), float("inf"), 10**400, True, "fast"])
def test_a_value_that_cannot_be_measured_counts_nowhere(value: object) -> None:
    report = validate([GOOD, GOOD | {"id": "bad", "value": value}])
    bad = report.rows[1]
    assert (bad.measured, bad.error) == (None, None)
    assert "the measured value is not usable" in str(bad.note)
    assert report.summary.p90_error == report.summary.worst_error == abs(report.rows[0].error or 0)


@pytest.mark.parametrize(
    ("metric", "value", "usable"),
    [
        ("time_s", 1e-6, True),
        ("time_us", 1.0, True),
        ("time_s", 1e-9, False),
        ("time_us", 1e-9, False),
        ("tokens_per_s", 1e-4, True),
        ("tokens_per_s", 1e6, True),
        ("bus_bandwidth_gb_s", 1e-4, True),
        ("tflops", 1e20, False),
        ("batch_latency_s", 3e9, False),
    ],
)
def test_what_is_plausible_depends_on_the_unit(metric: str, value: float, usable: bool) -> None:
    assert (unusable({"metric": metric, "value": value}) is None) == usable


def test_a_simulated_collective_may_take_no_time() -> None:
    assert measured_of({"time_ns": 0}) == 0
    assert measured_of({"cycles_ns": -1}) is None
    assert measured_of({"metric": "time_s"}) is None


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("Tokens/sec/GPU", "tokens_per_s_per_gpu"),
        ("step time (ms)", "step_time_ms"),
        ("StepTime", "step_time"),
        ("TFLOPS-per-GPU", "tflops_per_gpu"),
        ("busBandwidth GBps", "bus_bandwidth_gb_s"),
    ],
)
def test_a_metric_has_one_spelling(spelled: str, plain: str) -> None:
    assert plain_metric(spelled) == plain


def test_a_time_may_be_in_any_unit() -> None:
    known, aliases = ("step_time_s", "tokens_per_s"), {"iteration_time": "step_time_s", "tps": "tokens_per_s"}
    assert metric_of("step_time_ms", known, aliases) == ("step_time_s", 1e3)
    assert metric_of("iteration-time-us", known, aliases) == ("step_time_s", 1e6)
    assert metric_of("Iteration Time", known, aliases) == ("step_time_s", 1.0)
    assert metric_of("TPS", known, aliases) == ("tokens_per_s", 1.0)
    for wrong in ("tokens_per_ms", "joules", "", "_ms"):
        with pytest.raises(SpecError, match="unknown metric"):
            metric_of(wrong, known, aliases)


def test_the_report_names_rows_that_are_left_out() -> None:
    text = validation_text(validate([GOOD, GOOD | {"id": "negative", "value": -1}]))
    assert "left out of the errors" in text
    assert "negative" in text


HOSTILE = [None, "", -1, 0, 1e300, math.nan, math.inf, 10**400, [], {}, True, "x" * 300, 1e-300, "1", 7, 10**12]
DATA = data_root() / "benchmarks" / "data"


@pytest.mark.parametrize("file", ["inference", "training", "kernels", "collectives", "memory"])
def test_any_value_in_any_field_gives_a_prediction_or_a_reason(file: str) -> None:
    row = json.loads((DATA / f"{file}.json").read_text(encoding="utf-8"))["rows"][0]
    spoilt = [{**row, key: value} for key in row for value in HOSTILE]
    for part in ("dims", "network"):
        spoilt += [{**row, part: {**row[part], key: value}} for key in row.get(part, {}) for value in HOSTILE]
    spoilt += [{other: value for other, value in row.items() if other != key} for key in row]
    report = validate([row, *spoilt])
    assert report.rows[0].predicted is not None
    for each in report.rows:
        assert each.note or each.predicted is not None
        assert each.predicted is None or 0 < each.predicted < 1e18
    json.dumps(validation_keys(report), allow_nan=False)
    assert len(validation_text(report).splitlines()) < 200
