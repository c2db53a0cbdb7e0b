"""Attention: fused prefill, its backward, and decode over a cache; the two products of the unfused form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.system.hardware.device import Device, operand_bytes

FloatArray = NDArray[np.float64]


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
) -> FloatArray:
    """Return seconds of fused attention over `seq` new tokens of each of `batch` sequences.

    FLOPs are 2 B H S^2 d for causal attention (half the square) and twice that without; start-up, traffic and
    arithmetic add. `efficiency` overrides the device's own fraction of the peak (an older kernel generation).
    """
    batch, seq, heads, kv_heads, head_dim = _floats(batch, seq, heads, kv_heads, head_dim)
    flops = attention_flops(batch, seq, heads, head_dim, causal=causal)
    return np.where(flops > 0, _fused(device, precision, flops, (batch, seq, heads, kv_heads, head_dim), efficiency), 0)


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

    `efficiency` is the forward's, as in `attention_prefill_s`; the device's ratio of backward to forward applies.
    """
    constants = device.attention
    shape = _floats(batch, seq, heads, kv_heads, head_dim)
    flops = attention_flops(shape[0], shape[1], shape[2], shape[4], causal=causal)
    forward = constants.efficiency if efficiency is None else efficiency
    scaled = constants.backward_flops * flops
    time = _fused(device, precision, scaled, shape, forward * constants.backward_efficiency)
    return np.where(flops > 0, time, 0)


def attention_flops(
    batch: ArrayLike, seq: ArrayLike, heads: ArrayLike, head_dim: ArrayLike, *, causal: bool = True
) -> FloatArray:
    """Return forward FLOPs of scores and values: 4 B H S^2 d, half of it when causal."""
    batch, seq, heads, head_dim = _floats(batch, seq, heads, head_dim)
    return np.asarray((2 if causal else 4) * batch * heads * seq**2 * head_dim)


def _fused(
    device: Device, precision: str, flops: FloatArray, shape: tuple[FloatArray, ...], efficiency: float | None
) -> FloatArray:
    batch, seq, heads, kv_heads, head_dim = shape
    constants = device.attention
    moved = 2 * operand_bytes(precision) * batch * seq * head_dim * (heads + kv_heads)
    blocks = batch * heads * np.ceil(seq / constants.tile_rows) / device.sms
    idle = np.ceil(blocks) / np.maximum(blocks, 1e-300)
    rate = device.peak(precision) * (constants.efficiency if efficiency is None else efficiency)
    return np.asarray(
        constants.prefill_launch_s + constants.traffic * moved / device.memory_bytes_per_s + idle * flops / rate
    )


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
) -> FloatArray:
    """Return seconds of one new token per sequence over a cache of `context` tokens.

    The cache is read once; each doubling of the context adds a step of the combination of partial results.
    `launch_s` overrides the floor (about 6 us inside an engine that replays graphs).
    """
    batch, context, heads, kv_heads, head_dim = _floats(batch, context, heads, kv_heads, head_dim)
    constants = device.attention
    moved = operand_bytes(precision) * batch * head_dim * (2 * kv_heads * context + 2 * heads)
    start = constants.decode_launch_s if launch_s is None else launch_s
    combine = constants.decode_doubling_s * np.log2(1 + context / constants.decode_context)
    time = start + combine + moved / (constants.decode_memory_fraction * device.memory_bytes_per_s)
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
    return device.gemm.simple.launch_s + compute_s + memory_s


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
    return device.gemm.simple.launch_s + np.maximum(compute_s, memory_s)


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
