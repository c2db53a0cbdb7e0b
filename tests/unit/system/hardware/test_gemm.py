"""Matrix products: closed forms on a device with round constants, and properties of every shipped device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import bytes_s, gemm_s, grouped_gemm_s
from cosmic_opt.system.hardware.gemm import gemm_bytes
from tests.unit.system.hardware.devices import DEVICE, ROOFLINE, SHARP, TILES, with_gemm

NAMES = ("a100-80", "h100-sxm", "h200-sxm", "b200", "gb300", "mi300x", "tpu-v5p", "trn2", "l40s")
sizes = st.integers(1, 20_000)


def test_a_large_product_runs_at_its_share_of_the_peak() -> None:
    # 2 * 10^12 FLOPs at 0.5 * 1e15, and one launch of 1 us; 600 MB at 0.5 * 1e12 take 1.2 ms meanwhile
    assert float(gemm_s(DEVICE, "bf16", 10_000, 10_000, 10_000)) == pytest.approx(4e-3 + 1e-6, rel=1e-9)


def test_a_thin_product_runs_at_its_share_of_the_memory_rate() -> None:
    # 2 bytes * (1000 * 1000 + 2 * 1000) at 0.5 TB/s
    assert float(gemm_s(DEVICE, "bf16", 1, 1000, 1000)) == pytest.approx(2.004e6 / 0.5e12 + 1e-6, rel=1e-6)


def test_the_floor_of_a_tiny_product_is_one_launch() -> None:
    assert float(gemm_s(DEVICE, "bf16", 1, 1, 1)) == pytest.approx(1e-6, rel=1e-3)


def test_an_empty_product_takes_no_time() -> None:
    assert gemm_s(DEVICE, "bf16", [0, 5, 5], [5, 0, 5], [5, 5, 0]).tolist() == [0, 0, 0]


def test_narrow_operands_move_fewer_bytes_but_results_have_sixteen_bits() -> None:
    m, n, k = (np.array(float(size)) for size in (3, 5, 7))
    assert float(gemm_bytes("bf16", m, n, k)) == 2 * (21 + 35 + 15)
    assert float(gemm_bytes("fp8", m, n, k)) == 21 + 35 + 2 * 15
    assert float(gemm_bytes("fp4", m, n, k)) == (21 + 35) / 2 + 2 * 15
    assert float(gemm_bytes("fp32", m, n, k)) == 4 * (21 + 35 + 15)


def test_a_precision_reaches_its_own_fraction_of_its_own_peak() -> None:
    # fp8: 2e15 * 0.5 * 0.5, half of bf16's 0.5 of 1e15 doubled: the same rate
    times = [float(gemm_s(DEVICE, precision, 10_000, 10_000, 10_000)) for precision in ("bf16", "fp8")]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_a_precision_without_a_peak_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="no matrix peak in 'fp4'"):
        gemm_s(DEVICE, "fp4", 1, 1, 1)
    with pytest.raises(SpecError, match="unknown precision 'fp9'"):
        gemm_s(DEVICE, "fp9", 1, 1, 1)


def test_filling_the_chip_and_starting_tiles_add_a_constant_to_each_side() -> None:
    # (m n + fill * SMs * 128^2)(k + depth): with fill 1 and depth k the time doubles twice at m n = 100 * 128^2
    device = with_gemm(fill=1.0, depth=5000.0, simple=replace(ROOFLINE, launch_s=0.0))
    side = 1280
    plain = 2 * side**2 * 5000 / 0.5e15
    assert float(gemm_s(device, "bf16", side, side, 5000)) == pytest.approx(4 * plain, rel=1e-9)


def test_a_sustained_rate_holds_at_the_reference_product() -> None:
    device = with_gemm(fill=3.0, depth=400.0, simple=replace(ROOFLINE, launch_s=0.0, memory_fraction=1e3))
    time = float(gemm_s(device, "bf16", 1000, 1000, 1000, sustained=True))
    assert 2e9 / time == pytest.approx(0.4e15, rel=1e-9)


def test_the_power_limit_grows_from_nothing_to_its_whole() -> None:
    device = with_gemm(simple=replace(ROOFLINE, throttle=0.5, launch_s=0.0, memory_fraction=1e3))
    k = 10_000
    # ideal 0.5, 1.5 and 4 ms against a limit that starts at 1 ms and is whole at 2 ms
    rows = [ideal_s * 0.5e15 / (2 * 1000 * k) for ideal_s in (0.5e-3, 1.5e-3, 4e-3)]
    times = gemm_s(device, "bf16", rows, 1000, k)
    assert times.tolist() == pytest.approx([0.5e-3, 1.5e-3 * 1.25, 4e-3 * 1.5])


def test_whole_waves_are_paid_by_the_tile_form() -> None:
    # 100 SMs, tiles of 100 x 100: 100 tiles are one wave, 101 are two
    device = with_gemm(tile=replace(ROOFLINE, launch_s=0.0, memory_fraction=1e3))
    one, two = gemm_s(device, "bf16", [1000, 1010], [1000, 1000], 1000, form="tile").tolist()
    assert one == pytest.approx(2e9 / 0.5e15)
    assert two == pytest.approx(2 * one)


def test_splitting_k_fills_idle_sms_at_the_price_of_partial_sums() -> None:
    device = with_gemm(library=replace(TILES, splits=(1, 4)), tile=replace(ROOFLINE, launch_s=0.0, memory_fraction=1.0))
    # one tile on one SM: 4 parts of k run on 4 SMs; traffic adds 4 bytes * 4 parts per result
    whole = 2 * 100 * 100 * 100_000 / (0.5e15 / 100)
    assert float(gemm_s(device, "bf16", 100, 100, 100_000, form="tile")) == pytest.approx(whole / 4, rel=1e-3)
    # parts of a short k count as 100 deep at least
    short = float(gemm_s(device, "bf16", 100, 100, 300, form="tile"))
    assert short == pytest.approx(2 * 100 * 100 * 100 / (0.5e15 / 100), rel=1e-3)


def test_a_grouped_product_rounds_each_experts_rows_up() -> None:
    rows = [1001, 1100, 1101, 1200]
    times = grouped_gemm_s(DEVICE, "bf16", rows, 1000, 100_000, 8)
    compute = 2 * 8 * 1000 * 100_000 / (0.5e15 * 0.5)  # of one row
    assert times.tolist() == pytest.approx([padded * compute + 1e-6 for padded in (1100, 1100, 1200, 1200)], rel=1e-5)


def test_a_grouped_product_reads_the_weights_of_every_expert() -> None:
    time = float(grouped_gemm_s(DEVICE, "bf16", 1, 50, 1000, 64))
    assert time == pytest.approx(64 * 2 * (1000 * 50 + 1050) / 0.5e12 + 1e-6, rel=1e-6)


def test_no_rows_for_an_expert_take_no_time() -> None:
    assert float(grouped_gemm_s(DEVICE, "bf16", 0, 1000, 1000, 8)) == 0


def test_moving_bytes_takes_their_share_of_the_memory_rate() -> None:
    assert bytes_s(DEVICE, [1e9, 2e9], 0.5).tolist() == pytest.approx([2e-3, 4e-3])


@pytest.mark.parametrize("form", ["simple", "tile"])
@pytest.mark.parametrize("name", NAMES)
@given(m=sizes, n=sizes, k=sizes, more=st.integers(1, 5000))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_a_larger_product_is_never_faster(name: str, form: str, m: int, n: int, k: int, more: int) -> None:
    device = load_device(name)
    base = float(gemm_s(device, "bf16", m, n, k, form=form))  # type: ignore[arg-type]
    for grown in ((m + more, n, k), (m, n + more, k), (m, n, k + more)):
        assert float(gemm_s(device, "bf16", *grown, form=form)) >= base * (1 - 1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@given(m=sizes, n=sizes, k=sizes, factor=st.floats(1.0, 4.0))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_faster_memory_or_a_higher_peak_never_slows_a_product(name: str, m: int, n: int, k: int, factor: float) -> None:
    device = load_device(name)
    base = float(gemm_s(device, "bf16", m, n, k))
    faster = replace(device, memory_bytes_per_s=device.memory_bytes_per_s * factor)
    stronger = replace(device, peak_flop_per_s={key: peak * factor for key, peak in device.peak_flop_per_s.items()})
    for better in (faster, stronger):
        assert float(gemm_s(better, "bf16", m, n, k)) <= base * (1 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(m=sizes, n=sizes, k=sizes)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_no_product_beats_the_data_sheet(name: str, m: int, n: int, k: int) -> None:
    device = load_device(name)
    time = float(gemm_s(device, "bf16", m, n, k))
    assert time >= 2 * m * n * k / device.peak("bf16")
    assert time >= float(gemm_bytes("bf16", *(np.array(float(size)) for size in (m, n, k)))) / device.memory_bytes_per_s


@given(st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=8))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_arrays_give_what_scalars_give(shapes: list[tuple[int, int, int]]) -> None:
    device = load_device("h100-sxm")
    together = gemm_s(device, "bf16", *np.array(shapes).T, form="tile")
    assert together.tolist() == pytest.approx([float(gemm_s(device, "bf16", *each, form="tile")) for each in shapes])


def test_both_forms_agree_on_large_products_within_ten_percent() -> None:
    for name in ("a100-80", "h100-sxm", "h200-sxm", "b200"):
        device = load_device(name)
        simple, tile = (float(gemm_s(device, "bf16", 8192, 8192, 8192, form=form)) for form in ("simple", "tile"))  # type: ignore[arg-type]
        assert simple == pytest.approx(tile, rel=0.1), name


def test_a_knee_is_a_maximum_softened() -> None:
    soft = with_gemm(simple=replace(ROOFLINE, knee=2.0))
    hard = with_gemm(simple=replace(ROOFLINE, knee=SHARP))
    assert float(gemm_s(soft, "bf16", 500, 4000, 4000)) > float(gemm_s(hard, "bf16", 500, 4000, 4000))
