"""One training step by events: passes that nothing disturbs are folded, the others replayed chunk by chunk.

A blocking collective that has the network to itself always takes the same time, so a pass without data-parallel
traffic beside it is simulated once and stands for every micro-batch; equal layers in it are simulated once, too. The
first forward pass (weights are gathered) and the last backward pass (gradients are reduced) are replayed whole.
Weights are there when the work that needs them starts, so no gather outlives its pass, and only reductions of the last
backward pass end after it: nothing crosses the boundary of a folded pass, and folding is exact.

The optimizer starts when every stage has its gradients (they are clipped by their common norm), and ends with the
slowest stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cosmic_opt.simulation.analytical.layout import TERMS, Term, Whole
from cosmic_opt.simulation.events.interleaved import InterleavedPlay
from cosmic_opt.simulation.events.lower import Lowered
from cosmic_opt.simulation.events.passes import ARRIVAL, WAIT, Builder, Traffic, add_pass, data_traffic, traffic_of
from cosmic_opt.simulation.events.pipeline import order_of, run_pipeline
from cosmic_opt.simulation.events.program import IntArray, Program
from cosmic_opt.simulation.events.replay import Replay, run_program
from cosmic_opt.workloads.graph import CONTEXT, TENSOR, Bucket, Communication, Node, Pass, Piece, Stage, TrainingGraph

PART_TERMS = {
    "forward": Term.FORWARD,
    "backward": Term.BACKWARD,
    "selective": Term.RECOMPUTE,
    "embed_forward": Term.ENDS,
    "embed_backward": Term.ENDS,
    "head_forward": Term.ENDS,
    "head_backward": Term.ENDS,
}
GROUP_TERMS = {TENSOR: Term.TENSOR, CONTEXT: Term.SEQUENCE}


class PassTimes(NamedTuple):
    """A pass with data-parallel traffic, in ticks from its begin.

    `end` is when its message is out, `settled` when its reductions are done, too; `gathers` and `reductions` are what
    they add to the pass.
    """

    end: int
    settled: int
    gathers: int
    reductions: int


@dataclass(frozen=True)
class EventStep:
    """A simulated step.

    Attributes:
        step_ticks: Its time.
        terms: Parts by name, in the order of `analytical.TERMS`; they sum to step_ticks.
        hidden: Data-parallel communication behind compute of the stage that `terms` describe: gathers, reductions.
        stage: The pipeline stage that `terms` describe: the one with most work.
        micro_batches: Passes of each stage, forward and backward.
        busy_ticks: int64 [stages, D], how long an NPU's dimensions serve.
        begins, ends: int64 [stages, 2, passes], when each backward (0) and forward (1) pass begins, and when its
            message is out, in the order of the stage; without a pipeline, when its gradients are reduced.
        settled: When each stage has all its gradients.
        windows: Of interleaved stages, what was played with all stages at once: when it begins, and the passes.
    """

    step_ticks: int
    terms: Mapping[str, int]
    hidden: tuple[int, int]
    stage: int
    micro_batches: int
    busy_ticks: IntArray
    begins: IntArray
    ends: IntArray
    settled: tuple[int, ...]
    windows: tuple[tuple[int, Builder], ...] = ()


class StepSimulation:
    """Simulates one design's step from its graph and ticks."""

    def __init__(self, lowered: Lowered, graph: TrainingGraph) -> None:
        self.lowered, self.graph = lowered, graph
        self._bucket_ticks: dict[tuple[str, bool], int] = {}
        self._times: dict[tuple[object, ...], tuple[int, int]] = {}

    def run(self) -> EventStep:
        """Simulate the step."""
        stages = self.graph.stages
        if self.graph.gathers_each_pass:
            return self._run_in_turn(stages[0].pieces[0])
        if self.graph.pieces > 1:
            return self._run_interleaved()
        pieces = [stage.pieces[0] for stage in stages]
        first, arrival = list[PassTimes](), 0
        begins, ends = np.empty((2, len(stages), 2, self.graph.micro_batches), dtype=np.int64)
        for piece in pieces:
            first.append(self._first_forward(piece, arrival))
            begins[piece.stage, 1, 0], ends[piece.stage, 1, 0] = arrival, arrival + first[-1].end
            arrival += first[-1].end
        last = [self._last_pass(piece, False) for piece in pieces]
        forward, backward = (self._column(self.pass_ticks(piece, way) for piece in pieces) for way in (True, False))
        ways = forward[:, None], backward[:, None]
        idle = np.zeros(len(stages), dtype=np.int64)
        run_pipeline(order_of(self.graph), *ways, self._column(times.end for times in last), idle, 1, begins, ends)
        settled = tuple(int(begins[piece.stage, 0, -1]) + last[piece.stage].settled for piece in pieces)
        slowest = int(np.argmax(forward + backward))
        exposed = (first[slowest].gathers + last[slowest].gathers, last[slowest].reductions)
        return self._result(slowest, exposed, begins, ends, settled)

    def _run_interleaved(self) -> EventStep:
        """Book what passes take longer than alone to gathers going forward, going backward to them up to their time."""
        play = InterleavedPlay(self.lowered, self.graph, self.pass_ticks)
        begins, ends, settled = play.run()
        slowest = int(np.argmax((play.forward + play.backward).sum(axis=1)))
        batches, own = self.graph.micro_batches, ends[slowest] - begins[slowest]
        traffic = data_traffic(self.graph.stages[slowest], False, traffic_of(self.graph, False, batches - 1))
        again = sum(self.lowered.ticks(node) for node in traffic if node.collective == "all_gather")
        late = int(own[0].sum() - batches * play.backward[slowest].sum() + settled[slowest] - ends[slowest, 0, -1])
        gathers = int(own[1].sum() - batches * play.forward[slowest].sum() + play.blocked[slowest])
        exposed = gathers + min(late, again), late - min(late, again)
        step = self._result(slowest, exposed, begins, ends, tuple(settled.tolist()))
        return replace(step, windows=tuple(play.windows))

    def _run_in_turn(self, piece: Piece) -> EventStep:
        """Without a pipeline every pass gathers and reduces by itself, and the next one begins when it is settled."""
        batches = self.graph.micro_batches
        forward, backward = (self._last_pass(piece, way) for way in (True, False))
        both = forward.settled + backward.settled
        turns = np.arange(batches, dtype=np.int64) * both
        exposed = (batches * (forward.gathers + backward.gathers), batches * backward.reductions)
        begins, ends = np.array([[turns + forward.settled, turns]]), np.array([[turns + both, turns + forward.settled]])
        return self._result(0, exposed, begins, ends, (batches * both,))

    @staticmethod
    def _column(values: Iterator[int]) -> IntArray:
        return np.array(list(values), dtype=np.int64)

    # --- passes -----------------------------------------------------------------------------------------------

    def pass_ticks(self, piece: Piece, forward: bool) -> int:
        """Return the time of a pass without data-parallel traffic, its send included."""
        ticks = sum(self._bucket(bucket, forward) for _, bucket in piece.buckets)
        send = piece.send_forward if forward else piece.send_backward
        return ticks + (self.lowered.ticks(send) if send is not None else 0)

    def _bucket(self, bucket: Bucket, forward: bool) -> int:
        """Return the time of a bucket's work with its blocking communication."""
        key = (bucket.name, forward)
        if key not in self._bucket_ticks:
            nodes = bucket.forward if forward else bucket.backward
            self._bucket_ticks[key] = sum(self.lowered.ticks(node) for node in nodes)
        return self._bucket_ticks[key]

    def _first_forward(self, piece: Piece, arrival: int) -> PassTimes:
        """Return the first forward pass of a stage; its gathers begin with the step, itself at `arrival`."""
        traffic = traffic_of(self.graph, True, 0)
        plain = self.pass_ticks(piece, True)
        if self._gathered_before(piece, traffic, arrival):
            end = plain
        elif _beside(piece, True, traffic):
            end = self._run(self.first_forward(piece, arrival)).ticks - arrival
        else:
            gathers = self._blocking(piece, True, traffic)
            end = plain + (gathers if self._inline else max(0, gathers - arrival))
        return PassTimes(end, end, end - plain, 0)

    def _gathered_before(self, piece: Piece, traffic: Traffic, arrival: int) -> bool:
        """Whether all weights are there when the input arrives: until then gathers have the network to themselves."""
        gathers = data_traffic(piece, True, traffic)
        return arrival > 0 and sum(self.lowered.ticks(node) for node in gathers) <= arrival

    def first_forward(self, piece: Piece, arrival: int) -> Program:
        """Return the first forward pass of a stage whose input arrives at `arrival` ticks, from the step's begin."""
        builder = Builder(self.lowered)
        builder.add(0, ARRIVAL, WAIT, ticks=arrival, key="arrival")
        traffic = traffic_of(self.graph, True, 0)
        add_pass(builder, self.graph, Pass(True, piece.index, 0), piece.stage, traffic, arrival="arrival")
        return builder.program()

    def _last_pass(self, piece: Piece, forward: bool) -> PassTimes:
        """Return the last pass of a direction; what gathers add is what they add without reductions."""
        traffic = traffic_of(self.graph, forward, self.graph.micro_batches - 1)
        plain = self.pass_ticks(piece, forward)
        end, settled = self._timed(piece, forward, traffic)
        gathers = settled - plain
        if traffic.reductions:
            _, alone = self._timed(piece, forward, Traffic(gathers=traffic.gathers))
            gathers = min(gathers, alone - plain)
        return PassTimes(end, settled, gathers, settled - plain - gathers)

    def _timed(self, piece: Piece, forward: bool, traffic: Traffic) -> tuple[int, int]:
        """Return when a pass's message is out and when its reductions are done; equal stages are timed once."""
        sends = piece.send_forward is not None, piece.send_backward is not None
        key = (len(piece.buckets), piece.stage == 0, *sends, forward, traffic)
        if key not in self._times:
            self._times[key] = self._replayed(piece, forward, traffic)
        return self._times[key]

    def _replayed(self, piece: Piece, forward: bool, traffic: Traffic) -> tuple[int, int]:
        if not _beside(piece, forward, traffic):
            settled = self.pass_ticks(piece, forward) + self._blocking(piece, forward, traffic)
            after = 0 if self._inline else self._blocking(piece, forward, Traffic(reductions=traffic.reductions))
            return settled - after, settled
        program, end = self.last_pass(piece, forward, traffic)
        replay = self._run(program)
        return int(replay.ends[end]), replay.ticks

    @property
    def _inline(self) -> bool:
        """Whether blocking traffic stands beside the work of its bucket."""
        return len(self.graph.stages) == 1

    def last_pass(self, piece: Piece, forward: bool, traffic: Traffic) -> tuple[Program, int]:
        """Return the last pass of a direction, from its begin, and which operation ends when its message is out."""
        builder = Builder(self.lowered)
        one = Pass(forward, piece.index, self.graph.micro_batches - 1)
        add_pass(builder, self.graph, one, piece.stage, traffic)
        return builder.program(), builder.places["end", 0, one][1]

    def _run(self, program: Program) -> Replay:
        return run_program(program, policy=self.lowered.policy)

    def _blocking(self, piece: Piece, forward: bool, traffic: Traffic) -> int:
        """Return the time of data-parallel traffic that stands in the compute stream."""
        return sum(self.lowered.ticks(node) for node in data_traffic(piece, forward, traffic) if node.blocking)

    # --- results ----------------------------------------------------------------------------------------------

    def _result(
        self, slowest: int, exposed: tuple[int, int], begins: IntArray, ends: IntArray, settled: tuple[int, ...]
    ) -> EventStep:
        whole = self.lowered.whole
        optimizer = int(whole[Whole.OPTIMIZER_FIRST : Whole.OPTIMIZER_LAST + 1].max())
        step = max(settled) + optimizer
        stage = self.graph.stages[slowest]
        terms = self._work_terms(stage)
        terms[Term.GATHER], terms[Term.GRADIENT] = exposed
        terms[Term.OPTIMIZER] = optimizer
        terms[Term.BUBBLE] = step - sum(terms.values())
        assert terms[Term.BUBBLE] >= 0, "a stage is not busy for longer than the step"
        gathers, reductions = self._data_ticks(stage)
        return EventStep(
            step_ticks=step,
            terms={name: terms[Term(place)] for place, name in enumerate(TERMS)},
            hidden=(max(0, gathers - exposed[0]), max(0, reductions - exposed[1])),
            stage=slowest,
            micro_batches=self.graph.micro_batches,
            busy_ticks=np.array([self._busy(stage) for stage in self.graph.stages]),
            begins=begins,
            ends=ends,
            settled=settled,
        )

    def _work_terms(self, stage: Stage) -> Counter[Term]:
        """Return compute and blocking communication of all micro-batches of a stage, by part of the step."""
        terms = Counter[Term]()
        for node, forward, times in self._work(stage):
            if isinstance(node, Communication):
                term = GROUP_TERMS.get(node.group, Term.SENDS)
            else:
                term = Term.RECOMPUTE if node.part == "forward" and not forward else PART_TERMS[node.part]
            terms[term] += times * self.lowered.ticks(node)
        return terms

    def _work(self, stage: Stage) -> Iterator[tuple[Node, bool, int]]:
        """Yield what a stage does in the compute stream but for data parallelism: node, direction, how often."""
        batches = self.graph.micro_batches
        kinds = {bucket.name: bucket for _, bucket in stage.buckets}
        often = Counter(bucket.name for _, bucket in stage.buckets)
        for name, bucket in kinds.items():
            yield from ((node, True, batches * often[name]) for node in bucket.forward)
            yield from ((node, False, batches * often[name]) for node in bucket.backward)
        for piece in stage.pieces:
            for send, forward in ((piece.send_forward, True), (piece.send_backward, False)):
                if send is not None:
                    yield send, forward, batches

    def _data(self, stage: Stage) -> Iterator[tuple[Communication, int]]:
        """Yield the data-parallel traffic of a stage, and how often it runs."""
        times = self.graph.micro_batches if self.graph.gathers_each_pass else 1
        last = self.graph.micro_batches - 1
        for node in data_traffic(stage, True, traffic_of(self.graph, True, 0)):
            yield node, times
        for node in data_traffic(stage, False, traffic_of(self.graph, False, last)):
            yield node, times

    def _data_ticks(self, stage: Stage) -> tuple[int, int]:
        """Return the time of all gathers, and of all reductions, of a stage."""
        sums = Counter[bool]()
        for node, times in self._data(stage):
            sums[node.collective == "all_gather"] += times * self.lowered.ticks(node)
        return sums[True], sums[False]

    def _busy(self, stage: Stage) -> IntArray:
        """Return how long a stage's chunks and messages occupy each dimension, int64 [D]."""
        busy = np.zeros(self.lowered.dimensions, dtype=np.int64)
        traffic = [(node, times) for node, _, times in self._work(stage) if isinstance(node, Communication)]
        for node, times in (*traffic, *self._data(stage)):
            busy += times * self.lowered.busy_ticks[self.lowered.call_index(node)]
        return busy


def _beside(piece: Piece, forward: bool, traffic: Traffic) -> bool:
    return any(not node.blocking for node in data_traffic(piece, forward, traffic))
