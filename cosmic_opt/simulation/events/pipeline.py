"""Compiled: one-forward-one-backward (Narayanan 2021) over stages, pass by pass."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.events.program import IntArray

UNKNOWN = -1


@jit
def run_pipeline(
    forward: IntArray, backward: IntArray, first_ends: IntArray, last_backward: IntArray, begins: IntArray
) -> None:
    """Fill `begins` [stages, 2, micro-batches], when each pass begins: backward passes at 0, forward passes at 1.

    Args:
        forward, backward: Ticks of a pass of each stage up to its message's arrival, [stages].
        first_ends: When the first forward pass of each stage ends, given when those of the stages before do.
        last_backward: Ticks of the last backward pass of each stage.
        begins: Written.
    """
    stages, _, batches = begins.shape
    begins[:] = UNKNOWN
    free = np.zeros(stages, dtype=np.int64)
    done = np.zeros((stages, 2), dtype=np.int64)  # backward and forward passes begun
    left = 2 * stages * batches
    while left > 0:
        for stage in range(stages):
            while done[stage, 0] + done[stage, 1] < 2 * batches:
                ahead = min(batches, stages - 1 - stage)
                is_forward = 1 if done[stage, 1] < batches and done[stage, 1] <= done[stage, 0] + ahead else 0
                index = done[stage, is_forward]
                source = stage - 1 if is_forward else stage + 1
                begin = free[stage]
                if 0 <= source < stages:
                    if begins[source, is_forward, index] == UNKNOWN:
                        break
                    ended = _end(forward, backward, first_ends, last_backward, begins, (source, is_forward, index))
                    begin = max(begin, ended)
                begins[stage, is_forward, index] = begin
                free[stage] = _end(forward, backward, first_ends, last_backward, begins, (stage, is_forward, index))
                done[stage, is_forward] += 1
                left -= 1


@jit
def _end(
    forward: IntArray,
    backward: IntArray,
    first_ends: IntArray,
    last_backward: IntArray,
    begins: IntArray,
    which: tuple[int, int, int],
) -> int:
    stage, is_forward, index = which
    begin = begins[stage, is_forward, index]
    if is_forward:
        return int(first_ends[stage] if index == 0 else begin + forward[stage])
    last = index == begins.shape[2] - 1
    return int(begin + (last_backward[stage] if last else backward[stage]))
