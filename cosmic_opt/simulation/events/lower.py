"""From a graph to ticks: the primitives of the analytical simulator, node by node, so that both add equal integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cosmic_opt.simulation.analytical.layout import LIMIT_TICKS, Link, Slot, Whole
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator, Prepared
from cosmic_opt.simulation.events.program import Call, IntArray, Op, Program, Route, Stream, Visit
from cosmic_opt.simulation.events.replay import run_program
from cosmic_opt.workloads.graph import EMBEDDING, HEAD, KEYS, LAYER, STREAM, Communication, Compute, Node
from cosmic_opt.workloads.operators import (
    Operator,
    backward_layer,
    embedding_operators,
    forward_layer,
    head_operators,
    selective_recompute,
)
from cosmic_opt.workloads.transformer import Transformer

PARTS = ("forward", "backward", "selective", "embed_forward", "embed_backward", "head_forward", "head_backward")
"""Groups of operators in the order of `Whole.FORWARD` and on."""

SLOTS = {
    STREAM: (Slot.TENSOR_UP, Slot.TENSOR_UP_LATENCY, Slot.TENSOR_DOWN, Slot.TENSOR_DOWN_LATENCY),
    KEYS: (Slot.SEQUENCE_UP, Slot.SEQUENCE_UP_LATENCY, Slot.SEQUENCE_DOWN, Slot.SEQUENCE_DOWN_LATENCY),
    LAYER: (Slot.LAYER_UP, Slot.GRADIENT_UP_LATENCY, Slot.LAYER_DOWN, Slot.GRADIENT_DOWN_LATENCY),
    EMBEDDING: (Slot.EMBED_UP, Slot.GRADIENT_UP_LATENCY, Slot.EMBED_DOWN, Slot.GRADIENT_DOWN_LATENCY),
    HEAD: (Slot.HEAD_UP, Slot.GRADIENT_UP_LATENCY, Slot.HEAD_DOWN, Slot.GRADIENT_DOWN_LATENCY),
}
"""Where an option vector holds a buffer's phases: service and latency going up, then going down."""

GROUP_OF = {
    STREAM: Link.TENSOR,
    KEYS: Link.SEQUENCE,
    LAYER: Link.GRADIENT,
    EMBEDDING: Link.GRADIENT,
    HEAD: Link.GRADIENT,
}
SEND = "send"


@dataclass(frozen=True)
class Lowered:
    """Ticks and routes of one design.

    Attributes:
        whole: The prepared row, [W].
        links: Its links, [D, L].
        vectors: An option vector per dimension, [D, K].
        operator_ticks: By part and operator.
        policy: The service order of all dimensions.
        own_calls: Communications whose chunks take routes of their own, by collective and buffer.
    """

    whole: IntArray
    links: IntArray
    vectors: IntArray
    operator_ticks: Mapping[tuple[str, str], int]
    policy: str
    own_calls: Mapping[tuple[str, str], Call] = field(default_factory=dict)

    @property
    def dimensions(self) -> int:
        """Return the number of network dimensions."""
        return len(self.vectors)

    def compute_ticks(self, node: Compute) -> int:
        """Return the time of a compute node: its operators, each rounded alone."""
        return sum(self.operator_ticks[node.part, operator.name] for operator in node.operators)

    def ticks(self, node: Node) -> int:
        """Return the time of a node that has the network to itself."""
        if isinstance(node, Compute):
            return self.compute_ticks(node)
        return self.alone_ticks[self.call_index(node)]

    def call_index(self, node: Communication) -> int:
        """Return the position of a communication among `calls`."""
        return self.call_places[_key(node)]

    @cached_property
    def call_places(self) -> dict[tuple[str, str], int]:
        """The position of every communication there can be, by collective and buffer."""
        kinds = [(collective, buffer) for buffer in SLOTS for collective in COLLECTIVES]
        return {kind: place for place, kind in enumerate([*kinds, (SEND, STREAM)])}

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every communication there can be, as calls; a send is one message, everything else is cut in chunks."""
        chunks = int(self.whole[Whole.CHUNKS])
        kinds = [kind for kind in self.call_places if kind[0] != SEND]
        found = [self.own_calls.get(kind) or Call((self._route(*kind),), chunks) for kind in kinds]
        return (*found, Call((self._send_route(),), 1))

    @cached_property
    def alone_ticks(self) -> tuple[int, ...]:
        """The time of each call that has the network to itself."""
        return tuple(self._alone(call) for call in self.calls)

    @cached_property
    def busy_ticks(self) -> tuple[IntArray, ...]:
        """For each call, how long its chunks occupy each dimension, int64 [D]."""
        found = []
        for call in self.calls:
            busy = np.zeros(self.dimensions, dtype=np.int64)
            times = call.chunks if len(call.routes) == 1 else 1
            for visit in (visit for route in call.routes for visit in route):
                busy[visit.dim] += times * visit.ticks
            found.append(busy)
        return tuple(found)

    def _alone(self, call: Call) -> int:
        """Simulate one call; a call of one chunk, or over one dimension, has nothing that could wait for another."""
        route = call.routes[0]
        dims = [visit.dim for visit in route]
        if call.chunks == 1 or (len(call.routes) == 1 and len(route) <= 1):
            return sum(visit.ticks * call.chunks + visit.latency_ticks for visit in route)
        if len(call.routes) == 1 and len(set(dims)) == len(
            dims
        ):  # equal jobs through a row of machines: Conway, Maxwell and Miller 1967
            path = sum(visit.ticks + visit.latency_ticks for visit in route)
            return path + (call.chunks - 1) * max(visit.ticks for visit in route)
        program = Program(self.dimensions, (call,), (Stream("alone", 0, (Op("call", call=0),)),))
        return run_program(program, policy=self.policy).ticks

    def _route(self, collective: str, buffer: str) -> Route:
        """Return the visits of a chunk; see `system.multidim.plan`."""
        dims = [dim for dim in range(self.dimensions) if self.links[dim, GROUP_OF[buffer]] >= 0]
        up_slot, up_latency, down_slot, down_latency = SLOTS[buffer]
        up = [Visit(dim, *self._slots(dim, up_slot, up_latency)) for dim in dims]
        down = [Visit(dim, *self._slots(dim, down_slot, down_latency)) for dim in reversed(dims)]
        if collective == "all_gather":
            return tuple(down)
        if collective == "reduce_scatter" or not self.whole[Whole.BLUECONNECT]:
            return tuple(up)
        top = [Visit(dim, *self._slots(dim, up_slot, down_latency)) for dim in dims[-1:]]
        return (*up[:-1], *top, *down[1:])

    def _send_route(self) -> Route:
        """Return the visits of a message to the next stage, of the worst pair of neighbours (`traffic`).

        A message is cut nowhere and its slots hold service and latency together: all of it occupies.
        """
        carried, worst, best = list[Visit](), 0, list[Visit]()
        for dim in range(self.dimensions):
            route = [*carried, Visit(dim, int(self.vectors[dim, Slot.SEND_STEP]), 0)]
            if (ticks := sum(visit.ticks for visit in route)) > worst:
                worst, best = ticks, route
            carried.append(Visit(dim, int(self.vectors[dim, Slot.SEND_CARRY]), 0))
        return tuple(visit for visit in best if visit.ticks)

    def _slots(self, dim: int, service: int, latency: int) -> tuple[int, int]:
        return int(self.vectors[dim, service]), int(self.vectors[dim, latency])


COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")


def _key(node: Communication) -> tuple[str, str]:
    return node.collective, node.buffer


def lower(
    simulator: AnalyticalSimulator,
    prepared: Prepared,
    row: int,
    vectors: Sequence[IntArray],
    design: Mapping[str, int],
    policy: str,
    own_calls: Mapping[tuple[str, str], Call],
) -> Lowered:
    """Return the ticks of a prepared row under one option vector per dimension.

    `design` holds tp, sp, micro_batch and sequence_parallel, `own_calls` communications with routes of their own.
    """
    whole = prepared.whole[row]
    names = [
        (part, operator.name)
        for part, operators in zip(PARTS, _operator_groups(simulator.workload), strict=True)
        for operator in operators
    ]
    ticks = dict(zip(names, _operator_ticks(simulator, design).tolist(), strict=True))
    for place, part in enumerate(PARTS):
        total = sum(value for (own, _), value in ticks.items() if own == part)
        assert total == whole[Whole.FORWARD + place], "operators add up to the analytical simulator's group"
    return Lowered(whole, prepared.links[row], np.array(vectors), ticks, policy, own_calls)


def _operator_groups(workload: Transformer) -> tuple[tuple[Operator, ...], ...]:
    embedding, head = embedding_operators(workload), head_operators(workload)
    layer = (forward_layer(workload), backward_layer(workload), selective_recompute(workload))
    return (*layer, embedding.forward, embedding.backward, head.forward, head.backward)


def _operator_ticks(simulator: AnalyticalSimulator, design: Mapping[str, int]) -> IntArray:
    """Return the roofline time of every operator, in the order and the arithmetic of `structure`, int64."""
    rates = simulator.rates
    split = 1 / design["tp"]
    tokens = design["micro_batch"] * rates.sequence / design["sp"]
    per_rank = tokens * split
    divided = per_rank if design["sequence_parallel"] else tokens
    rows = rates.operators
    memory = tokens * rows[:, 1] + divided * rows[:, 2]
    memory += per_rank * rows[:, 3] + split * rows[:, 4] + rows[:, 5]
    return np.rint(np.minimum(np.maximum(per_rank * rows[:, 0], memory), LIMIT_TICKS)).astype(np.int64)
