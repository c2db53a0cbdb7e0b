"""Attention: closed forms on a device with round constants, and properties of shipped devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.system.hardware import (
    attention_backward_s,
    attention_decode_s,
    attention_flops,
    attention_prefill_s,
    scores_s,
    weighted_values_s,
)
from tests.unit.system.hardware.devices import ATTENTION, CACHE, DEVICE, with_attention

NAMES = ("a100-80", "h100-sxm", "b200", "mi300x", "tpu-v5p")
LARGE = (64, 1000, 64, 8, 128)


def test_causal_attention_computes_half_the_square() -> None:
    assert float(attention_flops(2, 100, 8, 64, causal=False)) == 4 * 2 * 8 * 100**2 * 64
    assert float(attention_flops(2, 100, 8, 64)) == 2 * 2 * 8 * 100**2 * 64


def test_large_prefill_is_start_plus_traffic_plus_arithmetic() -> None:
    arithmetic = 2 * 64 * 64 * 1000**2 * 128 / 0.5e15
    # q and k, v read once to rotate and cache them, q and the cache written, all read again, the output written
    traffic = 2 * 64 * 1000 * 128 * (4 * 64 + 6 * 8) / 1e12
    assert float(attention_prefill_s(DEVICE, "bf16", *LARGE)) == pytest.approx(1e-6 + traffic + arithmetic)


def test_training_reads_and_writes_each_tensor_once() -> None:
    arithmetic = 2 * 64 * 64 * 1000**2 * 128 / 0.5e15
    traffic = 2 * 64 * 1000 * 128 * 2 * (64 + 8) / 1e12
    time = float(attention_prefill_s(DEVICE, "bf16", *LARGE, writes_cache=False))
    assert time == pytest.approx(1e-6 + traffic + arithmetic)


def test_a_full_square_takes_twice_the_arithmetic_of_a_causal_one() -> None:
    causal, full = (float(attention_prefill_s(DEVICE, "bf16", *LARGE, causal=flag)) for flag in (True, False))
    assert full - causal == pytest.approx(2 * 64 * 64 * 1000**2 * 128 / 0.5e15)


def test_backward_runs_five_products_for_the_forwards_two() -> None:
    arithmetic = 2.5 * 2 * 64 * 64 * 1000**2 * 128 / (0.5 * 0.5e15)
    traffic = 2 * 64 * 1000 * 128 * 4 * (64 + 8) / 1e12
    assert float(attention_backward_s(DEVICE, "bf16", *LARGE)) == pytest.approx(1e-6 + traffic + arithmetic)


def test_an_older_kernel_replaces_the_devices_own_fraction() -> None:
    own, older = (float(attention_prefill_s(DEVICE, "bf16", *LARGE, efficiency=share)) for share in (None, 0.25))
    assert older - own == pytest.approx(2 * 64 * 64 * 1000**2 * 128 / 0.5e15)
    assert float(attention_prefill_s(DEVICE, "bf16", *LARGE, efficiency=0.5)) == pytest.approx(own)


def test_with_few_heads_the_longest_block_is_the_kernel() -> None:
    # one head, 10 blocks on 100 SMs: the last block alone sees 1,000 keys for its 100 queries
    device = with_attention(traffic=0.0, prefill_launch_s=0.0)
    longest = 4 * 100 * 1000 * 128 / (0.5e15 / 100)
    assert float(attention_prefill_s(device, "bf16", 1, 1000, 1, 1, 128)) == pytest.approx(longest)


def test_part_of_the_longest_block_delays_the_end() -> None:
    plain = with_attention(traffic=0.0, prefill_launch_s=0.0)
    delayed = with_attention(traffic=0.0, prefill_launch_s=0.0, tail=0.5)
    longest = 4 * 100 * 1000 * 128 / (0.5e15 / 100)
    times = [float(attention_prefill_s(device, "bf16", *LARGE)) for device in (plain, delayed)]
    assert times[1] - times[0] == pytest.approx(0.5 * longest)


def test_starting_a_block_costs_some_keys() -> None:
    device = with_attention(traffic=0.0, prefill_launch_s=0.0, prologue_tokens=1000.0)
    plain = with_attention(traffic=0.0, prefill_launch_s=0.0)
    times = [float(attention_prefill_s(each, "bf16", *LARGE)) for each in (plain, device)]
    assert times[1] == pytest.approx(2 * times[0])


def test_tensors_that_fit_in_the_cache_move_less() -> None:
    device = replace(with_attention(cached_traffic=0.25), cache=replace(CACHE, size_bytes=1e12))
    cold = with_attention(cached_traffic=0.25)
    traffic = 2 * 64 * 1000 * 128 * (4 * 64 + 6 * 8) / 1e12
    times = [float(attention_prefill_s(each, "bf16", *LARGE)) for each in (cold, device)]
    assert times[0] - times[1] == pytest.approx(0.75 * traffic)


def test_decode_reads_the_cache_once_and_combines_per_doubling() -> None:
    moved = 2 * 32 * 128 * (2 * 8 * 3584 + 2 * 64)
    expected = 1e-6 + 1e-6 * 3 + moved / 0.5e12  # log2(1 + 3584 / 512) = 3
    assert float(attention_decode_s(DEVICE, "bf16", 32, 3584, 64, 8, 128)) == pytest.approx(expected)


def test_decode_pays_the_ramp_of_the_memory_once_and_never_more_than_it_moves() -> None:
    device = with_attention(ramp_bytes=1e6)
    large, tiny = (32, 3584, 64, 8, 128), (1, 1, 1, 1, 128)
    for shape, ramp in ((large, 1e6), (tiny, 2 * 128 * 4)):
        times = [float(attention_decode_s(each, "bf16", *shape)) for each in (DEVICE, device)]
        assert times[1] - times[0] == pytest.approx(ramp / 0.5e12)


def test_a_warm_cache_is_read_from_the_chip_and_pays_no_ramp() -> None:
    device = replace(with_attention(ramp_bytes=1e6), cache=replace(CACHE, size_bytes=1e12))
    moved = 2 * 32 * 128 * (2 * 8 * 3584 + 2 * 64)
    time = float(attention_decode_s(device, "bf16", 32, 3584, 64, 8, 128, warm=True))
    assert time == pytest.approx(4e-6 + moved / 1e12)


def test_a_given_floor_replaces_the_launch_of_decode() -> None:
    own, given_floor = (
        float(attention_decode_s(DEVICE, "bf16", 1, 512, 8, 8, 128, launch_s=floor)) for floor in (None, 6e-6)
    )
    assert given_floor - own == pytest.approx(5e-6)


def test_nothing_to_attend_to_takes_no_time() -> None:
    assert attention_prefill_s(DEVICE, "bf16", [0, 1, 1], [9, 0, 9], [8, 8, 0], 8, 128).tolist() == [0, 0, 0]
    assert attention_backward_s(DEVICE, "bf16", 0, 9, 8, 8, 128).tolist() == 0
    assert attention_decode_s(DEVICE, "bf16", [0, 1], [9, 0], 8, 8, 128).tolist() == [0, 0]


def test_writing_scores_adds_to_their_arithmetic_and_reading_them_hides_behind_it() -> None:
    shape = (8, 2048, 2048, 24, 128)
    arithmetic = 2 * 8 * 24 * 2048**2 * 128 / 0.5e15
    memory = 2 * 8 * 24 * (2048**2 + 2 * 2048 * 128) / 0.5e12
    assert float(scores_s(DEVICE, "bf16", *shape)) == pytest.approx(1e-6 + arithmetic + memory)
    assert float(weighted_values_s(DEVICE, "bf16", *shape)) == pytest.approx(1e-6 + max(arithmetic, memory))


shapes = st.tuples(st.integers(1, 64), st.integers(1, 16_384), st.sampled_from([1, 8, 32, 64]), st.sampled_from([1, 8]))


@pytest.mark.parametrize("name", NAMES)
@given(shape=shapes, more=st.integers(1, 4000))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_more_work_is_never_faster(name: str, shape: tuple[int, int, int, int], more: int) -> None:
    device = load_device(name)
    batch, length, heads, kv_heads = shape
    for model in (attention_prefill_s, attention_backward_s, attention_decode_s):
        base = float(model(device, "bf16", batch, length, heads, kv_heads, 128))
        grown = [
            float(model(device, "bf16", batch + more, length, heads, kv_heads, 128)),
            float(model(device, "bf16", batch, length + more, heads, kv_heads, 128)),
            float(model(device, "bf16", batch, length, 2 * heads, kv_heads, 128)),
            float(model(device, "bf16", batch, length, heads, 2 * kv_heads, 128)),
        ]
        assert min(grown) >= base * (1 - 1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(shape=shapes)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_a_warm_decode_is_never_slower_than_a_cold_one(name: str, shape: tuple[int, int, int, int]) -> None:
    device = load_device(name)
    cold, warm = (float(attention_decode_s(device, "bf16", *shape, 128, warm=flag)) for flag in (False, True))
    assert warm <= cold * (1 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(shape=shapes)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_no_prefill_beats_the_peak(name: str, shape: tuple[int, int, int, int]) -> None:
    device = load_device(name)
    batch, length, heads, kv_heads = shape
    flops = float(attention_flops(batch, length, heads, 128))
    assert float(attention_prefill_s(device, "bf16", batch, length, heads, kv_heads, 128)) >= flops / device.peak(
        "bf16"
    )


def test_arrays_give_what_scalars_give() -> None:
    device = load_device("b200")
    batch, seq = np.array([1, 4, 8]), np.array([512, 2048, 16384])
    for model in (attention_prefill_s, attention_backward_s, attention_decode_s):
        together = model(device, "bf16", batch, seq, 32, 8, 128)
        one_by_one = [float(model(device, "bf16", b, s, 32, 8, 128)) for b, s in zip(batch, seq, strict=True)]
        assert together.tolist() == pytest.approx(one_by_one)


def test_grouped_queries_read_less_cache() -> None:
    device = load_device("h100-sxm")
    times = attention_decode_s(device, "bf16", 64, 8192, 64, [1, 8, 64], 128)
    assert times[0] < times[1] < times[2]
    assert ATTENTION.decode_context == 512
