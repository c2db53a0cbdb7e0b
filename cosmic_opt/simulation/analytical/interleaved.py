"""Compiled: lower bounds of an interleaved pipeline, whose stages are cut in v pieces (Narayanan 2021, 2.2.2).

A micro-batch goes through every stage once per piece. A stage works rounds of as many micro-batches as there are
stages, piece after piece, the last round with those left over; it starts 2 (stages after it) + (v - 1) (largest round)
passes forward before it alternates (`workloads.graph`). Each bound is a path through passes that follow one another:

- The first micro-batch down to a piece of a stage, all micro-batches through this piece and those after it on that
  stage, and the last one back up. For equal pieces it is longest from the first or from the last piece on.
- A path from the first piece also waits for the stages after: before its first backward pass, for the first micro-batch
  to go on and come back, and before its last one, for the last micro-batch. Its own work meanwhile is taken off.
- A path may stay on the first stage, whose first piece has the embedding, for a whole round.
"""

from __future__ import annotations

from typing import NamedTuple

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.analytical.layout import Whole
from cosmic_opt.simulation.analytical.tables import IntArray
from cosmic_opt.simulation.analytical.traffic import Traffic, Work, ends_of


class Way(NamedTuple):
    """Ticks of one direction: of a layer, of the embedding, the head and a message.

    The very last piece in the direction sends none; `out` is its stage.
    """

    layer: int
    embed: int
    head: int
    send: int
    out: int


@jit_inline
def ways_of(work: Work, traffic: Traffic) -> tuple[Way, Way]:
    """Return the two directions; stages are numbered by type, 0 first, 1 middle, 2 last."""
    return (
        Way(work.forward, work.embed_forward, work.head_forward, traffic.send, 2),
        Way(work.backward, work.embed_backward, work.head_backward, traffic.send, 0),
    )


@jit
def interleaved_ends(whole: IntArray, work: Work, traffic: Traffic, stage: int) -> tuple[int, int]:
    """Return the least time until the last backward pass of the first stage, and of this one, as this one delays them.

    `stage` is 0 first, 1 the last of the middle ones (no other is fuller), 2 last.
    """
    pieces, batches = whole[Whole.INTERLEAVE], whole[Whole.MICRO_BATCHES]
    forward, backward = ways_of(work, traffic)
    down, up = _ends_before(whole, forward, stage, False), _ends_before(whole, backward, stage, False)
    both = _stage_way(whole, forward, stage) + _stage_way(whole, backward, stage)
    waits, own_waits = _waits(whole, forward, backward, stage)
    last = _piece(whole, forward, stage, pieces - 1) + _piece(whole, backward, stage, pieces - 1)
    around = _through(whole, forward, False) + _before_last(whole, backward, stage) + batches * last
    around -= _all(whole, forward) - _before_last(whole, forward, stage)
    stays = _through(whole, backward, True) - _all(whole, backward)
    longest = max(down + batches * both + waits + up, around + stays)
    if stage == 0:
        return longest, longest
    return longest, max(down + batches * both + own_waits, around - up)


@jit
def least_until_reduced(whole: IntArray, work: Work, traffic: Traffic, stage: int, reductions: int) -> int:
    """Return the least time until a stage has its gradients: the first leave with the last micro-batch's last piece."""
    batches = whole[Whole.MICRO_BATCHES]
    forward, backward = ways_of(work, traffic)
    largest = _round(whole, True)
    ticks: int = _ends_before(whole, forward, stage, False) + batches * _stage_way(whole, forward, stage)
    ticks += (batches - largest) * _stage_way(whole, backward, stage)
    ticks += (largest - 1) * _piece(whole, backward, stage, whole[Whole.INTERLEAVE] - 1)
    return ticks + reductions


@jit_inline
def piece_layers(layers: int, pieces: int, piece: int) -> int:
    """Return the layers in front of piece number `piece` of a stage (`workloads.parallelism.stage_layers`)."""
    least = layers // pieces
    extra = layers - least * pieces
    between = max(pieces - 2, 0)
    more = max(0, min(piece, pieces - 1) - (pieces - 1) + min(extra, between))
    return piece * least + more + (1 if piece > 0 and extra > between else 0)


@jit_inline
def _round(whole: IntArray, last: bool) -> int:
    """Return the micro-batches of the first round, or of the last one, which is the largest."""
    batches, pp = whole[Whole.MICRO_BATCHES], whole[Whole.PP]
    rounds = max(1, batches // pp)
    return int(pp if rounds > 1 and not last else batches - (rounds - 1) * pp)


@jit_inline
def _stage_way(whole: IntArray, way: Way, stage: int) -> int:
    """Return a pass of every piece of a stage."""
    embed, head = ends_of(whole, stage)
    messages = whole[Whole.INTERLEAVE] - (1 if stage == way.out else 0)
    return int(
        whole[Whole.LAYERS_FIRST + stage] * way.layer + embed * way.embed + head * way.head + messages * way.send
    )


@jit_inline
def _piece(whole: IntArray, way: Way, stage: int, piece: int) -> int:
    """Return a pass of one piece."""
    return _passes(whole, way, stage, piece + 1, 1) - _passes(whole, way, stage, piece, 1)


@jit_inline
def _passes(whole: IntArray, way: Way, stage: int, pieces: int, each: int) -> int:
    """Return `each` passes of each of the first `pieces` pieces of a stage."""
    embed, head = ends_of(whole, stage)
    every = whole[Whole.INTERLEAVE]
    layers = piece_layers(whole[Whole.LAYERS_FIRST + stage], every, pieces)
    to_last = 1 if pieces == every else 0
    some = 1 if pieces > 0 else 0
    silent = to_last if stage == 2 and way.out == 2 else (some if stage == 0 and way.out == 0 else 0)
    ticks = layers * way.layer + some * embed * way.embed + to_last * head * way.head + (pieces - silent) * way.send
    return int(each * ticks)


@jit_inline
def _ends_before(whole: IntArray, way: Way, stage: int, last: bool) -> int:
    """Return a pass of the first piece (or of the last one) of every stage before this one."""
    if stage == 0:
        return 0
    pieces, between = whole[Whole.INTERLEAVE], whole[Whole.PP] - 2
    least = whole[Whole.LAYERS_LAST]
    fuller = min(max(0, whole[Whole.LAYERS] - least * whole[Whole.PP]), between)
    counted = between
    if stage == 1:  # itself the last of them
        counted, fuller = between - 1, max(0, fuller - 1)
    layers = fuller * _end_layers(least + 1, pieces, last) + (counted - fuller) * _end_layers(least, pieces, last)
    layers += _end_layers(whole[Whole.LAYERS_FIRST], pieces, last)
    messages = 1 + counted - (1 if way.out == 0 and not last else 0)
    return int(layers * way.layer + (0 if last else way.embed) + messages * way.send)


@jit_inline
def _end_layers(layers: int, pieces: int, last: bool) -> int:
    """Return the layers of a stage's first or last piece."""
    if last:
        return layers - piece_layers(layers, pieces, pieces - 1)
    return piece_layers(layers, pieces, 1)


@jit_inline
def _all(whole: IntArray, way: Way) -> int:
    """Return a pass through the whole model."""
    messages = whole[Whole.PP] * whole[Whole.INTERLEAVE] - 1
    return int(whole[Whole.LAYERS] * way.layer + way.embed + way.head + messages * way.send)


@jit_inline
def _after(whole: IntArray, way: Way, stage: int) -> int:
    """Return a pass of the last piece of every stage after this one."""
    if stage == 2:
        return 0
    last = _piece(whole, way, 2, whole[Whole.INTERLEAVE] - 1)
    if stage == 1:
        return last
    return last + _ends_before(whole, way, 2, True) - _piece(whole, way, 0, whole[Whole.INTERLEAVE] - 1)


@jit_inline
def _through(whole: IntArray, way: Way, late: bool) -> int:
    """Return a pass through the whole model, or what is longer for a round on the first stage.

    A path that stays there for all passes of the first piece, of the first round or (`late`) going backward of the last
    one, leaves out this piece of the other stages.
    """
    stay = (_round(whole, late) - 1) * _piece(whole, way, 0, 0)
    others = _ends_before(whole, way, 2, False) - _piece(whole, way, 0, 0) + _piece(whole, way, 2, 0)
    return int(_all(whole, way) + max(0, stay - others))


@jit_inline
def _before_last(whole: IntArray, way: Way, stage: int) -> int:
    """Return a pass of everything in front of the last piece of a stage."""
    last = _piece(whole, way, stage, whole[Whole.INTERLEAVE] - 1)
    return int(_all(whole, way) - last - _after(whole, way, stage))


@jit
def _waits(whole: IntArray, forward: Way, backward: Way, stage: int) -> tuple[int, int]:
    """Return what a path from the first piece of a stage on waits at least, and what until the stage's last pass.

    It waits before the first and before the last backward pass of the stage (once, where all passes go forward first).
    Or it comes from the first stage with the last micro-batch of a round, and goes back there with the first one.
    """
    pieces, batches = whole[Whole.INTERLEAVE], whole[Whole.MICRO_BATCHES]
    after = whole[Whole.PP] - 1 if stage == 0 else 2 - stage
    ahead = 2 * after + (pieces - 1) * _round(whole, True) + 1
    passes = min(ahead, batches * pieces)
    if stage == 0:
        go, come = _through(whole, forward, False), _through(whole, backward, True)
        early = late = 0
    else:
        go = _all(whole, forward) - _ends_before(whole, forward, stage, False)
        come = _all(whole, backward) - _ends_before(whole, backward, stage, False)
        early = _round(whole, False) - 1
        early *= max(0, _piece(whole, forward, 0, 0) - _piece(whole, forward, stage, 0))
        late = (_round(whole, True) - 1) * max(0, _piece(whole, backward, 0, 0) - _piece(whole, backward, stage, 0))
    go += _after(whole, backward, stage) - _outermost(whole, forward, stage, passes, False)
    come += _after(whole, forward, stage) - _outermost(whole, backward, stage, passes, True)
    if ahead < batches * pieces:
        own = max(early, go) + max(0, come)
        return int(max(early, go) + max(late, come)), int(own)
    return int(max(early + late, go, come)), int(max(early, go, come))


@jit
def _outermost(whole: IntArray, way: Way, stage: int, passes: int, late: bool) -> int:
    """Return the first passes of a stage going forward, or (`late`) its last ones going backward.

    Both go from the first piece on, round by round; the last round is the largest.
    """
    pieces, pp = whole[Whole.INTERLEAVE], whole[Whole.PP]
    rounds = max(1, whole[Whole.MICRO_BATCHES] // pp)
    largest = _round(whole, True)
    ticks, left = 0, passes
    size = largest if late or rounds == 1 else pp
    whole_rounds = 0
    while left >= size * pieces and whole_rounds < rounds:
        ticks += size * _stage_way(whole, way, stage)
        left -= size * pieces
        whole_rounds += 1
        size = pp if late or whole_rounds < rounds - 1 else largest
    complete = left // size
    ticks += _passes(whole, way, stage, complete, size)
    rest = left - complete * size
    if rest > 0:
        ticks += rest * _piece(whole, way, stage, complete)
    return int(ticks)
