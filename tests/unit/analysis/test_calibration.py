"""Fitting a device: known constants are found again, what rows do not determine stays, nothing end to end enters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.calibration import calibrate, read_rows, refine
from cosmic_opt.analysis.calibration.constants import CONSTANTS, value_at, with_value
from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.system.hardware import Device, attention_decode_s, collective_s, gemm_s
from tests.unit.analysis.measured_steps import STEP

DATA = Path(__file__).parents[3] / "benchmarks" / "data"
WHERE = Where("rows.json")
H100 = load_device("h100-sxm")
GEMM = {"kernel": "gemm", "precision": "bf16", "m": 64, "n": 4096, "k": 4096, "value": 1.5e-05}


def shipped(name: str) -> list[dict[str, Any]]:
    rows = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    assert isinstance(rows, list)
    return rows


def products(device: Device, noise: float = 0.0) -> list[dict[str, Any]]:
    """Return products as `device` runs them, each off by up to `noise`."""
    random = np.random.default_rng(1)
    shapes = [(m, n, k) for m in (1, 64, 512, 4096, 8192) for n, k in ((4096, 4096), (12288, 4096), (8192, 8192))]
    times = gemm_s(device, "bf16", *np.array(shapes).T) * (1 + noise * random.uniform(-1, 1, len(shapes)))
    return [
        {"kernel": "gemm", "precision": "bf16", "m": m, "n": n, "k": k, "value": float(time)}
        for (m, n, k), time in zip(shapes, times, strict=True)
    ]


def fitted(rows: list[dict[str, Any]], device: Device = H100) -> Any:
    return calibrate(device, read_rows(rows, device, where=WHERE))


def test_constants_that_made_the_rows_are_found_again() -> None:
    true = with_value(with_value(H100, "gemm.simple.memory_fraction", 0.7), "gemm.simple.launch_s", 5e-6)
    found = fitted(products(true)).device
    assert found.gemm.simple.memory_fraction == pytest.approx(0.7, rel=0.03)
    assert found.gemm.simple.launch_s == pytest.approx(5e-6, rel=0.1)
    assert found.gemm.simple.efficiency == pytest.approx(H100.gemm.simple.efficiency, rel=0.03)


def test_links_that_made_the_rows_are_found_again() -> None:
    true = with_value(H100, "fabric.efficiency", 0.6)
    rows = [
        {"collective": kind, "gpus": gpus, "size_bytes": size, "value": float(collective_s(true, kind, gpus, size))}
        for kind in ("all_gather", "reduce_scatter")
        for gpus in (2, 4, 8)
        for size in (1e3, 1e6, 1e8, 1e9)
    ]
    found = fitted(rows).device
    assert found.fabric is not None
    assert found.fabric.efficiency == pytest.approx(0.6, rel=0.05)  # the prior holds a little


def test_one_wild_row_in_fifteen_hardly_moves_the_fit() -> None:
    true = with_value(H100, "gemm.simple.memory_fraction", 0.7)
    clean, spoiled = products(true), products(true)
    spoiled[0]["value"] *= 20
    fractions = [fitted(rows).device.gemm.simple.memory_fraction for rows in (clean, spoiled)]
    assert fractions[1] == pytest.approx(fractions[0], rel=0.03)


def test_a_fit_lowers_the_error_of_its_rows() -> None:
    true = with_value(with_value(H100, "gemm.simple.memory_fraction", 0.6), "gemm.simple.efficiency", 0.7)
    (simple, _) = fitted(products(true, noise=0.02)).errors
    assert (simple.group, simple.rows, simple.held_out) == ("gemm", 15, False)
    assert simple.after[1] < 0.03 < simple.before[1]


def test_groups_without_rows_keep_their_constants() -> None:
    result = fitted(products(with_value(H100, "gemm.simple.memory_fraction", 0.6)))
    assert result.device.attention == H100.attention
    assert result.device.fabric == H100.fabric
    assert {change.constant.split(".")[0] for change in result.changes} == {"gemm"}


def test_one_row_moves_what_it_determines_and_nothing_far() -> None:
    # a thin product twice as slow: memory or floor, not the matrix rate
    row = {**GEMM, "m": 1, "value": 2 * float(gemm_s(H100, "bf16", 1, 4096, 4096))}
    result = fitted([row])
    moved = {change.constant: change.after / change.before for change in result.changes if change.before}
    assert moved["gemm.simple.memory_fraction"] < 0.9
    assert moved["gemm.simple.launch_s"] > 1.05
    assert moved["gemm.simple.efficiency"] == pytest.approx(1, abs=0.02)
    assert all(0.2 <= factor <= 5 for factor in moved.values())


def test_equal_rows_count_but_do_no_harm() -> None:
    result = fitted([GEMM] * 20)
    assert result.fitted == 20
    assert all(np.isfinite(change.after) for change in result.changes)


def test_shipped_constants_are_where_the_fit_leaves_them() -> None:
    rows = [*shipped("kernels"), *shipped("collectives")]
    for name in ("a100-80", "h100-sxm", "h200-sxm", "b200", "gb200"):
        device = load_device(name)
        result = fitted(rows, device)
        for change in result.changes:
            if change.constant.endswith(("efficiency", "memory_fraction", "in_switch_fraction")):
                assert change.after == pytest.approx(change.before, rel=0.03), (name, change)


def test_held_out_rows_are_reported_and_never_fitted() -> None:
    rows = [row | {"fold": index % 3} for index, row in enumerate(products(H100))]
    spoiled = [row | {"value": row["value"] * (3 if row["fold"] == 2 else 1)} for row in rows]
    assert fitted(spoiled).changes == fitted(rows).changes
    assert {error.held_out for error in fitted(rows).errors} == {False, True}
    assert fitted(rows).fitted == 10


def test_rows_of_other_devices_and_places_are_left_out_with_the_reason() -> None:
    rows = [
        GEMM,
        GEMM | {"gpu": "A100"},
        GEMM | {"gpu": "not stated"},
        {"collective": "all_reduce", "gpus": 16, "gpus_per_node": 8, "size_bytes": 1e9, "value": 1.0},
        {"collective": "all_reduce", "gpus": 1, "size_bytes": 1e9, "value": 1.0},
        {"kernel": "softmax", "precision": "bf16", "value": 1.0},
    ]
    measured = read_rows(rows, H100, where=WHERE)
    assert measured.fitted == 1
    assert sum(measured.left_out.values()) == 5
    assert len(measured.left_out) == 5


def test_bus_bandwidth_is_turned_into_time() -> None:
    time = float(collective_s(H100, "all_reduce", 8, 1e9))
    rate = 2 * 7 / 8 / time
    row = {"collective": "all_reduce", "gpus": 8, "size_bytes": 1e9, "metric": "bus_bandwidth_gb_s", "value": rate}
    (residual,) = fitted([row]).residuals
    assert residual.measured == pytest.approx(time)
    assert residual.before == pytest.approx(0, abs=1e-9)


def test_a_best_product_sets_the_sustained_fraction_of_its_precision() -> None:
    row = {"kernel": "max_achievable_matmul", "precision": "fp8", "metric": "tflops", "value": 1500.0}
    found = fitted([row]).device
    assert 1979 * found.sustained_fraction("fp8") == pytest.approx(1500, rel=0.02)
    assert found.sustained_fraction("bf16") == H100.sustained_fraction("bf16")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (STEP, "an end-to-end measurement (it has 'gbs')"),
        ({"metric": "tokens_per_s", "value": 3}, "an end-to-end measurement (it has 'metric')"),
        ({"engine": "x", "value": 3}, "an end-to-end measurement (it has 'engine')"),
        ({"kernal": "gemm", "value": 3}, "neither 'kernel' nor 'collective'"),
        ({}, "neither 'kernel' nor 'collective'"),
        (GEMM | {"value": float("nan")}, "'value' is nan"),
        (GEMM | {"value": "nan"}, "'value' is 'nan'"),
        (GEMM | {"value": -1}, "'value' is -1"),
        (GEMM | {"value": 0}, "'value' is 0"),
        ({key: value for key, value in GEMM.items() if key != "value"}, "'value' is None"),
        (GEMM | {"m": 1.5}, "'m' is 1.5"),
        (GEMM | {"kernel": "gem"}, "unknown kernel 'gem'"),
        (GEMM | {"precision": "fp4"}, "no matrix peak in 'fp4'"),
        (GEMM | {"precision": "bfloat"}, "unknown precision"),
        (GEMM | {"metric": "ms"}, "the metric of a 'gemm' row is 'ms'"),
        (GEMM | {"gpu": 3}, "'gpu' is 3"),
        ({"collective": "all_reduces", "gpus": 8, "size_bytes": 1, "value": 1}, "unknown collective"),
    ],
)
def test_a_row_that_must_not_be_fitted_is_refused_by_name(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_rows([GEMM, row], H100, where=WHERE)
    assert reason in caught.value.message
    assert caught.value.hint
    assert str(caught.value.where) == "rows.json: row 2"


def test_a_file_without_rows_of_the_device_says_what_it_holds() -> None:
    with pytest.raises(SpecError, match="no row of 'h100-sxm' can be fitted") as caught:
        read_rows([GEMM | {"gpu": "A100"}], H100, where=WHERE)
    assert "1 of another device: " in str(caught.value.hint)


def test_rows_that_are_all_held_out_cannot_be_fitted() -> None:
    with pytest.raises(SpecError, match="can be fitted"):
        read_rows([GEMM | {"fold": 2}], H100, where=WHERE)


@given(st.sampled_from(CONSTANTS), st.floats(0.3, 3.0))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_constant_put_at_a_point_is_read_back_there(constant: Any, factor: float) -> None:
    moved = constant.put(H100, constant.log(H100) + np.log(factor))
    assert constant.log(moved) == pytest.approx(
        max(constant.log(H100) + np.log(factor), np.log(constant.offset or 1e-99))
    )
    assert value_at(moved, constant.path) >= 0


@given(st.lists(st.floats(0.2, 5.0), min_size=1, max_size=6))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_any_measured_values_give_finite_constants_within_reach(factors: list[float]) -> None:
    times = attention_decode_s(H100, "bf16", 8, 4096, 32, 8, 128, warm=True)
    rows = [
        {
            **{"kernel": "attention_decode", "precision": "bf16", "batch": 8, "context": 4096, "heads": 32},
            **{"kv_heads": 8, "head_dim": 128, "value": float(times) * factor},
        }
        for factor in factors
    ]
    for change in fitted(rows).changes:
        assert change.before / 5.01 <= change.after <= change.before * 5.01


def test_five_steps_of_a_slower_cluster_lower_its_sustained_rate() -> None:
    rows = [STEP | {"mbs": mbs, "gbs": 64 * mbs} for mbs in (1, 2, 4, 8, 16)]
    here = [predict_training(row).predicted or 0.0 for row in rows]
    result = refine(H100, [row | {"value": 1.2 * time} for row, time in zip(rows, here, strict=True)], where=WHERE)
    (errors,) = result.errors
    assert errors.after[1] < errors.before[1]
    assert result.device.sustained_fraction("bf16") < H100.sustained_fraction("bf16")


def test_steps_of_a_board_at_its_power_limit_refine_the_energy_of_a_flop() -> None:
    b200, row = load_device("b200"), STEP | {"gpu": "B200", "precision": "fp8", "stack": "megatron-te-2025"}
    step = predict_training(row).predicted or 0.0
    result = refine(b200, [row | {"value": 1.2 * step}], where=WHERE)
    assert result.device.gemm.joules_per_flop_bit > b200.gemm.joules_per_flop_bit
    assert result.device.powered_fraction("fp8") < b200.powered_fraction("fp8")


B200_STEP = STEP | {"gpu": "B200", "precision": "fp8", "stack": "megatron-te-2025"}


def test_a_step_at_a_lower_limit_that_is_as_predicted_there_moves_nothing() -> None:
    row = B200_STEP | {"power_w": 700}
    result = refine(load_device("b200"), [row | {"value": predict_training(row).predicted}], where=WHERE)
    assert all(change.after == pytest.approx(change.before, rel=1e-6) for change in result.changes)


def test_a_step_at_a_lower_limit_finds_the_energy_that_the_own_limit_finds() -> None:
    b200 = load_device("b200")
    factors = []
    for power in (1000, 700):
        rows = [B200_STEP | {"mbs": mbs, "gbs": 64 * mbs, "power_w": power} for mbs in (1, 2, 4, 8, 16)]
        times = [1.1 * (predict_training(row).predicted or 0.0) for row in rows]
        steps = [row | {"value": time} for row, time in zip(rows, times, strict=True)]
        found = refine(b200, steps, where=WHERE).device
        factors.append(found.gemm.joules_per_flop_bit / b200.gemm.joules_per_flop_bit)
    # 1.2 of both: of 760 W at the one limit, of 460 W at the other, which would be 2.0 if 700 W were read as 1,000
    assert factors[0] == pytest.approx(factors[1], rel=0.1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"power_w": 1200}, "above its own of 1000 W"),
        ({"power_w": 200}, "leaves nothing beside its base of 240 W"),
        ({"power_w": "700 W"}, "'power_w' is '700 W'"),
        ({"memory_bandwidth_bytes_per_s": 3.35e12}, "is not b200"),
    ],
)
def test_a_step_of_a_board_that_cannot_be_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        refine(load_device("b200"), [B200_STEP | change], where=WHERE)
    assert reason in caught.value.message
    assert str(caught.value.where) == "rows.json: row 1"


def test_the_limit_of_a_step_is_one_of_the_device_that_is_refined() -> None:
    stronger = replace(load_device("b200"), power_w=1200.0)
    step = B200_STEP | {"power_w": 1200, "value": predict_training(B200_STEP).predicted}
    assert refine(stronger, [step], where=WHERE).fitted == 1


def test_kernels_under_a_lower_limit_are_left_out() -> None:
    measured = read_rows([GEMM, GEMM | {"power_w": 700}, GEMM | {"power_w": 400}], H100, where=WHERE)
    assert (measured.fitted, dict(measured.left_out)) == (2, {"under a lower power limit than the device's own": 1})
    with pytest.raises(SpecError, match="is not h100-sxm"):
        read_rows([GEMM | {"gpu": "H100-SXM", "memory_type": "HBM2e"}], H100, where=WHERE)


def test_a_rate_refines_as_the_step_it_stands_for() -> None:
    step = predict_training(STEP).predicted or 0.0
    rate = 512 * 2048 / step
    rows = ({"metric": "step_time_s", "value": 1.3 * step}, {"metric": "tokens_per_s", "value": rate / 1.3})
    found = [refine(H100, [STEP | row], where=WHERE).device for row in rows]
    assert found[0].sustained_fraction("bf16") == pytest.approx(found[1].sustained_fraction("bf16"), rel=1e-6)


def steps_of(*factors: float) -> list[dict[str, Any]]:
    step = predict_training(STEP).predicted or 0.0
    return [STEP | {"id": f"step {index}", "value": factor * step} for index, factor in enumerate(factors)]


def test_steps_that_only_more_than_the_peak_explains_are_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"ask for 1\d\d % of the matrix peak \(gemm.sustained.bf16\)") as caught:
        refine(H100, steps_of(0.6, 0.55), where=WHERE)
    assert caught.value.message.endswith("shorter than all of it gives: step 1, step 0")
    assert "FLOPs of a step" in (caught.value.hint or "")


@pytest.mark.parametrize("device", ["h100", "b200"])
def test_an_impossible_step_among_possible_ones_is_refused_by_name(device: str) -> None:
    row = STEP if device == "h100" else B200_STEP
    step = predict_training(row).predicted or 0.0
    rows = [row | {"id": f"of {factor}", "value": factor * step} for factor in (1.0, 0.5, 1.1)]
    with pytest.raises(SpecError, match="shorter than all of the matrix peak, the rate of the links") as caught:
        refine(load_device(device), rows, where=WHERE)
    assert caught.value.message.endswith(" gives: of 0.5")


@pytest.mark.slow
def test_steps_as_much_faster_as_the_model_errs_are_fitted() -> None:
    assert refine(H100, steps_of(0.8, 0.78), where=WHERE).fitted == 2


def test_of_many_impossible_steps_the_five_worst_are_named() -> None:
    with pytest.raises(SpecError, match="step 6, step 5, step 4, step 3, step 2 and 2 more"):
        refine(H100, steps_of(*(0.6 - 0.01 * index for index in range(7))), where=WHERE)


def test_steps_a_tenth_faster_leave_every_share_possible() -> None:
    shares = {change.constant: change.after for change in refine(H100, steps_of(0.9, 0.9), where=WHERE).changes}
    assert H100.sustained_fraction("bf16") < shares["gemm.sustained.bf16"] <= 1
    assert max(shares.values()) <= 1


def test_a_step_in_milliseconds_moves_nothing_and_is_not_counted() -> None:
    slower = (1.2, 1.19, 1.21, 1.2)
    alone, beside = (refine(H100, steps_of(*factors), where=WHERE) for factors in (slower, (*slower, 1200.0)))
    assert beside.device == alone.device
    assert (beside.fitted, len(beside.residuals), sum(error.rows for error in beside.errors)) == (4, 4, 4)
    assert dict(beside.left_out) == {"10 or more times further off than the other steps": 1}


def test_an_outlier_among_spread_steps_is_one_beyond_their_own_spread() -> None:
    # off by 0, 1.5, 3 ... in percent, the outlier by a third: twenty times the median deviation
    spread = [1.2 * (1 + 0.015 * index) for index in range(-3, 4)]
    result = refine(H100, steps_of(*spread, 1.6), where=WHERE)
    assert [warning.partition(" is ")[0] for warning in result.warnings] == ["step 7"]
    assert refine(H100, steps_of(*spread), where=WHERE).warnings == ()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (GEMM, "this is no measured step"),
        (STEP | {"gpu": "A100"}, "the row is of 'A100'"),
        (STEP | {"value": -1}, "'value' is -1"),
        (STEP | {"metric": "ms"}, "unknown metric"),
        (STEP | {"network": None}, "the network is not stated"),
        ({key: value for key, value in STEP.items() if key != "dims"}, "dimensions"),
    ],
)
def test_a_row_that_is_no_step_of_the_device_is_refused_by_name(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        refine(H100, [row], where=WHERE)
    assert reason in caught.value.message
    assert str(caught.value.where) == "rows.json: row 1"
