"""What a board's power leaves of its peak."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.system.hardware import Device
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


@given(power=st.floats(101, 5000), more=st.floats(1, 5000), joules=st.floats(1e-15, 1e-12))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_more_power_is_never_slower(power: float, more: float, joules: float) -> None:
    low, high = (powered(power_w=watts, joules=joules).powered_fraction("fp8") for watts in (power, power + more))
    assert 0 < low <= high <= DEVICE.gemm.tile.efficiency
