import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cosmic_opt.interop  # noqa: F401 - enters the reader of traces
from cosmic_opt.analysis.validation import validate, validate_file
from cosmic_opt.errors import SpecError

GOLDEN = Path(__file__).parents[2] / "golden" / "astrasim_collectives.json"
WORKLOADS = GOLDEN.with_name("astrasim_workloads.json")
TRACES = GOLDEN.with_name("traces")
WORKLOAD: dict[str, Any] = json.loads(WORKLOADS.read_text(encoding="utf-8"))["cases"][0]
GOOD: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"][0]


def only_row(**changes: Any) -> Any:
    (row,) = validate({"cases": [GOOD | changes]}).rows
    return row


def test_every_collective_is_predicted_exactly_and_no_row_is_skipped() -> None:
    report = validate_file(GOLDEN)
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    assert [row.id for row in report.rows] == [case["id"] for case in cases]
    assert (report.summary.format, report.summary.rows) == ("astrasim_collectives", len(cases))
    assert report.summary.predicted == report.summary.exact == len(cases)
    assert report.summary.worst_error == 0.0


def test_every_workload_is_predicted_exactly_from_its_traces() -> None:
    report = validate_file(WORKLOADS, traces=TRACES)
    assert report.summary.format == "astrasim_workloads"
    assert report.summary.predicted == report.summary.exact == report.summary.rows > 50
    assert {row.note for row in report.rows} == {None}


def workload_row(folder: Path | None = TRACES, **changes: Any) -> Any:
    data = json.loads(WORKLOADS.read_text(encoding="utf-8"))
    (row,) = validate({**data, "cases": [data["cases"][0] | changes]}, traces=folder).rows
    return row


def test_a_workload_without_traces_says_what_to_give() -> None:
    assert "give --traces" in workload_row(None).note


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workload": "nowhere"}, "no traces of 'nowhere'"),
        ({"workload": "../traces/g4_fsdp8"}, "not the name of a workload"),
        ({"workload": ""}, "not the name of a workload"),
        ({"npus_per_dim": [4]}, "8 traces, the network 4 NPUs"),
        ({"chunks": "4"}, "chunks"),
        ({"backend": "half"}, "backend"),
        ({"topology": ["Ring", "Ring"], "backend": "aware"}, "differ in length"),
        ({"algorithm_per_dim": []}, "implementation list is empty"),
    ],
)
def test_a_workload_row_that_cannot_be_replayed_says_why(changes: dict[str, Any], reason: str) -> None:
    row = workload_row(**changes)
    assert row.predicted is None
    assert reason in row.note


def test_without_a_peak_recorded_times_are_replayed() -> None:
    row = workload_row(peak_perf_TFLOPS=None)
    assert 0 < row.predicted < row.measured


def test_another_time_that_differs_is_noted() -> None:
    row = workload_row(exposed_comm_ns_min=5)
    assert row.error == 0
    assert "exposed_comm_ns_min is predicted to be" in row.note
    assert "measured 5" in row.note


def test_the_error_is_relative_and_signed() -> None:
    row = only_row(time_ns=2 * GOOD["time_ns"])
    assert row.error == -0.5


@pytest.mark.parametrize("key", sorted(set(GOOD) - {"id", "scheduling", "time_ns"}))
def test_a_missing_key_is_named(key: str) -> None:
    (row,) = validate({"cases": [{name: value for name, value in GOOD.items() if name != key}]}).rows
    assert row.predicted is None
    assert repr(key) in str(row.note)


@pytest.mark.parametrize(
    "changes",
    [
        {"bytes": -1},
        {"bytes": math.nan},
        {"bytes": 10**30},
        {"bytes": "1 MB"},
        {"chunks": 10**15},
        {"npus_per_dim": [10**9]},
        {"latency_ns": [math.inf]},
        {"topology": "Ring"},
        {"topology": ["Torus"]},
        {"algorithm_per_dim": [None]},
        {"comm_groups": [0]},
        {"comm_groups": [["a"]]},
        {"involved_dims": [2]},
        {"collective": []},
        {"backend": None},
    ],
)
def test_a_malformed_row_has_no_prediction_and_says_why(changes: dict[str, Any]) -> None:
    row = only_row(**changes)
    assert row.predicted is None
    assert row.note
    assert row.measured == GOOD["time_ns"]


def test_a_run_that_failed_is_predicted_to_have_no_time() -> None:
    row = only_row(npus_per_dim=[6], algorithm_per_dim=["halvingDoubling"], time_ns=None)
    assert (row.predicted, row.measured, row.error) == (None, None, None)
    assert "not a power of two" in row.note


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"failure": "abort"}, "abort"),
        ({"algorithm_per_dim": ["direct"]}, "heap"),
        ({"comm_groups": [[0, 1], [2, 3]]}, "freed twice"),
        ({}, "no reason"),
    ],
)
def test_a_crash_of_astra_sim_is_explained(changes: dict[str, Any], reason: str) -> None:
    row = only_row(time_ns=None, **changes)
    assert row.predicted is None
    assert reason in row.note


def test_a_row_without_a_measurement_is_still_predicted() -> None:
    (row,) = validate({"cases": [{name: value for name, value in GOOD.items() if name != "time_ns"}]}).rows
    assert row.predicted == GOOD["time_ns"]
    assert "time_ns" in str(row.note)


def test_a_wrong_first_npu_is_noted() -> None:
    assert "first NPU" in only_row(first_npu_time_ns=1).note


def test_rows_that_are_not_objects_are_listed() -> None:
    report = validate({"cases": [5, None, [], GOOD]})
    assert [row.id for row in report.rows] == ["row 0", "row 1", "row 2", GOOD["id"]]
    assert report.summary.predicted == 1


@pytest.mark.parametrize(
    ("data", "name", "ids", "note"),
    [
        ({"rows": [{"id": "a", "value": 1.5}]}, "rows", ["a"], "not predicted by this version"),
        ([{"cycles_ns": 3}], "cosmic_runs", ["row 0"], "the row cannot be predicted: 'workload' is None"),
    ],
)
def test_rows_without_inputs_are_listed_without_a_prediction(
    data: object, name: str, ids: list[str], note: str
) -> None:
    report = validate(data)
    assert report.summary.format == name
    assert [row.id for row in report.rows] == ids
    assert {row.predicted for row in report.rows} == {None}
    assert {row.note for row in report.rows} == {note}
    assert all(row.measured for row in report.rows)


@pytest.mark.parametrize(
    "data", [None, 3, "text", [], [1], {}, {"rows": 3}, {"rows": []}, {"cases": {}}, {"cases": []}]
)
def test_what_is_not_a_list_of_rows_is_refused(data: object) -> None:
    with pytest.raises(SpecError) as caught:
        validate(data)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "[1,", "\x00"])
def test_a_file_that_is_not_json_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"rows\.json"):
        validate_file(path)


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        validate_file(tmp_path / "missing.json")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=4,
)


@given(key=st.sampled_from(sorted(WORKLOAD)), value=JUNK)
@settings(derandomize=True, deadline=None, max_examples=50)
def test_no_value_of_any_key_breaks_the_report_on_a_workload(key: str, value: Any) -> None:
    row = workload_row(**{key: value})
    assert row.predicted is None or math.isfinite(row.predicted)
    assert row.predicted is not None or row.note


@given(key=st.sampled_from(sorted(GOOD)), value=JUNK)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_value_of_any_key_breaks_the_report(key: str, value: Any) -> None:
    row = only_row(**{key: value})
    assert row.predicted is None or math.isfinite(row.predicted)
    assert row.predicted is not None or row.note
