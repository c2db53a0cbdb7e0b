"""What a board's power leaves of its peak."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import Device
from cosmic_opt.system.hardware.device import limited_share
from tests.unit.system.hardware.devices import DEVICE, with_gemm


def powered(power_w: float = 400.0, joules: float = 5e-14, base_w: float = 100.0) -> Device:
    return replace(with_gemm(joules_per_flop_bit=joules, base_w=base_w), power_w=power_w)


def test_power_beyond_the_base_feeds_flops() -> None:
    # 300 W over 5e-14 J for each of 16 bits: 375 of 1000 TFLOPS
    assert powered().powered_fraction("bf16") == pytest.approx(0.375)


def test_operands_of_half_the_width_run_twice_as_fast() -> None:
    # the peak doubles as well
    device = powered(power_w=250.0)
    assert device.powered_fraction("fp8") == pytest.approx(device.powered_fraction("bf16"))


def test_no_power_makes_a_precision_faster_than_its_cold_kernel() -> None:
    cold = DEVICE.gemm.tile.efficiency * DEVICE.gemm.relative["fp8"]
    assert powered(power_w=10_000.0).powered_fraction("fp8") == pytest.approx(cold)


def test_plenty_of_power_leaves_the_rate_of_a_cold_kernel() -> None:
    assert powered(power_w=10_000.0).powered_fraction("bf16") == DEVICE.gemm.tile.efficiency


def test_without_an_energy_or_a_limit_the_rate_is_the_sustained_one() -> None:
    for device in (powered(joules=0.0), powered(power_w=0.0)):
        for precision in ("bf16", "fp8"):
            assert device.powered_fraction(precision) == device.sustained_fraction(precision)


def test_at_the_limit_all_widths_keep_one_share_of_their_peaks() -> None:
    # half of the bits are twice the FLOPs at the same clock: 0.5 of what a long run keeps in 16 bits
    device = with_gemm(in_step=0.5)
    share = 0.5 * device.sustained_fraction("bf16")
    assert [device.powered_fraction(precision) for precision in ("bf16", "fp16", "fp8")] == [share] * 3
    assert device.sustained_fraction("bf16") == DEVICE.sustained_fraction("bf16")


def test_a_width_whose_own_kernels_are_slower_keeps_their_share() -> None:
    device = with_gemm(in_step=0.95, relative={"fp8": 0.9})
    assert device.powered_fraction("bf16") == pytest.approx(0.95 * device.sustained_fraction("bf16"))
    assert device.powered_fraction("fp8") == device.sustained_fraction("fp8")


@given(power=st.floats(101, 5000), more=st.floats(1, 5000), joules=st.floats(1e-15, 1e-12))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_more_power_is_never_slower(power: float, more: float, joules: float) -> None:
    low, high = (powered(power_w=watts, joules=joules).powered_fraction("fp8") for watts in (power, power + more))
    assert 0 < low <= high <= DEVICE.gemm.tile.efficiency


def test_a_limit_feeds_products_where_their_energy_is_known_and_scales_the_sustained_rate() -> None:
    # 150 W over 5e-14 J for each of 16 bits: half of the 375 TFLOPS that 300 W feed
    limited = powered().limited_to(250.0)
    assert limited.powered_fraction("bf16") == pytest.approx(0.1875)
    assert limited.sustained_fraction("bf16") == pytest.approx(
        powered().sustained_fraction("bf16") * (250 / 400) ** 0.5
    )
    assert limited.power_w == 250.0


def test_without_an_energy_a_quarter_of_the_power_is_half_of_the_rate() -> None:
    board = powered(joules=0.0)
    for precision in ("bf16", "fp8"):
        own, limited = (each.powered_fraction(precision) for each in (board, board.limited_to(101.0)))
        assert limited == pytest.approx(own * (101 / 400) ** 0.5)
    assert limited_share(100.0, 400.0) == 0.5
    assert limited_share(800.0, 400.0) == 1.0


def test_the_own_limit_is_the_board_itself() -> None:
    for board in (powered(), powered(power_w=0.0)):
        assert board.limited_to(board.power_w) is board


@pytest.mark.parametrize("power", [401.0, 100.0, 0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_beyond_the_boards_own_or_its_base_is_refused(power: float) -> None:
    with pytest.raises(SpecError, match="power limit"):
        powered().limited_to(power)


def test_a_board_whose_limit_is_not_known_has_no_lower_one() -> None:
    with pytest.raises(SpecError, match="is not known"):
        powered(power_w=0.0).limited_to(300.0)


@given(low=st.floats(101, 399), more=st.floats(0, 200), joules=st.sampled_from([0.0, 5e-14]))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_a_higher_limit_is_never_slower(low: float, more: float, joules: float) -> None:
    board = powered(joules=joules)
    slow, fast = (board.limited_to(min(watts, 400.0)) for watts in (low, low + more))
    for precision in ("bf16", "fp8"):
        assert slow.powered_fraction(precision) <= fast.powered_fraction(precision)
        assert slow.sustained_fraction(precision) <= fast.sustained_fraction(precision)
