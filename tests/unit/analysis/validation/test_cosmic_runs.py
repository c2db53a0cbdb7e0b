"""Runs logged by COSMIC's authors: predicted by both simulators, compared by order."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.validation import ValidationRow, validate, validate_file

SHIPPED = Path(__file__).parents[4] / "benchmarks" / "data" / "cosmic_runs.json"
RUN: dict[str, Any] = {
    "id": "a",
    "system": {
        "scheduling-policy": "LIFO",
        "preferred-dataset-splits": 4,
        "all-reduce-implementation": ["ring", "direct"],
        "collective-optimization": "baseline",
        "peak-perf": 10,
        "local-mem-bw": 50,
    },
    "network": {"topology": ["Ring", "Switch"], "npus_count": [4, 2], "bandwidth": [50, 100], "latency": [700, 0]},
    "workload": {
        **{"num_npus": 8, "dp": 2, "pp": 2, "sp": 1, "weight_sharded": 0, "din": 64, "dout": 64},
        **{"dff": 256, "dmodel": 64, "batch": 8, "seq": 16, "head": 4, "num_stacks": 4},
    },
    "cycles_ns": 1000,
}


def run(**changes: object) -> dict[str, Any]:
    """Return the run with `part__key=value` changed; None drops the key."""
    changed = copy.deepcopy(RUN)
    for name, value in changes.items():
        part, _, key = name.partition("__")
        where = changed[part] if key else changed
        where[key.replace("_per_", "-") or part] = value
        if value is None:
            del where[key or part]
    return changed


def predicted(row: dict[str, Any]) -> ValidationRow:
    (found,) = validate([row]).rows
    return found


def test_the_logged_runs_have_the_order_that_both_simulators_predict() -> None:
    summary = validate_file(SHIPPED).summary
    assert (summary.format, summary.rows, summary.predicted, summary.median_error) == ("cosmic_runs", 20, 20, None)
    ranks = {(group.group, group.engine): group for group in summary.ranks}
    for engine in ("analytical", "events"):
        every = ranks["logged runs", engine]
        assert every.rank is not None
        assert (every.rows, every.rank > 0.9) == (20, True)
        alike = ranks["logged runs, 64 NPUs, width 12,288, 96 layers", engine]
        assert alike.rank is not None
        assert (alike.rows, alike.rank > 0.77) == (13, True)


def test_a_run_is_predicted_in_ns_with_the_events_in_its_note_and_no_counted_error() -> None:
    row = predicted(run())
    assert row.predicted is not None
    assert row.predicted > 0
    assert "by events" in str(row.note)
    assert row.ranked is not None
    assert [engine for engine, _ in row.ranked.engines] == ["analytical", "events"]
    assert row.error is not None
    assert row.counted_error is None


def test_events_are_never_before_the_analytical_bound() -> None:
    for row in validate_file(SHIPPED).rows:
        assert row.ranked is not None
        (_, bound), (_, events) = row.ranked.engines
        assert bound <= events, row.id


def test_tp_is_what_is_left_and_num_npus_need_not_be_given() -> None:
    assert predicted(run(workload__num_npus=None)).predicted == predicted(run()).predicted


def test_a_slower_message_never_makes_a_step_shorter() -> None:
    slow = run(network__bandwidth=[5, 10])
    assert (predicted(slow).predicted or 0) > (predicted(run()).predicted or 0)


def test_a_run_without_cycles_is_predicted_and_not_ranked() -> None:
    (row,) = (report := validate([run(cycles_ns=None)])).rows
    assert row.predicted is not None
    assert report.summary.ranks == ()


def test_two_runs_are_too_few_for_a_correlation() -> None:
    report = validate([run(), run(cycles_ns=2000)])
    assert {group.rank for group in report.summary.ranks} == {None}


def test_a_run_without_an_id_is_named_by_its_file() -> None:
    assert predicted({**run(id=None), "file": "log.txt"}).id == "log.txt/0"


@pytest.mark.parametrize("key", [f"{part}__{key}" for part in ("system", "network", "workload") for key in RUN[part]])
def test_a_missing_key_is_named_or_not_needed(key: str) -> None:
    part, _, name = key.partition("__")
    row = copy.deepcopy(RUN)
    del row[part][name]
    found = predicted(row)
    assert found.predicted is not None or f"'{name}'" in str(found.note), found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": None}, "'system' is None"),
        ({"network": [1]}, "'network' is [1]"),
        ({"workload": "gpt"}, "'workload' is 'gpt'"),
        ({"network__topology": ["Ring", "Torus"]}, "'topology' is 'Torus'"),
        ({"network__topology": ["Ring"]}, "differ in length"),
        (
            {"network__topology": [], "network__npus_count": [], "network__bandwidth": [], "network__latency": []},
            "empty",
        ),
        ({"network__bandwidth": [50, -1]}, "'bandwidth' is -1"),
        ({"network__bandwidth": [50, float("nan")]}, "'bandwidth' is nan"),
        ({"network__latency": ["x", 0]}, "'latency' is 'x'"),
        ({"network__npus_count": [4, 2.5]}, "'npus_count' is 2.5"),
        ({"network__npus_count": [3, 2]}, "num_npus is 8, the network has 6"),
        ({"network__npus_count": [2**20, 2**20], "workload__num_npus": 2**40}, "NPUs"),
        ({"workload__dp": 3}, "do not divide 8 NPUs"),
        ({"workload__dp": 0}, "'dp' is 0"),
        ({"workload__batch": 10**17}, "'batch' is"),
        ({"workload__seq": True}, "'seq' is True"),
        ({"workload__batch": 2**19}, "too many to be simulated"),
        ({"system": {**RUN["system"], "preferred-dataset-splits": 257}}, "'preferred-dataset-splits' is 257"),
        ({"workload__num_stacks": 10**9}, "'num_stacks' is"),
        ({"workload__head": 65}, "65 heads of a width of 64"),
        ({"workload__weight_sharded": 2}, "'weight_sharded' is 2"),
        ({"system": {**RUN["system"], "collective-optimization": "themis"}}, "'collective-optimization' is 'themis'"),
        ({"system": {**RUN["system"], "scheduling-policy": "SCF"}}, "'scheduling-policy' is 'SCF'"),
        ({"system": {**RUN["system"], "preferred-dataset-splits": 0}}, "'preferred-dataset-splits' is 0"),
        ({"system": {**RUN["system"], "peak-perf": None}}, "'peak-perf' is None"),
    ],
    ids=str,
)
def test_a_run_that_cannot_be_predicted_says_why(changes: dict[str, object], words: str) -> None:
    row = predicted(run(**{key: value for key, value in changes.items() if value is not None}))
    if None in changes.values():
        row = predicted({key: value for key, value in RUN.items() if key not in changes})
    assert row.predicted is None
    assert words in str(row.note)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [0, 1, -1, 2, 3, 7, 64, 10**6, 10**18, 10**30, 1.5, float("nan"), float("inf"), "", "x", None, [], {}]
)


@given(part=st.sampled_from(["system", "network", "workload"]), data=st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_any_value_of_any_key_is_predicted_or_explained(part: str, data: st.DataObject) -> None:
    row = copy.deepcopy(RUN)
    for key in data.draw(st.lists(st.sampled_from(sorted(row[part])), min_size=1, max_size=2)):
        value = data.draw(ODD)
        row[part][key] = [value, *row[part][key][1:]] if isinstance(row[part][key], list) else value
    found = predicted(json.loads(json.dumps(row)))
    assert found.predicted is not None or found.note
