"""Rows of kernels and collectives: each predicted by its fields, or refused with a reason; error levels reached."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.validation import ROW_KINDS, GroupErrors, validate, validate_files
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.system.hardware import attention_decode_s, collective_s, gemm_s

DATA = Path(__file__).parents[3] / "benchmarks" / "data"
FILES = (DATA / "kernels.json", DATA / "collectives.json")
GEMM = {"id": "g", "kernel": "gemm", "gpu": "H100-SXM", "precision": "bf16", "m": 64, "n": 4096, "k": 4096, "value": 1}
OPERATOR = {
    **{"id": "o", "kernel": "softmax", "gpu": "A100-SXM", "precision": "fp16", "batch": 8, "seq": 2048},
    **{"context": 2048, "tp": 4, "dims": {"hidden": 12288, "heads": 96, "ffn": 49152}, "value": 1},
}
COLLECTIVE = {"id": "c", "collective": "all_reduce", "gpu": "H100-SXM", "gpus": 8, "size_bytes": 1e9, "value": 1}

REACHED = {
    # kind: (median, 90th percentile) of the absolute error in percent on rows that are only reported
    "gemm": (4.8, 11.5),
    "attention_prefill": (4.7, 16.2),
    "attention_decode": (5.7, 14.5),
    "all_reduce": (4.1, 13.0),
    "all_gather": (4.9, 19.5),
    "reduce_scatter": (5.2, 14.0),
    "all_to_all": (5.6, 14.2),
}
REACHED_BY_GPU = {
    "a100-sxm": (4.5, 18.0),
    "h100-sxm": (4.4, 14.8),
    "h200-sxm": (3.9, 12.6),
    "b200": (5.6, 14.5),
    "b300": (6.0, 12.0),
    "gb200": (6.4, 19.0),
    "gb300": (4.9, 12.5),
}


def only(row: dict[str, Any]) -> Any:
    (found,) = validate([row]).rows
    return found


def groups(by: str) -> dict[str, GroupErrors]:
    return {group.group: group for group in validate_files(FILES).summary.groups if group.by == by}


def test_every_kernel_and_collective_is_predicted_but_the_one_without_a_gpu() -> None:
    report = validate_files(FILES)
    assert (report.summary.format, report.summary.rows, report.summary.predicted) == ("kernels, collectives", 893, 892)
    (missing,) = [row for row in report.rows if row.predicted is None]
    assert missing.note is not None
    assert "the GPU is not stated" in missing.note


@pytest.mark.parametrize("kind", REACHED)
def test_errors_by_kind_stay_at_what_was_reached(kind: str) -> None:
    errors = groups("kind")[kind].reported
    assert errors is not None
    assert 100 * errors.absolute <= REACHED[kind][0]
    assert 100 * errors.p90 <= REACHED[kind][1]
    assert abs(errors.signed) <= 0.05
    assert errors.rank is not None
    assert errors.rank >= 0.97


@pytest.mark.parametrize("gpu", REACHED_BY_GPU)
def test_errors_by_gpu_stay_at_what_was_reached(gpu: str) -> None:
    errors = groups("gpu")[gpu].reported
    assert errors is not None
    assert 100 * errors.absolute <= REACHED_BY_GPU[gpu][0]
    assert 100 * errors.p90 <= REACHED_BY_GPU[gpu][1]


def test_reported_rows_are_hardly_worse_than_calibration_rows() -> None:
    primary = groups("all")["primary rows"]
    assert primary.calibration is not None
    assert primary.reported is not None
    assert primary.reported.absolute - primary.calibration.absolute < 0.02
    assert primary.reported.rank is not None
    assert primary.reported.rank > 0.99


def test_a_product_is_predicted_by_the_model_of_its_device() -> None:
    assert only(GEMM).predicted == float(gemm_s(load_device("h100-sxm"), "bf16", 64, 4096, 4096))


def test_a_repeated_decode_finds_its_cache_in_the_chip() -> None:
    row = {
        **{"id": "d", "kernel": "attention_decode", "gpu": "B200-SXM", "precision": "bf16", "batch": 32},
        **{"context": 2048, "heads": 32, "kv_heads": 1, "head_dim": 128, "value": 1},
    }
    expected = attention_decode_s(load_device("b200"), "bf16", 32, 2048, 32, 1, 128, warm=True)
    assert only(row).predicted == float(expected)


def test_softmax_reads_and_writes_every_score_at_the_eager_share() -> None:
    moved = 2 * 2 * 8 * 24 * 2048 * 2048
    floor = load_device("a100-sxm").gemm.simple.launch_s
    assert only(OPERATOR).predicted == pytest.approx(floor + moved / (2.039e12 * 0.58))


@pytest.mark.parametrize(
    ("kernel", "n", "k"),
    [("qkv_proj", 9216, 12288), ("out_proj", 12288, 3072), ("mlp_up", 12288, 12288), ("mlp_down", 12288, 12288)],
)
def test_a_layers_product_has_the_shape_that_tensor_parallelism_leaves(kernel: str, n: int, k: int) -> None:
    expected = gemm_s(load_device("a100-sxm"), "fp16", 8 * 2048, n, k)
    assert only({**OPERATOR, "kernel": kernel}).predicted == pytest.approx(float(expected))


def test_a_short_operator_is_counted_apart_and_says_that_its_caller_shows() -> None:
    short, long = only({**OPERATOR, "value": 4e-5}), only({**OPERATOR, "value": 4e-3})
    assert "caller" in short.note
    assert (short.facts.kind, short.facts.primary) == ("operator under 50 us", False)
    assert (long.facts.kind, long.facts.primary) == ("operator", True)


def test_the_best_product_is_the_sustained_share_of_the_peak() -> None:
    row = {"id": "b", "kernel": "max_achievable_matmul", "gpu": "B200", "precision": "bf16", "metric": "tflops"}
    assert only({**row, "value": 1745}).predicted == pytest.approx(2250 * 0.776)


def test_constants_of_another_device_are_said() -> None:
    row = {"id": "b", "kernel": "max_achievable_matmul", "gpu": "MI355X", "precision": "bf16", "metric": "tflops"}
    assert "extrapolates: mi355x has no sustained constants" in only({**row, "value": 1565}).note


def test_bus_bandwidth_is_the_bytes_of_nccl_tests_over_the_time() -> None:
    time = float(collective_s(load_device("h100-sxm"), "all_reduce", 8, 1e9))
    row = only({**COLLECTIVE, "metric": "bus_bandwidth_gb_s"})
    assert row.predicted == pytest.approx(2 * 7 / 8 / time)


def test_a_library_run_as_a_ring_does_not_reduce_in_the_switch() -> None:
    device = load_device("h100-sxm")
    for changes in ({"nvls": False}, {"library": "NCCL ring"}):
        expected = collective_s(device, "all_reduce", 8, 1e9, in_switch=False)
        assert only(COLLECTIVE | changes).predicted == float(expected)
    assert only(COLLECTIVE | {"nvls": True}).predicted < only(COLLECTIVE | {"nvls": False}).predicted


def test_an_unstated_rate_between_nodes_is_assumed_and_said() -> None:
    row = only(COLLECTIVE | {"gpus": 16, "gpus_per_node": 8})
    assert "the rate between nodes is not stated: 50 GB/s" in row.note
    assert (row.facts.kind, row.facts.primary) == ("all_reduce across nodes", False)
    stated = only(COLLECTIVE | {"gpus": 16, "nodes": 2, "scale_out_bytes_per_s": 50e9})
    assert stated.predicted == row.predicted
    assert (stated.note, stated.facts.primary) == (None, True)


def test_bridged_pairs_use_pcie_beyond_two() -> None:
    bridged = COLLECTIVE | {"gpu": "A100-80GB", "topology": "NVLink bridge pairs, PCIe across pairs", "gpus": 4}
    row = only(bridged)
    assert (row.facts.gpu, row.facts.kind) == ("a100-pcie-80", "all_reduce over PCIe")
    assert row.predicted > 5 * only(bridged | {"gpus": 2}).predicted


def test_a_stated_link_rate_replaces_the_data_sheets() -> None:
    half = only(COLLECTIVE | {"scale_up_bytes_per_s": 225e9})
    assert half.predicted > 1.8 * only(COLLECTIVE).predicted


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (GEMM | {"gpu": "H10"}, "unknown device 'H10'"),
        (GEMM | {"gpu": None}, "'gpu' is None"),
        (GEMM | {"kernel": "gem"}, "unknown kernel 'gem'"),
        (GEMM | {"m": 0}, "'m' is 0"),
        (GEMM | {"m": 1.5}, "'m' is 1.5"),
        (GEMM | {"m": float("nan")}, "'m' is nan"),
        (GEMM | {"m": True}, "'m' is True"),
        (GEMM | {"m": 10**400}, "'m' is a number out of range"),
        (GEMM | {"n": 1e300}, "'n' is 1e+300"),
        (GEMM | {"gpu": "x" * 5000}, "unknown device"),
        (GEMM | {"gpu": ["x"] * 5000}, "'gpu' is ['x', 'x'"),
        (GEMM | {"kernel": ["gemm"]}, "'kernel' is ['gemm']"),
        (OPERATOR | {"value": "fast", "dims": {"hidden": 0}}, "'heads' is None"),
        (GEMM | {"precision": "fp4"}, "no matrix peak in 'fp4'"),
        (GEMM | {"metric": "tflops"}, "the metric of a 'gemm' row"),
        (OPERATOR | {"dims": None}, "needs the 'dims'"),
        (COLLECTIVE | {"collective": "all_reduces"}, "unknown collective"),
        (COLLECTIVE | {"gpu": "not stated"}, "the GPU is not stated"),
        (COLLECTIVE | {"gpus": -2}, "'gpus' is -2"),
        (COLLECTIVE | {"size_bytes": "big"}, "'size_bytes' is 'big'"),
        (COLLECTIVE | {"metric": "ms"}, "unknown metric 'ms'"),
        (COLLECTIVE | {"gpu": "A100", "nvls": True}, "does not reduce inside its switch"),
        ({"id": "x", "value": 1}, "not predicted by this version"),
    ],
)
def test_a_row_that_cannot_be_predicted_says_why(row: dict[str, Any], reason: str) -> None:
    found = only(row)
    assert found.predicted is None
    assert found.error is None
    assert reason in found.note


def test_a_row_without_a_measurement_is_predicted_without_an_error() -> None:
    row = only({key: value for key, value in GEMM.items() if key != "value"})
    assert row.predicted > 0
    assert (row.measured, row.error) == (None, None)


json_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)


@given(base=st.sampled_from([GEMM, OPERATOR, COLLECTIVE]), data=st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_whatever_a_field_holds_a_row_is_predicted_or_says_why(base: dict[str, Any], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from([*base, "nvls", "nodes", "topology", "fold"]), max_size=3))
    row = only({**base, **{key: data.draw(json_values) for key in keys}})
    assert row.note if row.predicted is None else math.isfinite(row.predicted)


def test_kinds_are_recognised_by_fields() -> None:
    assert {"kernels", "collectives"} <= set(ROW_KINDS)
    assert ROW_KINDS.get("kernels").matches(GEMM)
    assert not ROW_KINDS.get("collectives").matches(GEMM)
