"""Attention: fused prefill, its backward, and decode over a cache; the two products of the unfused form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.system.hardware.device import Device, operand_bytes

FloatArray = NDArray[np.float64]
FAR_BEYOND = 10.0
"""A working set this many times the cache's usable bytes leaves nothing in it; a power of more could overflow."""


def attention_prefill_s(
    device: Device,
    precision: str,
    batch: ArrayLike,
    seq: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    *,
    causal: bool = True,
    efficiency: float | None = None,
    writes_cache: bool = True,
) -> FloatArray:
    """Return seconds of fused attention over `seq` new tokens of each of `batch` sequences.

    Start-up, traffic and arithmetic add. With `writes_cache` the kernel pair of an inference engine is meant, which
    first reads q, k and v to rotate them and to write the cache; training reads and writes each tensor once.
    `efficiency` overrides the device's own fraction of the peak (an older kernel generation).
    """
    shape = _floats(batch, seq, heads, kv_heads, head_dim)
    flops = attention_flops(shape[0], shape[1], shape[2], shape[4], causal=causal)
    fraction = device.attention.efficiency if efficiency is None else efficiency
    copies = (4, 6) if writes_cache else (2, 2)
    return np.where(flops > 0, _fused(device, precision, flops, shape, fraction, copies, 1.0), 0.0)


def attention_backward_s(
    device: Device,
    precision: str,
    batch: ArrayLike,
    seq: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    *,
    causal: bool = True,
    efficiency: float | None = None,
) -> FloatArray:
    """Return seconds of the backward pass of fused attention, scores recomputed: five products for the forward's two.

    `efficiency` is the forward's, as in `attention_prefill_s`; the ratio of backward to forward applies to it.
    """
    constants = device.attention
    shape = _floats(batch, seq, heads, kv_heads, head_dim)
    flops = attention_flops(shape[0], shape[1], shape[2], shape[4], causal=causal)
    fraction = constants.backward_efficiency * (constants.efficiency if efficiency is None else efficiency)
    time = _fused(device, precision, flops, shape, fraction, (4, 4), constants.backward_flops)
    return np.where(flops > 0, time, 0.0)


def attention_flops(
    batch: ArrayLike, seq: ArrayLike, heads: ArrayLike, head_dim: ArrayLike, *, causal: bool = True
) -> FloatArray:
    """Return forward FLOPs of scores and values: 4 B H S^2 d, half of it when causal."""
    batch, seq, heads, head_dim = _floats(batch, seq, heads, head_dim)
    return np.asarray((2 if causal else 4) * batch * heads * seq**2 * head_dim)


def _fused(
    device: Device,
    precision: str,
    flops: FloatArray,
    shape: tuple[FloatArray, ...],
    efficiency: float,
    copies: tuple[int, int],
    passes: float,
) -> FloatArray:
    """Return start + traffic + arithmetic.

    `copies` counts passes over a query head's and a key head's tensor, `passes` multiplies the forward's FLOPs. A
    causal pass has blocks that see from one tile to the whole sequence, the longest first: the chip is busy for the
    mean, and the longest block bounds it from below and delays the end (list scheduling, Graham 1969).
    """
    batch, seq, heads, kv_heads, head_dim = shape
    constants = device.attention
    tensor = operand_bytes(precision) * batch * seq * head_dim
    hit = cached_share(device, 2 * tensor * (heads + kv_heads))
    moved = tensor * (copies[0] * heads + copies[1] * kv_heads) * (1 - hit * (1 - constants.cached_traffic))
    rate = device.peak(precision) * efficiency
    keys = seq + constants.prologue_tokens
    mean_s = passes * flops * keys / np.maximum(seq, 1) / rate
    longest_s = passes * 4 * np.minimum(constants.tile_rows, seq) * keys * head_dim / (rate / device.sms)
    arithmetic = np.maximum(mean_s, longest_s) + constants.tail * np.minimum(mean_s, longest_s)
    return np.asarray(constants.prefill_launch_s + constants.traffic * moved / device.memory_bytes_per_s + arithmetic)


def cached_share(device: Device, working_set_bytes: FloatArray) -> FloatArray:
    """Return the share of a repeatedly used working set that the last-level cache holds: nearly all or nothing."""
    cache = device.cache
    filled = np.minimum(working_set_bytes / (cache.share * cache.size_bytes), FAR_BEYOND)
    return np.asarray(1 / (1 + filled**cache.sharpness))


def attention_decode_s(
    device: Device,
    precision: str,
    batch: ArrayLike,
    context: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    *,
    launch_s: float | None = None,
    warm: bool = False,
) -> FloatArray:
    """Return seconds of one new token per sequence over a cache of `context` tokens.

    The KV cache is read once at the memory's rate, which it reaches after `ramp_bytes`; each doubling of the context
    adds a step of the combination of partial results. `warm` means that the same cache was read just before (a
    benchmark's repetition), so that a small one is still in the chip. `launch_s` overrides the floor (about 6 us
    inside an engine that replays graphs).
    """
    batch, context, heads, kv_heads, head_dim = _floats(batch, context, heads, kv_heads, head_dim)
    constants = device.attention
    moved = operand_bytes(precision) * batch * head_dim * (2 * kv_heads * context + 2 * heads)
    hit = cached_share(device, moved) if warm else np.zeros_like(moved)
    missed = (1 - hit) * (moved + np.minimum(moved, constants.ramp_bytes))
    start = constants.decode_launch_s if launch_s is None else launch_s
    combine = constants.decode_doubling_s * np.log2(1 + context / constants.decode_context)
    rate = constants.decode_memory_fraction * device.memory_bytes_per_s
    time = start + combine + (missed + hit * moved / constants.cache_gain) / rate
    return np.where(batch * context > 0, time, 0.0)


def scores_s(
    device: Device,
    precision: str,
    batch: ArrayLike,
    queries: ArrayLike,
    context: ArrayLike,
    heads: ArrayLike,
    head_dim: ArrayLike,
) -> FloatArray:
    """Return seconds of the unfused product of queries and keys: arithmetic and the write of the scores add."""
    compute_s, memory_s = _unfused(device, precision, batch, queries, context, heads, head_dim)
    return np.asarray(device.gemm.simple.launch_s + compute_s + memory_s)


def weighted_values_s(
    device: Device,
    precision: str,
    batch: ArrayLike,
    queries: ArrayLike,
    context: ArrayLike,
    heads: ArrayLike,
    head_dim: ArrayLike,
) -> FloatArray:
    """Return seconds of the unfused product of scores and values: the larger of arithmetic and reading the scores."""
    compute_s, memory_s = _unfused(device, precision, batch, queries, context, heads, head_dim)
    return np.asarray(device.gemm.simple.launch_s + np.maximum(compute_s, memory_s))


def _unfused(
    device: Device,
    precision: str,
    batch: ArrayLike,
    queries: ArrayLike,
    context: ArrayLike,
    heads: ArrayLike,
    head_dim: ArrayLike,
) -> tuple[FloatArray, FloatArray]:
    """Return seconds of arithmetic and of traffic of a batched product with one operand of queries x context."""
    batch, queries, context, heads, head_dim = _floats(batch, queries, context, heads, head_dim)
    simple = device.gemm.simple
    compute_s = 2 * batch * heads * queries * context * head_dim / (device.peak(precision) * simple.efficiency)
    elements = batch * heads * (queries * context + head_dim * (queries + context))
    memory_s = operand_bytes(precision) * elements / (simple.memory_fraction * device.memory_bytes_per_s)
    return compute_s, memory_s


def _floats(*sizes: ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(size, dtype=float) for size in sizes)))
