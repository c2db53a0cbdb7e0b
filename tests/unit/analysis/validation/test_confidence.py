"""Every prediction names its hidden input, an interval from its group's percentile, and what it extrapolates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.confidence import interval_of
from cosmic_opt.catalog.measured_parts import OTHER, load_measured_parts
from cosmic_opt.catalog.store import data_root
from cosmic_opt.reporting.validations import validation_keys
from tests.unit.analysis.validation.test_inference import ROW as SERVED
from tests.unit.analysis.validation.test_row_spelling import GEMM, REDUCE
from tests.unit.analysis.validation.test_training import ROW as TRAINED

DATA = data_root() / "benchmarks" / "data"


def keys(row: dict[str, Any]) -> dict[str, Any]:
    (found,) = validation_keys(validate([row]))["rows"]  # type: ignore[misc]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("file", ["kernels", "collectives", "memory"])
def test_every_predicted_row_has_all_three(file: str) -> None:
    for row in validate(json.loads((DATA / f"{file}.json").read_text(encoding="utf-8"))).rows:
        if row.predicted is None:
            continue
        assert row.confidence is not None, row.id
        assert row.confidence.hidden_input
        low, high = row.confidence.interval
        assert low <= row.predicted <= high


def test_an_interval_is_that_of_the_groups_percentile() -> None:
    row = keys(REDUCE)
    p90 = load_measured_parts()["all_reduce h100-sxm"].p90
    assert p90 is not None
    assert row["interval"] == list(interval_of(row["predicted"], p90))
    assert (row["extrapolates"], row["hidden_input"]) == ([], "protocol and channels the library chooses")
    assert interval_of(100.0, 0.25) == (80.0, 100 / 0.75)
    assert interval_of(100.0, 3.0) == (25.0, 1000.0)


@pytest.mark.parametrize(
    ("row", "flag"),
    [
        (REDUCE | {"size_bytes": 2**40}, "size_bytes 1.09951e+12 lies outside the fitted"),
        (REDUCE | {"collective": "reduce_scatter", "size_bytes": 16}, "size_bytes 16 lies outside the fitted"),
        (GEMM | {"m": 10**6}, "m 1e+06 lies outside the fitted"),
        (GEMM | {"gpu": "MI300X"}, "no row of gemm on mi300x was fitted"),
    ],
)
def test_what_lies_beyond_the_fitted_rows_is_flagged_and_widens_the_interval(row: dict[str, Any], flag: str) -> None:
    found = keys(row)
    assert flag in " ".join(found["extrapolates"])
    assert found["interval"][0] <= found["predicted"] / (1 + (load_measured_parts()[OTHER].p90 or 0))


@pytest.mark.parametrize(
    "row", [SERVED | {"metric": "output_tokens_per_s_total"}, TRAINED | {"metric": "tokens_per_s"}]
)
def test_a_rate_has_its_interval_in_its_own_unit(row: dict[str, Any]) -> None:
    found = keys(row)
    low, high = found["interval"]
    assert low < found["predicted"] < high
    assert found["hidden_input"]


def test_measured_latencies_lie_inside_the_interval_as_often_as_it_says() -> None:
    rows = validate(json.loads((DATA / "collectives.json").read_text(encoding="utf-8"))).rows
    primary = [row for row in rows if row.facts is not None and row.facts.primary and row.facts.fold == 2]
    inside = [
        row.confidence.interval[0] <= row.measured <= row.confidence.interval[1]
        for row in primary
        if row.confidence is not None and row.measured is not None
    ]
    assert sum(inside) / len(inside) > 0.85


def test_a_row_without_a_prediction_has_none_of_them() -> None:
    found = keys({"id": "unknown"})
    assert (found["interval"], found["hidden_input"], found["extrapolates"]) == (None, None, None)
