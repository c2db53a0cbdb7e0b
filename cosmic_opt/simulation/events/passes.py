"""Passes of a stage as streams of operations: what blocks stands in the compute stream, what overlaps beside it.

Gathers and reductions of data parallelism are one communicator: they take turns. A gather
is issued when its pass begins, a reduction when its bucket's gradients are there, each bucket's work waits for its
weights, and a send holds its stage until the message is out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from cosmic_opt.simulation.events.lower import Lowered
from cosmic_opt.simulation.events.program import Call, Op, Program, Stream
from cosmic_opt.workloads.graph import (
    EMBEDDING,
    Bucket,
    Communication,
    Compute,
    Node,
    Pass,
    Piece,
    Stage,
    TrainingGraph,
)

COMPUTE, GATHER, REDUCE, ARRIVAL = 0, 1, 2, 3
STREAMS = ("compute", "weight gathers", "gradient reductions", "arrival of the input")
"""The streams of one stage; gathers and reductions share a lane."""

WAIT = "wait for the stage before"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What data parallelism does in a pass: gathers weights, reduces gradients."""

    gathers: bool = False
    reductions: bool = False


@dataclass
class Builder:
    """Collects operations of several stages; waits are names that are looked up at the end."""

    lowered: Lowered
    stages: int = 1
    streams: list[list[tuple[str, int, int, Hashable]]] = field(default_factory=list)
    places: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.streams = [[] for _ in range(len(STREAMS) * self.stages)]

    def add(
        self,
        stage: int,
        stream: int,
        name: str,
        *,
        ticks: int = 0,
        call: int = -1,
        wait: Hashable = None,
        key: Hashable = None,
    ) -> None:
        """Append an operation; `key` names it for the waits of others."""
        place = len(STREAMS) * stage + stream
        if key is not None:
            self.places[key] = (place, len(self.streams[place]))
        self.streams[place].append((name, ticks, call, wait))

    def node(self, stage: int, stream: int, name: str, node: Node, *, wait: Hashable, key: Hashable = None) -> None:
        """Append a node of the graph."""
        if isinstance(node, Compute):
            self.add(stage, stream, name, ticks=self.lowered.compute_ticks(node), wait=wait, key=key)
        else:
            call = stage * len(self.lowered.calls) + self.lowered.call_index(node)
            self.add(stage, stream, name, call=call, wait=wait, key=key)

    @property
    def firsts(self) -> list[int]:
        """Return the position of the first operation of each stream in the program."""
        return list(accumulate((len(stream) for stream in self.streams), initial=0))

    def positions(self, keys: Iterable[Hashable]) -> list[int]:
        """Return the positions in the program of the operations of these keys."""
        firsts = self.firsts
        return [self._position(key, firsts) for key in keys]

    def program(self) -> Program:
        """Return the program; every stage has dimensions of its own."""
        firsts, found = self.firsts, []
        for place, stream in enumerate(self.streams):
            stage, kind = divmod(place, len(STREAMS))
            ops = tuple(Op(name, ticks, call, self._position(wait, firsts)) for name, ticks, call, wait in stream)
            lane = GATHER if kind == REDUCE else kind
            found.append(Stream(STREAMS[kind], len(STREAMS) * stage + lane, ops))
        dimensions = self.lowered.dimensions
        calls = tuple(_moved(call, stage * dimensions) for stage in range(self.stages) for call in self.lowered.calls)
        return Program(self.stages * dimensions, calls, tuple(found))

    def _position(self, wait: Hashable, firsts: list[int]) -> int:
        if wait is None:
            return -1
        stream, index = self.places[wait]
        return firsts[stream] + index


def _moved(call: Call, by: int) -> Call:
    if by == 0:
        return call
    return Call(
        tuple(tuple(visit._replace(dim=visit.dim + by) for visit in route) for route in call.routes), call.chunks
    )


def add_pass(
    builder: Builder,
    graph: TrainingGraph,
    one: Pass,
    stage: int,
    traffic: Traffic,
    *,
    place: int = 0,
    arrival: Hashable = None,
) -> None:
    """Append one pass of a stage to the streams of stage number `place` of the program.

    Its first operation is ("begin", place, pass) and waits for `arrival`; ("end", ...) follows its message;
    ("settled", ...) is its last reduction, if one overlaps. What blocks stands beside its bucket's work; in a pipeline
    all gathers of a stage come before its first wait for the stage before, and all reductions after its last message.
    """
    piece, own = graph.stages[stage].pieces[one.piece], (place, one)
    inline = len(graph.stages) == 1
    blocking = [] if inline or one.piece > 0 else data_traffic(graph.stages[stage], one.forward, traffic)
    for gather in blocking:
        if gather.blocking and one.forward:
            builder.node(place, COMPUTE, gather.name, gather, wait=None)
    builder.add(place, COMPUTE, "begin", wait=arrival, key=("begin", *own))
    buckets = piece.buckets if one.forward else piece.buckets[::-1]
    issue = None if not graph.gathers_each_pass and one.forward and one.batch == 0 else ("begin", *own)
    for name, bucket in buckets:
        before = not inline and one.forward and bucket.gather is not None and bucket.gather.blocking
        gathered = None if before else _gather(builder, bucket, name, own, traffic, issue)
        for number, node in enumerate(bucket.forward if one.forward else bucket.backward):
            label = f"{name}: {node.name}"
            builder.node(place, COMPUTE, label, node, wait=gathered if number == 0 else None)
        if traffic.reductions and bucket.reduce is not None and (inline or not bucket.reduce.blocking):
            _reduce(builder, bucket.reduce, name, own)
    send = piece.send_forward if one.forward else piece.send_backward
    if send is not None:
        builder.node(place, COMPUTE, send.name, send, wait=None)
    builder.add(place, COMPUTE, "end", key=("end", *own))
    for reduce in blocking:
        if reduce.blocking and reduce.collective != "all_gather":
            builder.node(place, COMPUTE, reduce.name, reduce, wait=None)


def data_traffic(part: Piece | Stage, forward: bool, traffic: Traffic) -> list[Communication]:
    """Return the gathers and reductions of one pass; a backward pass has no use for the embedding."""
    found = []
    for _, bucket in part.buckets:
        if bucket.gather is not None and traffic.gathers and (forward or bucket.name != EMBEDDING):
            found.append(bucket.gather)
        if bucket.reduce is not None and traffic.reductions:
            found.append(bucket.reduce)
    return found


def _gather(
    builder: Builder, bucket: Bucket, name: str, own: tuple[int, Pass], traffic: Traffic, issue: Hashable
) -> Hashable:
    """Append the bucket's gather; return what its work waits for. A backward pass has no use for the embedding."""
    node, (place, one) = bucket.gather, own
    if node is None or not traffic.gathers or (not one.forward and bucket.name == EMBEDDING):
        return None
    label = f"{name}: {node.name}"
    if node.blocking:
        builder.node(place, COMPUTE, label, node, wait=None)
        return None
    key = ("gather", name, *own)
    builder.node(place, GATHER, label, node, wait=issue, key=key)
    return key


def _reduce(builder: Builder, node: Communication, name: str, own: tuple[int, Pass]) -> None:
    place = own[0]
    label = f"{name}: {node.name}"
    if node.blocking:
        builder.node(place, COMPUTE, label, node, wait=None)
        return
    builder.add(place, COMPUTE, "gradients", key=("gradients", name, *own))
    builder.node(place, REDUCE, label, node, wait=("gradients", name, *own), key=("settled", *own))


def traffic_of(graph: TrainingGraph, forward: bool, index: int) -> Traffic:
    """Return what data parallelism does in a pass of micro-batch `index`."""
    first = graph.gathers_each_pass or index == 0
    last = graph.gathers_each_pass or index == graph.micro_batches - 1
    if forward:
        return Traffic(gathers=first)
    return Traffic(gathers=graph.gathers_backward and last, reductions=last)


def whole_program(lowered: Lowered, graph: TrainingGraph) -> Program:
    """Return the whole step, nothing folded but equal ranks: every pass of every stage, node by node."""
    return whole_builder(lowered, graph).program()


def whole_builder(lowered: Lowered, graph: TrainingGraph) -> Builder:
    """Return the whole step before its waits are looked up."""
    builder = Builder(lowered, len(graph.stages))
    for stage in graph.stages:
        before: Hashable = None
        for one in graph.passes(stage.index):
            source = graph.source(stage.index, one)
            arrival: Hashable = ("end", *source) if source is not None else None
            if before in builder.places:  # without a pipeline, a pass waits until the one before is settled
                arrival = before
            traffic = traffic_of(graph, one.forward, one.batch)
            add_pass(builder, graph, one, stage.index, traffic, place=stage.index, arrival=arrival)
            before = ("settled", stage.index, one) if graph.gathers_each_pass else None
    return builder
