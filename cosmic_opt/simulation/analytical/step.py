"""Compiled: one training step from a prepared row and one option vector per dimension.

Sources: pipeline, Narayanan 2021 (1F1B; stages cut in pieces: `interleaved`);
tensor and sequence parallelism, Shoeybi 2019 and Korthikanti 2022; sharding, Rajbhandari 2020 (ZeRO); offloading, Isaev
2023 (Calculon).

All arithmetic is integer and made of sums, products with counts, and maxima; exposures are subtracted only
from a total that contains the same compute, so the step is non-decreasing in every tick that goes in.
It is also homogeneous, which is how an overflow is recognised: a step that might not fit 64 bits is first composed
with every tick divided by a power of two.
"""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_apart
from cosmic_opt.simulation.analytical.interleaved import interleaved_ends
from cosmic_opt.simulation.analytical.layout import FULL, LIMIT_TICKS, NO_TIME, SELECTIVE, Term, Whole
from cosmic_opt.simulation.analytical.sharding import fill_sharding
from cosmic_opt.simulation.analytical.tables import IntArray
from cosmic_opt.simulation.analytical.traffic import (
    Traffic,
    Work,
    collect_traffic,
    collect_work,
    ends_of,
    synchronise,
)

TOO_LONG = NO_TIME
"""The time of a step beyond LIMIT_TICKS."""


@jit
def compose(whole: IntArray, vectors: IntArray, terms: IntArray) -> int:
    """Return the ticks of the step, and fill `terms` [12 + 2] with its parts and what is hidden.

    Args:
        whole: A prepared row, [W].
        vectors: An option vector per dimension, [D, K].
        terms: Written: `Term` parts, which sum to the result, then hidden gathers and hidden reductions.

    Returns:
        Non-decreasing in every entry of `vectors`; TOO_LONG (terms undefined) beyond LIMIT_TICKS.
    """
    ceiling = _ceiling(whole, vectors)
    if ceiling >= LIMIT_TICKS and _is_too_long(whole, vectors, terms, 2.0 ** np.ceil(np.log2(ceiling / LIMIT_TICKS))):
        return TOO_LONG
    return int(_step(whole, vectors, terms))


@jit
def _is_too_long(whole: IntArray, vectors: IntArray, terms: IntArray, scale: float) -> bool:
    """Tell whether the step exceeds LIMIT_TICKS, from ticks divided by `scale` and rounded up: they cannot overflow."""
    small, small_vectors = whole.copy(), np.empty_like(vectors)
    for position in range(Whole.FORWARD, Whole.COUNT):
        small[position] = int(np.ceil(whole[position] / scale))
    for dim in range(vectors.shape[0]):
        for slot in range(vectors.shape[1]):
            small_vectors[dim, slot] = int(np.ceil(vectors[dim, slot] / scale))
    return _step(small, small_vectors, terms) * scale >= LIMIT_TICKS


@jit
def _ceiling(whole: IntArray, vectors: IntArray) -> float:
    """A coarse upper bound of the step, in floating point: most rows need no second look."""
    compute = 0.0
    for position in range(Whole.FORWARD, Whole.OPTIMIZER_LAST + 1):
        compute += whole[position]
    network = 0.0
    for dim in range(vectors.shape[0]):
        for slot in range(vectors.shape[1]):
            network += vectors[dim, slot]
    passes = float(whole[Whole.MICRO_BATCHES] + whole[Whole.PP])
    buckets = passes * (whole[Whole.LAYERS] + whole[Whole.INTERLEAVE] + 2)
    ceiling: float = buckets * (3 * compute + 32 * whole[Whole.CHUNKS] * network)
    return ceiling


@jit_apart
def _step(whole: IntArray, vectors: IntArray, terms: IntArray) -> int:
    terms[:] = 0
    pp = whole[Whole.PP]
    traffic = collect_traffic(whole, vectors)
    work = collect_work(whole, traffic)
    slowest, (longest, first_end) = 0, _pipeline_ends(whole, work, traffic, 0)
    middle_end = last_end = first_end
    for stage in range(1, 3):
        if pp > 3 - stage:
            ticks, end = _pipeline_ends(whole, work, traffic, stage)
            if ticks > longest:
                slowest, longest = stage, ticks
            if stage == 1:
                middle_end = end
            else:
                last_end = end
    _fill_pipeline(whole, traffic, work, slowest, terms)
    forward, backward = _stage_ways(whole, work, traffic, slowest)
    terms[Term.BUBBLE] = longest - whole[Whole.MICRO_BATCHES] * (forward + backward)
    fill_sharding(whole, work, traffic, (longest, middle_end, last_end), terms)
    terms[Term.OFFLOAD] += max(0, whole[Whole.HOST_STEP] - terms[Term.OPTIMIZER])
    total: int = terms[0]
    for term in range(1, Term.COUNT):
        total += terms[term]
    return total


@jit
def _pipeline_ends(whole: IntArray, work: Work, traffic: Traffic, stage: int) -> tuple[int, int]:
    """Return the least time until the last backward pass of the first stage, and of this one, as this one delays them.

    The path goes down to this stage, through all its passes, and (the first) back up. Twice it waits for the stages
    after it, which work a micro-batch each way: until its first backward pass, with as many passes forward to work as
    1F1B lets it go ahead, and before its last backward pass, with as many passes backward to work. The waits are one
    where it goes forward all the way first.
    """
    if whole[Whole.INTERLEAVE] > 1 and whole[Whole.PP] > 1:
        ends: tuple[int, int] = interleaved_ends(whole, work, traffic, stage)
        return ends
    batches = whole[Whole.MICRO_BATCHES]
    forward, backward = _stage_ways(whole, work, traffic, stage)
    after, ahead = 0, 0
    down, up = _all_ways(whole, work, traffic)
    if stage == 0:
        after, ahead = down + up - forward - backward, whole[Whole.PP] - 1
        down, up = 0, 0
    elif stage == 1:
        last_forward, last_backward = _stage_ways(whole, work, traffic, 2)
        after, ahead = last_forward + last_backward, 1
        down, up = down - forward - last_forward, up - backward - last_backward
    else:
        down, up = down - forward, up - backward
    waits = max(0, after - min(batches - 1, ahead) * min(forward, backward))
    if batches > ahead + 1:
        waits = max(0, after - ahead * forward) + max(0, after - ahead * backward)
    own = down + batches * (forward + backward) + waits
    return own + up, own


@jit
def _stage_ways(whole: IntArray, work: Work, traffic: Traffic, stage: int) -> tuple[int, int]:
    """Return a pass forward and one backward through a stage, with the messages it sends: one per interleaved piece.

    The last stage sends forward, and the first one backward, only between pieces.
    """
    embed, head = ends_of(whole, stage)
    layers = whole[Whole.LAYERS_FIRST + stage]
    forward = layers * work.forward + embed * work.embed_forward + head * work.head_forward
    backward = layers * work.backward + embed * work.embed_backward + head * work.head_backward
    if whole[Whole.PP] > 1:
        forward += (whole[Whole.INTERLEAVE] - head) * traffic.send
        backward += (whole[Whole.INTERLEAVE] - embed) * traffic.send
    return forward, backward


@jit
def _all_ways(whole: IntArray, work: Work, traffic: Traffic) -> tuple[int, int]:
    """Return a pass forward and one backward through all stages, with their messages."""
    layers, pp = whole[Whole.LAYERS], whole[Whole.PP]
    messages = (pp * whole[Whole.INTERLEAVE] - 1) * traffic.send if pp > 1 else 0
    forward = layers * work.forward + work.embed_forward + work.head_forward + messages
    return forward, layers * work.backward + work.embed_backward + work.head_backward + messages


@jit
def _fill_pipeline(whole: IntArray, traffic: Traffic, work: Work, stage: int, terms: IntArray) -> None:
    """Every micro-batch through the slowest stage, by cause."""
    embed, head = ends_of(whole, stage)
    batches = whole[Whole.MICRO_BATCHES]
    layers = batches * whole[Whole.LAYERS_FIRST + stage]
    recompute = whole[Whole.RECOMPUTE]
    terms[Term.FORWARD] = layers * whole[Whole.FORWARD]
    terms[Term.BACKWARD] = layers * whole[Whole.BACKWARD]
    if recompute == SELECTIVE:
        terms[Term.RECOMPUTE] = layers * whole[Whole.SELECTIVE]
    if recompute == FULL:
        terms[Term.RECOMPUTE] = layers * whole[Whole.FORWARD]
    terms[Term.ENDS] = batches * (
        embed * (whole[Whole.EMBED_FORWARD] + whole[Whole.EMBED_BACKWARD])
        + head * (whole[Whole.HEAD_FORWARD] + whole[Whole.HEAD_BACKWARD])
    )
    calls = 6 if recompute == FULL else 4
    ends = batches * whole[Whole.VOCABULARY_PARALLEL] * (embed + head)
    terms[Term.TENSOR] = (layers * calls + ends) * synchronise(traffic)
    gathers = 3 if recompute > 0 else 2
    terms[Term.SEQUENCE] = layers * (gathers * traffic.keys_gather + traffic.keys_reduce)
    terms[Term.OFFLOAD] = layers * work.late
    if whole[Whole.PP] > 1:
        terms[Term.SENDS] = batches * (2 * whole[Whole.INTERLEAVE] - embed - head) * traffic.send
