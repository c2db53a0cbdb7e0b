"""When each member of a collective finishes, given when each issues it, on the congestion-unaware backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cosmic_opt.errors import InfeasibleError, LimitError
from cosmic_opt.simulation.collective.astra_sim.case import AstraCase, parse_implementation
from cosmic_opt.simulation.collective.astra_sim.edges import Edges, Fabric, IntArray
from cosmic_opt.simulation.collective.astra_sim.plan import cut, group_plan, involved_dims, machine_plan
from cosmic_opt.simulation.collective.astra_sim.run import MOST_CHUNKS, MOST_EVENTS, fabric_of
from cosmic_opt.simulation.collective.astra_sim.schedule import Phase, Schedule
from cosmic_opt.simulation.replay.machine import ReplayMachine

_Asked = tuple[str, int, tuple[bool, ...] | None, bool]
"""Collective, comm_size in bytes, involved dimensions, and whether a communicator group names the members."""
Plans = tuple[tuple[Phase, ...], tuple[Phase, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The NPUs that run a collective together, in order; `listed` when a communicator group names them.

    One object stands for one such set, so that looking it up does not take longer for more NPUs.
    """

    npus: tuple[int, ...]
    listed: bool
    positions: Mapping[int, int]
    """The place of each NPU."""

    @classmethod
    def of(cls, npus: tuple[int, ...], *, listed: bool) -> Members:
        """Return a new set."""
        return cls(npus, listed, {npu: position for position, npu in enumerate(npus)})


@dataclass(frozen=True, slots=True)
class GroupEdges:
    """The edges of a group, a number that equal edges share, and whether every member sees the same ones."""

    edges: Edges
    shape: int
    circulant: bool


@dataclass(slots=True)
class UnawareCollectives:
    """Works out collectives of one machine; equal ones only once.

    Nothing slows a collective down, so finish times depend on the differences between its start times alone.
    """

    machine: ReplayMachine
    fabric: Fabric = field(init=False)
    turns: dict[tuple[int, str], Counter[int]] = field(default_factory=dict)
    finishes: dict[tuple[object, ...], IntArray] = field(default_factory=dict)
    edges: dict[Members, GroupEdges] = field(default_factory=dict)
    durations: dict[tuple[str, int, Members, tuple[bool, ...] | None], int] = field(default_factory=dict)
    paths: dict[tuple[int, int], Edges] = field(default_factory=dict)
    cases: dict[_Asked, AstraCase] = field(default_factory=dict)
    shapes: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fabric = fabric_of(self.machine.case(next(iter(self.machine.algorithms)), 0))

    def finish(
        self,
        collective: str,
        size_bytes: int,
        members: Members,
        flags: tuple[bool, ...] | None,
        starts: Sequence[int],
    ) -> list[int]:
        """Return when each member finishes a collective of `size_bytes` that member i issues at starts[i].

        Raises:
            InfeasibleError: ASTRA-sim does not end on this collective.
            LimitError: it has too many events.
        """
        asked = (collective, size_bytes, flags, members.listed)
        origin = min(starts)
        pattern = np.array(starts, dtype=np.int64) - origin
        if members.listed and len(members.npus) < self.machine.npus:
            relative = self._group_finish(asked, members, pattern)
        else:
            relative = self._machine_finish(asked, members.npus, pattern)
        finishes: list[int] = (relative + origin).tolist()
        return finishes

    def duration_ns(self, collective: str, size_bytes: int, members: Members, flags: tuple[bool, ...] | None) -> int:
        """Return how long a collective takes that all members issue at once and, by symmetry, finish at once."""
        key = (collective, size_bytes, members, flags)
        if key not in self.durations:
            times = set(self.finish(collective, size_bytes, members, flags, [0] * len(members.npus)))
            assert len(times) == 1, "the members are not alike"
            self.durations[key] = times.pop()
        return self.durations[key]

    def message_ns(self, source: int, target: int, size_bytes: int) -> int:
        """Return the time of a message of the workload."""
        if (source, target) not in self.paths:
            self.paths[source, target] = self.fabric.edges((source, target), rows=1)
        return int(self.paths[source, target].ahead_ns(1, size_bytes)[0])

    def edges_of(self, members: Members) -> GroupEdges:
        """Return the edges of a group smaller than the machine."""
        if members not in self.edges:
            edges = self.fabric.edges(members.npus)
            content = edges.latency_ns.tobytes() + edges.bytes_per_ns.tobytes()
            shape = self.shapes.setdefault(content, len(self.shapes))
            self.edges[members] = GroupEdges(edges, shape, edges.circulant)
        return self.edges[members]

    def _case(self, asked: _Asked) -> AstraCase:
        if asked not in self.cases:
            collective, size_bytes, flags, listed = asked
            case = self.machine.case(collective, size_bytes, flags, grouped=listed)
            case.refuse_failures()
            self.cases[asked] = case
        return self.cases[asked]

    def _group_finish(self, asked: _Asked, members: Members, pattern: IntArray) -> IntArray:
        """A group smaller than the machine is one flat ring; groups with equal edges take equal times."""
        group = self.edges_of(members)
        key = (asked, group.shape, pattern.tobytes())
        if key not in self.finishes:
            case = self._case(asked)
            fold = group.circulant and not pattern.any()
            plans = group_plan(case, group.edges.folded() if fold else group.edges)
            self.finishes[key] = _run(case, plans, pattern)
        return self.finishes[key]

    def _machine_finish(self, asked: _Asked, npus: tuple[int, ...], pattern: IntArray) -> IntArray:
        case = self._case(asked)
        turns = self.turns.setdefault((npus[0], case.collective), Counter())
        trees = self._trees(case)
        parities = tuple(turns[dim] % 2 for dim in trees)
        key = (asked, parities, pattern.tobytes())
        if key not in self.finishes:
            plans = machine_plan(case, self.fabric, fold=not pattern.any(), turns=turns)
            self.finishes[key] = _run(case, plans, pattern)
        for dim, visits in trees.items():
            turns[dim] += visits * cut(case).count
        return self.finishes[key]

    def _trees(self, case: AstraCase) -> dict[int, int]:
        """Return how many phases of one chunk run on the double binary trees of each dimension."""
        implementations = [parse_implementation(name) for name in case.algorithms]
        if implementations[0].flat:
            return {}
        visited = involved_dims(case)
        both_ways = case.collective == "all_reduce" and case.multidim != "baseline"
        return {
            dim: 2 if both_ways and dim != visited[-1] else 1
            for dim in visited
            if implementations[dim].kind == "double_binary_tree"
        }


@dataclass(frozen=True, slots=True)
class Span:
    """The set of NPUs that the involved dimensions span from NPU 0, ascending, and strides and extents of the rest.

    Every set of that shape is this one, moved along the dimensions `outside`.
    """

    npus: tuple[int, ...]
    outside: tuple[tuple[int, int], ...]

    def first(self, npu: int) -> int:
        """Return the least NPU of the set that holds `npu`."""
        return sum(npu // stride % extent * stride for stride, extent in self.outside)


def spanned(machine: ReplayMachine, collective: str, flags: tuple[bool, ...] | None) -> Span:
    """Return the shape of the sets of NPUs that run a collective of the whole machine.

    Raises:
        InfeasibleError: no dimension is involved.
    """
    case = machine.case(collective, 0, flags)
    flat = parse_implementation(case.algorithms[0]).flat
    involved = range(len(machine.npus_per_dim)) if flat else involved_dims(case)
    if not involved:
        raise InfeasibleError("ASTRA-sim gives no time: no dimension is involved", hint="involve a dimension")
    npus, outside, stride = [0], list[tuple[int, int]](), 1
    for dim, extent in enumerate(machine.npus_per_dim):
        if dim in involved:
            npus = [npu + stride * place for place in range(extent) for npu in npus]
        else:
            outside.append((stride, extent))
        stride *= extent
    return Span(tuple(npus), tuple(outside))


def _run(case: AstraCase, plans: Plans, pattern: IntArray) -> IntArray:
    """Return the finish times of all members; a folded plan has one row for all of them."""
    chunks, rows = cut(case).count, plans[0][0].members.size
    if chunks > MOST_CHUNKS or chunks * len(plans[0]) * rows > MOST_EVENTS:
        raise LimitError(
            f"a collective of {chunks} chunks on {rows} NPUs has too many events",
            hint=f"at most {MOST_EVENTS}: use fewer chunks",
        )
    starts = pattern[:1] if rows == 1 else pattern
    times = Schedule(plans, chunks, case.active_chunks).run(starts)
    return np.broadcast_to(times, pattern.shape)
