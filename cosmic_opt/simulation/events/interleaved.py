"""Interleaved pipeline stages by events: only passes beside data-parallel traffic are played node by node.

Weights are gathered from the begin of the step on, in the order in which pieces need them; gradients leave with the
last micro-batch, piece after piece. Between a stage's last gather and its first reduction every pass has the network to
itself and takes a constant time. So a first window holds as many forward passes of every stage as may meet a gather
(widened until none does after it), a last one all backward passes from the first that reduces. Nothing but messages
crosses the boundary of a window, so this is exact. Where gathers reach into backward passes, all is one window.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.events.lower import Lowered
from cosmic_opt.simulation.events.passes import (
    ARRIVAL,
    COMPUTE,
    GATHER,
    STREAMS,
    WAIT,
    Builder,
    add_pass,
    data_traffic,
    traffic_of,
    whole_builder,
)
from cosmic_opt.simulation.events.pipeline import Order, order_of, run_pipeline
from cosmic_opt.simulation.events.program import IntArray
from cosmic_opt.simulation.events.replay import Replay, run_program
from cosmic_opt.workloads.graph import Communication, Pass, Piece, Stage, TrainingGraph

PassTicks = Callable[[Piece, bool], int]
"""The time of a pass without data-parallel traffic, its message included."""


class Played(NamedTuple):
    """When the passes of every stage run.

    Attributes:
        begins, ends: int64 [stages, 2, passes], backward passes at 0, forward passes at 1, in the order of each way.
        settled: int64 [stages], when each stage has all its gradients.
    """

    begins: IntArray
    ends: IntArray
    settled: IntArray


class InterleavedPlay:
    """Plays one design's passes from its ticks and graph.

    Attributes:
        forward, backward: int64 [stages, pieces], the time of a pass that has the network to itself.
        windows: What was played node by node: when it begins, and the passes.
        blocked: int64 [stages], how long gathers that block keep each stage from its first pass.
    """

    def __init__(self, lowered: Lowered, graph: TrainingGraph, pass_ticks: PassTicks) -> None:
        self.lowered, self.graph = lowered, graph
        self.order: Order = order_of(graph)
        ways = ((True, graph.forward_passes), (False, [(graph.pieces - 1 - p, i) for p, i in graph.forward_passes]))
        self.passes = {way: [Pass(way, piece, index) for piece, index in own] for way, own in ways}
        self.forward, self.backward = (
            np.array([[pass_ticks(piece, way) for piece in stage.pieces] for stage in graph.stages], dtype=np.int64)
            for way in (True, False)
        )
        self.blocked = self._column(lambda stage: self._ticks(stage, True, blocking=True, gathers=True))
        shape = (len(graph.stages), 2, len(graph.forward_passes))
        self.windows = list[tuple[int, Builder]]()
        self.begins, self.ends = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)

    def run(self) -> Played:
        """Play the step, each part in the cheapest way that is exact."""
        stages, graph = self.graph.stages, self.graph
        after = self._column(lambda stage: self._ticks(stage, False, blocking=True, gathers=False))
        backward = self.backward.copy()
        if graph.gathers_backward:  # every backward pass is one of the last micro-batch
            backward += np.array(
                [[self._ticks(piece, False, blocking=True, gathers=True) for piece in stage.pieces] for stage in stages]
            )
        self._fold(backward, 0)
        gathers = self._column(lambda stage: self._ticks(stage, True, blocking=False, gathers=True))
        if gathers.any() and not self._gathered_early(backward, gathers):
            return self._whole()
        settled = self.ends[:, 0, -1] + after
        if any(not node.blocking for stage in stages for node in self._last_traffic(stage)):
            settled = self._reduced_late()
        return Played(self.begins, self.ends, settled)

    def _column(self, value: Callable[[Stage], int]) -> IntArray:
        return np.array([value(stage) for stage in self.graph.stages], dtype=np.int64)

    def _ticks(self, part: Stage | Piece, forward: bool, *, blocking: bool, gathers: bool) -> int:
        """Return the time of a part's gathers, or reductions, in its first or last pass of a direction."""
        traffic = traffic_of(self.graph, forward, 0 if forward else self.graph.micro_batches - 1)
        nodes = data_traffic(part, forward, traffic)
        chosen = (node for node in nodes if node.blocking == blocking and gathers == (node.collective == "all_gather"))
        return sum(self.lowered.ticks(node) for node in chosen)

    def _last_traffic(self, stage: Stage) -> list[Communication]:
        return data_traffic(stage, False, traffic_of(self.graph, False, self.graph.micro_batches - 1))

    def _fold(self, backward: IntArray, given: int) -> None:
        """Run all passes after the first `given` of each stage in their constant time."""
        run_pipeline(
            self.order, self.forward, backward, backward[:, 0].copy(), self.blocked, given, self.begins, self.ends
        )

    def _gathered_early(self, backward: IntArray, gathers: IntArray) -> bool:
        """Play the passes that gathers may meet, and fold the others; return False where those go backward."""
        forward = self.passes[True]
        given = int((self.begins[:, 1] < gathers[:, None]).sum(axis=1).max())
        while given <= min(int(self.order.ahead.min()) + 1, len(forward)):
            builder = Builder(self.lowered, len(self.graph.stages))
            for stage in self.graph.stages:
                for one in forward[:given]:
                    source = self.graph.source(stage.index, one)
                    self._add(builder, stage.index, one, ("end", *source) if source is not None else None)
                for piece in stage.pieces[1 + max(one.piece for one in forward[:given]) :]:
                    for node in data_traffic(piece, True, traffic_of(self.graph, True, 0)):
                        builder.node(stage.index, GATHER, node.name, node, wait=None)
            replay = self._run(builder)
            self._read(builder, replay, True, 0, 0)
            self._fold(backward, given)
            if (self._last(builder, replay, (GATHER,)) <= self._next_begins(given)).all():
                self.windows.append((0, builder))
                return True
            given *= 2
        return False

    def _next_begins(self, given: int) -> IntArray:
        """Return when each stage begins its first pass after so many forward ones."""
        ahead = (given < self.begins.shape[2]) & (given <= self.order.ahead)
        return np.where(ahead, self.begins[:, 1, min(given, self.begins.shape[2] - 1)], self.begins[:, 0, 0])

    def _reduced_late(self) -> IntArray:
        """Play all passes from the first one that reduces; return when each stage has its gradients."""
        passes = self.passes[False]
        first = passes.index(Pass(False, self.graph.pieces - 1, self.graph.micro_batches - 1))
        places = {one: place for place, one in enumerate(passes)}
        free = np.maximum(self.ends[:, 1, -1], self.ends[:, 0, first - 1] if first else 0)
        start = int(free.min())
        builder = Builder(self.lowered, len(self.graph.stages))
        for stage in self.graph.stages:
            clock = start
            builder.add(stage.index, COMPUTE, WAIT, ticks=int(free[stage.index]) - start)
            for one in passes[first:]:
                source = self.graph.source(stage.index, one)
                arrival: Hashable = ("end", *source) if source is not None else None
                if source is not None and places[source[1]] < first:
                    arrival, known = (stage.index, one), int(self.ends[source[0], 0, places[source[1]]])
                    builder.add(stage.index, ARRIVAL, WAIT, ticks=max(0, known - clock), key=arrival)
                    clock = max(clock, known)  # an earlier message is read when it is this pass's turn
                self._add(builder, stage.index, one, arrival)
        replay = self._run(builder)
        self._read(builder, replay, False, first, start)
        self.windows.append((start, builder))
        return start + self._last(builder, replay, range(len(STREAMS)))

    def _whole(self) -> Played:
        """Play everything node by node."""
        builder = whole_builder(self.lowered, self.graph)
        replay = self._run(builder)
        for forward in (True, False):
            self._read(builder, replay, forward, 0, 0)
        self.windows = [(0, builder)]
        return Played(self.begins, self.ends, self._last(builder, replay, range(len(STREAMS))))

    def _add(self, builder: Builder, stage: int, one: Pass, arrival: Hashable) -> None:
        traffic = traffic_of(self.graph, one.forward, one.batch)
        add_pass(builder, self.graph, one, stage, traffic, place=stage, arrival=arrival)

    def _run(self, builder: Builder) -> Replay:
        return run_program(builder.program(), policy=self.lowered.policy)

    def _read(self, builder: Builder, replay: Replay, forward: bool, first: int, start: int) -> None:
        """Take over when the passes of a direction in a program, from number `first` on, begin and end."""
        stages = range(len(self.graph.stages))
        passes = [one for one in self.passes[forward][first:] if ("end", 0, one) in builder.places]
        for name, times in (("begin", self.begins), ("end", self.ends)):
            places = builder.positions((name, stage, one) for stage in stages for one in passes)
            own = replay.ends[places].reshape(len(stages), len(passes))
            times[:, int(forward), first : first + len(passes)] = start + own

    @staticmethod
    def _last(builder: Builder, replay: Replay, kinds: Iterable[int]) -> IntArray:
        """Return when the last operation of these streams of each stage ends, from the program's begin."""
        firsts = builder.firsts
        found = [
            [replay.ends[firsts[base + kind] : firsts[base + kind + 1]].max(initial=0) for kind in kinds]
            for base in range(0, len(STREAMS) * builder.stages, len(STREAMS))
        ]
        ends: IntArray = np.array(found, dtype=np.int64).max(axis=1)
        return ends
