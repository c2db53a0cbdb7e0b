"""Compiled: one-forward-one-backward over stages, whole or in interleaved pieces (Narayanan 2021, 2.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.events.program import IntArray
from cosmic_opt.workloads.graph import TrainingGraph

UNKNOWN = -1
NOBODY = -1


class Order(NamedTuple):
    """The order of a pipeline's passes, all int64; a stage has as many passes each way as the first two say.

    Attributes:
        piece: [passes], which piece a forward pass works; backward the pieces count down.
        before: [passes], the pass of the same micro-batch on the piece before, or NOBODY.
        ahead: [stages], forward passes that a stage starts before it alternates.
    """

    piece: IntArray
    before: IntArray
    ahead: IntArray


def order_of(graph: TrainingGraph) -> Order:
    """Return the order of a graph's passes."""
    places = {one: place for place, one in enumerate(graph.forward_passes)}
    before = [places.get((piece - 1, index), NOBODY) for piece, index in graph.forward_passes]
    ahead = [graph.ahead(stage.index) for stage in graph.stages]
    piece = [piece for piece, _ in graph.forward_passes]
    return Order(*(np.array(values, dtype=np.int64) for values in (piece, before, ahead)))


@jit
def run_pipeline(
    order: Order,
    forward: IntArray,
    backward: IntArray,
    last: IntArray,
    free: IntArray,
    given: int,
    begins: IntArray,
    ends: IntArray,
) -> None:
    """Fill when passes begin and end, [stages, 2, passes]: backward passes at 0, forward passes at 1.

    Args:
        order: Of the passes.
        forward, backward: Ticks of a pass of each piece up to its message's arrival, [stages, pieces].
        last: Ticks of the last backward pass of each stage.
        free: When each stage can begin its first pass.
        given: So many forward passes of each stage are in `begins` and `ends` already, none after a backward pass.
        begins, ends: Written from `given` on.
    """
    stages, _, passes = begins.shape
    begins[:, 0], ends[:, 0] = UNKNOWN, UNKNOWN
    begins[:, 1, given:], ends[:, 1, given:] = UNKNOWN, UNKNOWN
    clock = free.copy()
    done = np.zeros((stages, 2), dtype=np.int64)  # backward and forward passes begun
    if given > 0:
        done[:, 1] = given
        clock[:] = ends[:, 1, given - 1]
    moved = True
    while moved:
        moved = False
        for stage in range(stages):
            while done[stage, 0] < passes:
                goes = done[stage, 1] < passes and done[stage, 1] <= done[stage, 0] + order.ahead[stage]
                way = 1 if goes else 0
                index = done[stage, way]
                begin = _arrival(order, ends, stage, way, index)
                if begin == UNKNOWN:
                    break
                begin = max(begin, clock[stage])
                piece = order.piece[index]
                ticks = forward[stage, piece] if goes else backward[stage, backward.shape[1] - 1 - piece]
                if not goes and index == passes - 1:
                    ticks = last[stage]
                begins[stage, way, index], ends[stage, way, index] = begin, begin + ticks
                clock[stage] = begin + ticks
                done[stage, way] += 1
                moved = True


@jit
def _arrival(order: Order, ends: IntArray, stage: int, way: int, index: int) -> int:
    """Return when the message that a pass waits for is out: 0 if there is none, UNKNOWN before."""
    stages = ends.shape[0]
    source = stage - 1 if way else stage + 1
    if not 0 <= source < stages:
        source, index = source % stages, order.before[index]
        if index == NOBODY:
            return 0
    return int(ends[source, way, index])
