"""Compiled: weight gathers and gradient reductions of sharded or replicated data parallelism.

One stage's parameters are buckets: embedding, every layer, head. A bucket is gathered, worked with and
reduced: a flow shop of three machines in a fixed order of jobs (Conway, Maxwell and Miller 1967), forward in the order
of the model and backward against it. Its length is exact here, because layers are equal jobs. Both kinds of
traffic share the network, so a pass is never shorter than all its traffic. Traffic that may not overlap is part of
the job's work. What a pass takes beyond its work is exposed.
"""

from __future__ import annotations

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.interleaved import least_until_reduced, piece_layers
from cosmic_opt.simulation.analytical.layout import Term, Whole
from cosmic_opt.simulation.analytical.tables import IntArray
from cosmic_opt.simulation.analytical.traffic import Traffic, Work, ends_of


@jit
def fill_sharding(whole: IntArray, work: Work, traffic: Traffic, ends: tuple[int, int, int], terms: IntArray) -> None:
    """Exposed weight gathers and gradient reductions, and the optimizer.

    ZeRO-3 without a pipeline gathers and reduces with every micro-batch, everything else once a step. All stages
    gather at the start of the step, so the first one's gathers are seen; each reduces after its last backward pass,
    so a later stage's reductions are seen as far as they outlast the way back up. The optimizer starts when the last
    stage has its gradients and ends with the slowest.

    Args:
        whole, work, traffic: The step.
        ends: The least time until the last backward pass of a first, middle and last stage is done; the first is
            that of the whole pipeline.
        terms: Written.
    """
    pp, passes = whole[Whole.PP], 1
    if whole[Whole.ZERO_STAGE] == 3 and pp == 1:
        passes = whole[Whole.MICRO_BATCHES]
    latest = -1
    for stage in range(3):
        if stage == 0 or pp > 3 - stage:
            gather, gradient, gathered, reduced = _exposed(whole, work, traffic, stage)
            if stage == 0:
                terms[Term.GATHER] = passes * gather
                terms[Term.COUNT] = passes * (gathered - gather)
            sent = traffic.send if stage > 0 and whole[Whole.OVERLAP_GRADIENTS] else 0
            settled = ends[stage] - sent + passes * gradient
            if pp > 1 and whole[Whole.INTERLEAVE] > 1:
                settled = max(settled, least_until_reduced(whole, work, traffic, stage, reduced))
            if settled > latest:
                latest = settled
                terms[Term.COUNT + 1] = passes * (reduced - gradient)
            terms[Term.OPTIMIZER] = max(terms[Term.OPTIMIZER], whole[Whole.OPTIMIZER_FIRST + stage])
    terms[Term.GRADIENT] = latest - ends[0]


@jit
def _exposed(whole: IntArray, work: Work, traffic: Traffic, stage: int) -> tuple[int, int, int, int]:
    """Return exposed gathers and reductions of one pass, then all gathers and reductions of it.

    Weights are gathered going forward by every sharded stage, and again going backward by ZeRO-3 where it drops
    them in between: without a pipeline, or when the step is one micro-batch. Else they stay for the whole step.
    What overlaps the passes of interleaved pieces is seen beside the first piece only, which is worked first forward
    and last backward.
    """
    embed, head = ends_of(whole, stage)
    counts = (whole[Whole.LAYERS_FIRST + stage], embed, head)
    pieces = whole[Whole.INTERLEAVE]
    if pieces == 1 or whole[Whole.PP] == 1:
        exposed: tuple[int, int, int, int] = _exposed_beside(whole, work, traffic, counts)
        return exposed
    first = _exposed_beside(whole, work, traffic, (piece_layers(counts[0], pieces, 1), embed, 0))
    every = _traffic_of(whole, traffic, counts)
    gather = first[0] + (0 if whole[Whole.OVERLAP_WEIGHTS] else every[0] - first[2])
    gradient = first[1] + (0 if whole[Whole.OVERLAP_GRADIENTS] else every[1] - first[3])
    return gather, gradient, every[0], every[1]


@jit
def _traffic_of(whole: IntArray, traffic: Traffic, counts: tuple[int, int, int]) -> tuple[int, int]:
    """Return all gathers and all reductions of buckets."""
    layers, embed, head = counts
    dropped = whole[Whole.PP] == 1 or whole[Whole.MICRO_BATCHES] == 1
    again = 1 if whole[Whole.ZERO_STAGE] == 3 and dropped else 0
    gathers = layers * traffic.layer_gather + embed * traffic.embed_gather + head * traffic.head_gather
    reductions = layers * traffic.layer_reduce + embed * traffic.embed_reduce + head * traffic.head_reduce
    return gathers + again * (gathers - embed * traffic.embed_gather), reductions


@jit
def _exposed_beside(
    whole: IntArray, work: Work, traffic: Traffic, counts: tuple[int, int, int]
) -> tuple[int, int, int, int]:
    """Return exposed gathers and reductions, then all of them, of buckets that are worked in one pass each way."""
    layers, embed, head = counts
    dropped = whole[Whole.PP] == 1 or whole[Whole.MICRO_BATCHES] == 1
    again = 1 if whole[Whole.ZERO_STAGE] == 3 and dropped else 0
    forward_gathers = layers * traffic.layer_gather + embed * traffic.embed_gather + head * traffic.head_gather
    backward_gathers = again * (forward_gathers - embed * traffic.embed_gather)
    reductions = layers * traffic.layer_reduce + embed * traffic.embed_reduce + head * traffic.head_reduce
    gather, gradient = forward_gathers + backward_gathers, reductions
    hide_gathers, hide_reductions = whole[Whole.OVERLAP_WEIGHTS], whole[Whole.OVERLAP_GRADIENTS]
    if hide_gathers + hide_reductions > 0 and gather + gradient > 0:
        share = again * hide_gathers
        forward = layers * work.forward + embed * work.embed_forward + head * work.head_forward
        backward = layers * work.backward + embed * work.embed_backward + head * work.head_backward
        if hide_gathers > 0:
            gather = _forward_pass(counts, work, traffic) - forward + backward_gathers
        gathered = _backward_pass(counts, work, traffic, (share, again - share), (0, 0))
        both = _backward_pass(counts, work, traffic, (share, again - share), (hide_reductions, 1 - hide_reductions))
        gather += gathered - backward - backward_gathers
        gradient = max(both, backward_gathers + reductions) - gathered
    return gather, gradient, forward_gathers + backward_gathers, reductions


@jit
def _forward_pass(counts: tuple[int, int, int], work: Work, traffic: Traffic) -> int:
    """Every gather prefetched: embedding, layers, head."""
    layers, embed, head = counts
    clock = _advance((0, 0, 0), embed, traffic.embed_gather, work.embed_forward, 0)
    clock = _advance(clock, layers, traffic.layer_gather, work.forward, 0)
    clock = _advance(clock, head, traffic.head_gather, work.head_forward, 0)
    return clock[1]


@jit
def _backward_pass(
    counts: tuple[int, int, int],
    work: Work,
    traffic: Traffic,
    gathers: tuple[int, int],
    reductions: tuple[int, int],
) -> int:
    """Head, layers, embedding (whose gradient needs no weights).

    `gathers` and `reductions` say (1 or 0) whether each bucket has one beside its work, and in front of or behind it.
    """
    layers, embed, head = counts
    beside, before = gathers
    behind, after = reductions
    job = work.head_backward + before * traffic.head_gather + after * traffic.head_reduce
    clock = _advance((0, 0, 0), head, beside * traffic.head_gather, job, behind * traffic.head_reduce)
    job = work.backward + before * traffic.layer_gather + after * traffic.layer_reduce
    clock = _advance(clock, layers, beside * traffic.layer_gather, job, behind * traffic.layer_reduce)
    job = work.embed_backward + after * traffic.embed_reduce
    clock = _advance(clock, embed, 0, job, behind * traffic.embed_reduce)
    return clock[2]


@jit
def _advance(clock: tuple[int, int, int], count: int, gather: int, work: int, reduction: int) -> tuple[int, int, int]:
    """Return when the machines gather, work and reduce are free after `count` more equal jobs.

    The longest path changes machine at the first or the last of equal jobs (it is linear in where it does).
    """
    gathered, worked, reduced = clock
    if count == 0:
        return clock
    through = max(
        gather + work + count * reduction,
        gather + count * work + reduction,
        count * gather + work + reduction,
    )
    return (
        gathered + count * gather,
        max(worked + count * work, gathered + max(gather + count * work, count * gather + work)),
        max(
            reduced + count * reduction,
            worked + max(work + count * reduction, count * work + reduction),
            gathered + through,
        ),
    )
