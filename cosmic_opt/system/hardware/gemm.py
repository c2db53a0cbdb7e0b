"""Matrix products: a smooth roofline with a launch floor and a power limit; tiles and waves where they matter."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.system.hardware.device import Device, GemmConstants, operand_bytes

FloatArray = NDArray[np.float64]
Form = Literal["simple", "tile"]
ACCUMULATOR_BYTES = 4
FILL_TILE = 128
LEAST_OUTPUT_BYTES = 2
"""Results are written in 16 bits however narrow the operands are."""


def gemm_s(
    device: Device,
    precision: str,
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    *,
    sustained: bool = False,
    form: Form = "simple",
) -> FloatArray:
    """Return seconds of (m, k) x (k, n), broadcast over arrays; an empty product takes no time.

    `sustained` uses the fraction of the peak a long run keeps; otherwise the kernel starts cold and meets the power
    limit only if it is long. `form` "tile" adds tile, wave and split-k effects and costs about 30 times as much.

    Raises:
        SpecError: an unknown precision, or one without a peak on the device.
    """
    m, n, k = np.broadcast_arrays(*(np.asarray(size, dtype=float) for size in (m, n, k)))
    traffic = gemm_bytes(precision, m, n, k)
    time = _simple(device, precision, m, n, k, traffic, sustained)
    if form == "tile":
        time = _tile(device, precision, m, n, k, traffic, sustained)
    return np.where(m * n * k > 0, time, 0.0)


def gemm_bytes(precision: str, m: FloatArray, n: FloatArray, k: FloatArray) -> FloatArray:
    """Return bytes moved by a product that reads each operand once and writes its result once."""
    size = operand_bytes(precision)
    return size * (m * k + n * k) + max(size, LEAST_OUTPUT_BYTES) * m * n


def grouped_gemm_s(
    device: Device,
    precision: str,
    rows_per_expert: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    experts: ArrayLike,
    *,
    sustained: bool = False,
) -> FloatArray:
    """Return seconds of `experts` products of `rows_per_expert` rows in one launch.

    Rows are rounded up to the tile height; weights of every expert are read once. No rows, no time.
    """
    constants = device.gemm
    rows, n, k, experts = np.broadcast_arrays(
        *(np.asarray(size, dtype=float) for size in (rows_per_expert, n, k, experts))
    )
    padded = np.ceil(rows / constants.group_rows) * constants.group_rows
    work = _work(device, experts * padded * n, k)
    compute_s = work / (_rate(device, precision, sustained) * constants.group_efficiency)
    traffic = experts * gemm_bytes(precision, rows, n, k)
    time = _roofline(device, compute_s, traffic, sustained)
    return np.where(rows * experts * n * k > 0, time, 0.0)


def _rate(device: Device, precision: str, sustained: bool) -> float:
    """Return matrix FLOP/s of the simple form, for work counted by `_work`.

    A sustained fraction holds at the reference product, start and drain included.
    """
    if sustained:
        side = np.asarray(float(device.gemm.reference))
        overhead = float(_work(device, side**2, side) / (2 * side**3))
        return device.peak(precision) * device.sustained_fraction(precision) * overhead
    return device.peak(precision) * device.gemm.simple.efficiency * device.gemm.relative.get(precision, 1.0)


def _simple(
    device: Device,
    precision: str,
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    traffic: FloatArray,
    sustained: bool,
) -> FloatArray:
    return _roofline(device, _work(device, m * n, k) / _rate(device, precision, sustained), traffic, sustained)


def _work(device: Device, outputs: FloatArray, k: FloatArray) -> FloatArray:
    """Return 2 (outputs + fill) (k + depth): FLOPs, and the time of filling every SM and starting each tile."""
    constants = device.gemm
    return np.asarray(2 * (outputs + constants.fill * device.sms * FILL_TILE**2) * (k + constants.depth))


def _roofline(device: Device, compute_s: FloatArray, traffic: FloatArray, sustained: bool) -> FloatArray:
    """Return t0 + (compute^p + memory^p)^(1/p). Source: Williams et al. 2009 (roofline), with a smooth knee."""
    simple = device.gemm.simple
    if not sustained:
        compute_s = compute_s * _throttle(device.gemm, simple.throttle, compute_s)
    memory_s = traffic / (simple.memory_fraction * device.memory_bytes_per_s)
    return simple.launch_s + smooth_max(compute_s, memory_s, simple.knee)


def smooth_max(first: FloatArray, second: FloatArray, power: float) -> FloatArray:
    """Return (first^p + second^p)^(1/p), which is the maximum for a large power."""
    top = np.maximum(np.maximum(first, second), 1e-300)
    return np.asarray(top * ((first / top) ** power + (second / top) ** power) ** (1 / power))


def _throttle(constants: GemmConstants, throttle: float, ideal_s: FloatArray) -> FloatArray:
    """Return how many times longer a kernel of this ideal time computes under the power limit."""
    span = constants.throttle_full_s - constants.throttle_from_s
    return 1 + throttle * np.clip((ideal_s - constants.throttle_from_s) / span, 0.0, 1.0)


def _tile(
    device: Device,
    precision: str,
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    traffic: FloatArray,
    sustained: bool,
) -> FloatArray:
    """Return the least time over tiles and splits of k."""
    library, tile = device.gemm.library, device.gemm.tile
    per_sm = device.peak(precision) * tile.efficiency * device.gemm.relative.get(precision, 1.0) / device.sms
    throttle = _throttle(device.gemm, tile.throttle, 2 * m * n * k / (per_sm * device.sms))
    if sustained:
        throttle = np.full_like(throttle, 1 + tile.throttle)
    best = np.full(m.shape, np.inf)
    for rows, columns in library.tiles:
        rate = per_sm / (1 + library.edge * (1 / rows + 1 / columns - 3 / 256))
        for split in library.splits:
            share = k if split == 1 else np.maximum(k / split, library.split_k_min)
            waves = split * np.ceil(m / rows) * np.ceil(n / columns) / device.sms
            seen = library.wave_share * np.ceil(waves) + (1 - library.wave_share) * np.maximum(waves, 1)
            compute_s = throttle * seen * 2 * rows * columns * (share + library.prologue_k) / rate
            moved = traffic + (ACCUMULATOR_BYTES * m * n * split if split > 1 else 0)
            memory_s = moved / (tile.memory_fraction * device.memory_bytes_per_s)
            time = tile.launch_s + smooth_max(compute_s, memory_s, tile.knee)
            best = np.minimum(best, time)
    return best
