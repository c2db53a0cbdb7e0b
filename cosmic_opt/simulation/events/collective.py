"""One collective over several dimensions, chunk by chunk: baseline, BlueConnect or Themis under any service order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.events.chunking import Occupation, check_chunks, check_drift, check_played
from cosmic_opt.simulation.events.program import PLANNED, Call, Op, Program, Route, Stream, Visit
from cosmic_opt.simulation.events.replay import Replay, run_program
from cosmic_opt.system.multidim import MULTIDIM, SCHEMES, THEMIS, PlanPhase, plan
from cosmic_opt.system.network import Network
from cosmic_opt.system.phase import PhaseCost, dimension_cost
from cosmic_opt.system.themis import themis_routes
from cosmic_opt.units import TICKS_PER_SECOND

SCHEDULERS = SCHEMES
"""The ways a collective's chunks are led over dimensions."""


@dataclass(frozen=True, slots=True)
class ScheduledCollective:
    """When a collective ends, and what each dimension did.

    Attributes:
        time_ticks: From the start to the last chunk's end.
        busy_ticks: Per dimension, while it served a chunk; over time_ticks it is the dimension's utilisation.
        routes: Per chunk (one for all where they agree), the phases in order.
        replay: Every visit of every chunk.
    """

    time_ticks: int
    busy_ticks: tuple[int, ...]
    routes: tuple[tuple[PlanPhase, ...], ...]
    replay: Replay


@dataclass(frozen=True, slots=True)
class Group:
    """What a collective runs on: extents[d] NPUs, strides[d] apart, of each dimension, with an algorithm there."""

    network: Network
    algorithms: tuple[str, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def whole(network: Network, algorithms: Sequence[str]) -> Group:
        """Return the group of all NPUs of the network."""
        extents = tuple(dimension.npus for dimension in network.dimensions)
        return Group(network, tuple(algorithms), extents, (1,) * len(extents))

    def load_bytes(self, phase: PlanPhase, size_bytes: Fraction) -> Fraction:
        """Return the bytes that the whole bandwidth of the dimension serves in one phase of `size_bytes`."""
        return self._cost(phase).load * phase.share * size_bytes

    def visit(self, phase: PlanPhase, chunk_bytes: Fraction) -> Visit:
        """Return the phase of one chunk, each part rounded once to a tick."""
        latency = self._cost(phase).hops * self.network.dimensions[phase.dim].latency_ticks
        return Visit(phase.dim, round(self.exact_ticks(phase, chunk_bytes)), latency)

    def exact_ticks(self, phase: PlanPhase, size_bytes: Fraction) -> Fraction:
        """Return what one phase of `size_bytes` occupies its dimension for, not rounded."""
        bandwidth = self.network.dimensions[phase.dim].bandwidth_bytes_per_s
        return self.load_bytes(phase, size_bytes) * TICKS_PER_SECOND / bandwidth

    def occupations(
        self, routes: Sequence[tuple[PlanPhase, ...]], size_bytes: int, chunks: int
    ) -> dict[object, Occupation]:
        """Return the distinct phases of `chunks` equal chunks, which take routes of their own or the only one."""
        times = chunks if len(routes) == 1 else 1
        counts = {phase: 0 for route in dict.fromkeys(routes) for phase in route}
        for route, count in Counter(routes).items():
            for phase in route:
                counts[phase] += times * count
        part = Fraction(size_bytes, chunks)
        return {phase: Occupation(phase.dim, self.exact_ticks(phase, part), count) for phase, count in counts.items()}

    def _cost(self, phase: PlanPhase) -> PhaseCost:
        dimension = self.network.dimensions[phase.dim]
        extent, stride = self.extents[phase.dim], self.strides[phase.dim]
        return dimension_cost(dimension, self.algorithms[phase.dim], phase.collective, extent, stride)


def schedule_collective(
    group: Group,
    collective: str,
    size_bytes: int,
    *,
    scheduler: str = "blueconnect",
    chunks: int = 1,
    policy: str = "fifo",
    active: int = 1,
) -> ScheduledCollective:
    """Simulate one collective of `size_bytes` (the full buffer) in `chunks` equal parts, alone on its dimensions.

    Under `themis` every NPU must serve chunks in one order, so it is planned beforehand: as `policy` serves them when
    nothing has a latency. A dimension never waits for the next of the plan while another chunk is there.

    Raises:
        SpecError: an unknown name, a number out of range, or chunks so small that rounding to ticks adds up.
        InfeasibleError: an algorithm that does not exist for an extent.
        LimitError: it takes more than 13 days, or has more than `chunking.MOST_PLAYED` chunks.
    """
    check_chunks(size_bytes, chunks)
    check_played(chunks)
    phases = _phases(group, collective, Fraction(size_bytes), scheduler, chunks)
    routes = _routes(group, phases, Fraction(size_bytes, chunks))
    if scheduler == THEMIS:
        routes, policy = _planned(routes, chunks, len(group.extents), policy), PLANNED
    replay = run_program(_program(routes, chunks, len(group.extents)), policy=policy, active=active, visits=True)
    check_drift(group.occupations(phases, size_bytes, chunks), chunks, replay.ticks)
    return ScheduledCollective(replay.ticks, tuple(int(busy) for busy in replay.busy_ticks), phases, replay)


def themis_call(group: Group, collective: str, size_bytes: Fraction, chunks: int, policy: str) -> Call:
    """Return a collective whose chunks take the orders of Themis and are served as planned (`schedule_collective`).

    Raises:
        LimitError: more than `chunking.MOST_PLAYED` chunks.
    """
    check_played(chunks)
    phases = _phases(group, collective, size_bytes, THEMIS, chunks)
    routes = _routes(group, phases, size_bytes / chunks)
    return Call(_planned(routes, chunks, len(group.extents), policy), chunks)


def _routes(group: Group, phases: tuple[tuple[PlanPhase, ...], ...], chunk_bytes: Fraction) -> tuple[Route, ...]:
    distinct = dict.fromkeys(phases)
    visits = {phase: group.visit(phase, chunk_bytes) for route in distinct for phase in route}
    known = {route: tuple(visits[phase] for phase in route) for route in distinct}
    return tuple(known[route] for route in phases)


def _program(routes: tuple[Route, ...], chunks: int, dimensions: int) -> Program:
    return Program(dimensions, (Call(routes, chunks),), (Stream("collective", 0, (Op("collective", call=0),)),))


def _planned(routes: tuple[Route, ...], chunks: int, dimensions: int, policy: str) -> tuple[Route, ...]:
    """Return the routes with every visit's place in the order of service without latencies."""
    if not routes[0]:
        return routes
    apart = routes if len(routes) == chunks else routes * chunks
    bare = tuple(tuple(visit._replace(latency_ticks=0) for visit in route) for route in apart)
    log = run_program(_program(bare, chunks, dimensions), policy=policy, visits=True).visits
    order = log[np.argsort(log[:, 3], kind="stable")]
    places: list[list[int]] = [[] for _ in apart]
    for place, chunk in enumerate(order[:, 1]):
        places[chunk].append(place)
    return tuple(
        tuple(visit._replace(place=place) for visit, place in zip(route, own, strict=True))
        for route, own in zip(apart, places, strict=True)
    )


def _phases(
    group: Group, collective: str, size_bytes: Fraction, scheduler: str, chunks: int
) -> tuple[tuple[PlanPhase, ...], ...]:
    """Return the phases of each chunk, or once where all chunks take the same."""
    if scheduler not in SCHEDULERS:
        raise SpecError(f"unknown scheduler {scheduler!r}", hint=nearest(scheduler, SCHEDULERS))
    common = plan(collective, scheduler if scheduler in MULTIDIM else MULTIDIM[0], group.extents)
    if scheduler in MULTIDIM or not common:
        return (common,)
    return themis_routes(collective, group.extents, chunks, partial(group.exact_ticks, size_bytes=size_bytes / chunks))
