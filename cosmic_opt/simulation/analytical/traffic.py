"""Compiled: what one call of every collective takes, and one micro-batch's work per layer, embedding and head.

A collective of c chunks costs max(one chunk's path, max over dimensions of head + c * work + tail): work is all a
chunk does on the dimension, head and tail the least time before its first and after its last visit. This
holds under every order of service, is exact for one chunk and non-decreasing in every phase time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.analytical.layout import FULL, MAX_DIMENSIONS, SELECTIVE, Link, Slot, Whole
from cosmic_opt.simulation.analytical.tables import IntArray


class Traffic(NamedTuple):
    """Ticks of one call of every collective.

    A tensor-parallel synchronisation is a reduction and a gather: with sequence parallelism a reduce-scatter and
    an all-gather apart, without it an all-reduce and nothing. Sharded gradients alike.
    """

    tensor_reduce: int
    tensor_gather: int
    keys_gather: int
    keys_reduce: int
    send: int
    layer_reduce: int
    layer_gather: int
    embed_reduce: int
    embed_gather: int
    head_reduce: int
    head_gather: int


class Work(NamedTuple):
    """Ticks of one micro-batch in one layer, the embedding and the head, blocking communication included.

    `late` is what a layer, forward and backward together, waits for host memory; `forward` and `backward` include it.
    """

    forward: int
    backward: int
    embed_forward: int
    embed_backward: int
    head_forward: int
    head_backward: int
    late: int


@jit_inline
def collect_traffic(whole: IntArray, vectors: IntArray) -> Traffic:
    """Compose every collective from the option vectors of all dimensions [D, K]."""
    chunks = whole[Whole.CHUNKS]
    scattered = whole[Whole.SEQUENCE_PARALLEL] != 0
    sharded = whole[Whole.ZERO_STAGE] != 0
    blueconnect = whole[Whole.BLUECONNECT] != 0
    up, down = Slot.GRADIENT_UP_LATENCY, Slot.GRADIENT_DOWN_LATENCY
    spread = whole[Whole.SPREAD]
    how = chunks, scattered, blueconnect, spread >> (MAX_DIMENSIONS * Link.TENSOR)
    tensor = _exchange(
        vectors, (Slot.TENSOR_UP, Slot.TENSOR_UP_LATENCY, Slot.TENSOR_DOWN, Slot.TENSOR_DOWN_LATENCY), how
    )
    members = spread >> (MAX_DIMENSIONS * Link.SEQUENCE)
    keys_up, keys_up_latency = Slot.SEQUENCE_UP, Slot.SEQUENCE_UP_LATENCY
    keys_down, keys_down_latency = Slot.SEQUENCE_DOWN, Slot.SEQUENCE_DOWN_LATENCY
    keys = _exchange(
        vectors, (keys_up, keys_up_latency, keys_down, keys_down_latency), (chunks, True, blueconnect, members)
    )
    how = chunks, sharded, blueconnect, spread >> (MAX_DIMENSIONS * Link.GRADIENT)
    layer = _exchange(vectors, (Slot.LAYER_UP, up, Slot.LAYER_DOWN, down), how)
    embed = _exchange(vectors, (Slot.EMBED_UP, up, Slot.EMBED_DOWN, down), how)
    head = _exchange(vectors, (Slot.HEAD_UP, up, Slot.HEAD_DOWN, down), how)
    return Traffic(
        tensor_reduce=tensor[0],
        tensor_gather=tensor[1],
        keys_gather=keys[1],
        keys_reduce=keys[0],
        send=_send(vectors, whole[Whole.INTERLEAVE] > 1),
        layer_reduce=layer[0],
        layer_gather=layer[1],
        embed_reduce=embed[0],
        embed_gather=embed[1],
        head_reduce=head[0],
        head_gather=head[1],
    )


@jit_inline
def _exchange(vectors: IntArray, slots: tuple[int, int, int, int], how: tuple[int, bool, bool, int]) -> tuple[int, int]:
    """Return the ticks of a reduction and of a gather; of an all-reduce and 0 unless they run apart.

    `how` is: chunks, whether they run apart, whether up and down through dimensions, and, where chunks choose their
    order, a bit for every dimension with members.
    """
    up, up_latency, down, down_latency = slots
    chunks, apart, blueconnect, members = how
    members &= (1 << MAX_DIMENSIONS) - 1
    if members:
        if apart:
            return spread_time(vectors, slots, chunks, members, 1), spread_time(vectors, slots, chunks, members, 2)
        return spread_time(vectors, slots, chunks, members, 3), 0
    if apart:
        return _one_way(vectors, up, up_latency, chunks), _one_way(vectors, down, down_latency, chunks)
    if blueconnect:
        return _up_and_down(vectors, slots, chunks), 0
    return _one_way(vectors, up, up_latency, chunks), 0


@jit
def spread_time(vectors: IntArray, slots: tuple[int, int, int, int], chunks: int, members: int, ways: int) -> int:
    """Return a lower bound for chunks that take their dimensions in any order, up (ways 1), down (2) or both (3).

    In whatever order a chunk visits dimensions of n_d members, it moves there shares s_d of which the sum of
    s_d (1 - 1/n_d) is 1 - 1/N: what one dimension reduces no other has to. `structure` scales the payload so that a
    slot u_d is the time of a chunk if dimension d did all of that. Let a_d be the part that d does, sum 1. A dimension
    is busy for the sum of a_d u_d over chunks, at most the time T: so chunks = sum of all a_d <= T * sum of 1 / u_d.
    And a chunk alone takes all latencies and sum of a_d u_d >= min u_d. Each visit and each slot is rounded by half a
    tick, taken off. (Derived here; it is the ideal network of Rashidi 2022, section 6.)
    """
    up, up_latency, down, down_latency = slots
    each = (1 if ways & 1 else 0) + (1 if ways & 2 else 0)
    dims = latency = last_latency = least = 0
    rate = 0.0
    for dim in range(vectors.shape[0]):
        if not members >> dim & 1:
            continue
        unit = 0
        if ways & 1:
            unit += vectors[dim, up]
            latency += vectors[dim, up_latency]
        if ways & 2:
            unit += vectors[dim, down]
            latency += vectors[dim, down_latency]
        last_latency = vectors[dim, down_latency if ways & 2 else up_latency]
        least = unit if dims == 0 else min(least, unit)
        rate += 1 / unit if unit > 0 else np.inf
        dims += 1
    if dims == 1:
        return int(max(least + latency, chunks * least + last_latency))
    together = chunks / rate * (1 - 1e-12) - each * (chunks + 1)
    return int(max(latency + max(0, least - each * (dims + 1)), together))


@jit_inline
def _one_way(vectors: IntArray, serial: int, latency: int, chunks: int) -> int:
    """Every dimension is visited once: one chunk's path, and the others behind it on the widest dimension."""
    path = widest = vectors[0, serial]
    path += vectors[0, latency]
    for dim in range(1, vectors.shape[0]):
        path += vectors[dim, serial] + vectors[dim, latency]
        widest = max(widest, vectors[dim, serial])
    ticks: int = path + (chunks - 1) * widest
    return ticks


@jit_inline
def _up_and_down(vectors: IntArray, slots: tuple[int, int, int, int], chunks: int) -> int:
    """Max over dimensions of: the way up to it, all chunks' work on it, the way back from its last visit."""
    up, up_latency, down, down_latency = slots
    before = after = longest = 0
    for dim in range(vectors.shape[0]):
        work = vectors[dim, up] + vectors[dim, down]
        after += vectors[dim, down_latency]
        longest = max(longest, before + chunks * work + after)
        before += vectors[dim, up] + vectors[dim, up_latency]
        after += vectors[dim, down]
    return max(longest, before + after)


@jit_inline
def _send(vectors: IntArray, around: bool) -> int:
    """The worst pair of neighbouring stages: back in the dimensions that carry, one step in the next.

    Interleaved stages also send `around`, from the last to the first.
    """
    carried = worst = 0
    for dim in range(vectors.shape[0]):
        worst = max(worst, carried + vectors[dim, Slot.SEND_STEP])
        carried += vectors[dim, Slot.SEND_CARRY]
    return max(worst, carried) if around else worst


@jit_inline
def collect_work(whole: IntArray, traffic: Traffic) -> Work:
    """Add blocking communication to compute.

    A layer synchronises twice each way over tp. Over sp it gathers keys and values each way, and reduces their
    gradients. What it reads from and writes to host memory runs beside all that: the layer ends with the later of the
    two (Calculon: Isaev et al., SC '23, whose offloading also leaves out a layer's own time in memory).
    """
    recompute = whole[Whole.RECOMPUTE]
    forward = whole[Whole.FORWARD] + 2 * synchronise(traffic) + traffic.keys_gather
    backward = whole[Whole.BACKWARD] + 2 * synchronise(traffic) + traffic.keys_gather + traffic.keys_reduce
    if recompute == SELECTIVE:
        backward += whole[Whole.SELECTIVE] + traffic.keys_gather
    if recompute == FULL:
        backward += forward
    text = whole[Whole.VOCABULARY_PARALLEL]
    late_forward = max(0, whole[Whole.HOST_FORWARD] - forward)
    late_backward = max(0, whole[Whole.HOST_BACKWARD] - backward)
    return Work(
        forward=forward + late_forward,
        backward=backward + late_backward,
        embed_forward=whole[Whole.EMBED_FORWARD] + text * traffic.tensor_reduce,
        embed_backward=whole[Whole.EMBED_BACKWARD] + text * traffic.tensor_gather,
        head_forward=whole[Whole.HEAD_FORWARD] + text * traffic.tensor_gather,
        head_backward=whole[Whole.HEAD_BACKWARD] + text * traffic.tensor_reduce,
        late=late_forward + late_backward,
    )


@jit_inline
def synchronise(traffic: Traffic) -> int:
    """Return the ticks of one tensor-parallel synchronisation."""
    return traffic.tensor_reduce + traffic.tensor_gather


@jit_inline
def ends_of(whole: IntArray, stage: int) -> tuple[int, int]:
    """Return whether (1 or 0) stage type 0 first, 1 middle, 2 last has the embedding, and the head."""
    return 1 if stage == 0 else 0, 1 if stage == 2 or whole[Whole.PP] == 1 else 0
