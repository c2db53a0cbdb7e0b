"""Chunks of a collective and the phases each goes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from math import prod
from types import MappingProxyType

import numpy as np

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.collective.astra_sim.algorithms import Costs, halving_doubling_finish, ring_finish
from cosmic_opt.simulation.collective.astra_sim.case import (
    DEFAULT_INVOLVED_DIMS,
    AstraCase,
    Implementation,
    group_failure,
    parse_implementation,
)
from cosmic_opt.simulation.collective.astra_sim.direct import direct_finish
from cosmic_opt.simulation.collective.astra_sim.edges import Edges, Fabric, IntArray
from cosmic_opt.simulation.collective.astra_sim.schedule import Finish, Phase
from cosmic_opt.simulation.collective.astra_sim.trees import tree_finish

NO_TURNS: Mapping[int, int] = MappingProxyType({})
SUBGROUP_DELAY_NS = 10
"""A communicator group smaller than the machine is charged this instead of the endpoint delay."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """How a collective is cut: `count` chunks of `size_bytes` each; the last one is not shortened."""

    count: int
    size_bytes: int


def cut(case: AstraCase) -> Chunks:
    """Return the chunks: size // splits bytes each, as many as it takes.

    Except in an all-gather, a chunk has at least one byte per NPU of the machine, and then there are exactly
    `splits` chunks.
    """
    size, total = case.size_bytes // case.chunks, prod(case.npus_per_dim)
    if size < total and case.collective != "all_gather":
        return Chunks(case.chunks, total)
    return Chunks(-(-case.size_bytes // size), size)


def machine_plan(
    case: AstraCase, fabric: Fabric, *, fold: bool = True, turns: Mapping[int, int] = NO_TURNS
) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    """Return the phases of even and of odd chunks when all NPUs take part.

    They differ where a double binary tree swaps its two trees from one phase to the next; `turns` says how many
    phases of earlier collectives ran on the trees of a dimension. Without `fold` every NPU of one set of the
    involved dimensions has a row, so that each may start at its own time.
    """
    implementations = [parse_implementation(name) for name in case.algorithms]
    costs = Costs(case.endpoint_delay_ns, case.memory_gb_per_s)
    if implementations[0].flat:
        everyone = fabric.edges(tuple(range(fabric.npus)), rows=1 if fold else None)
        return _flat_plans(case, implementations[0], everyone, costs, subgroup=False)
    stages = tuple(_stages(case, len(implementations)))
    if not stages:
        raise InfeasibleError("ASTRA-sim gives no time: no dimension is involved", hint="involve a dimension")
    fold = fold and all(implementations[dim].kind != "double_binary_tree" for dim, _ in stages)
    involved = {dim for dim, _ in stages}
    rings = {dim: _rings(fabric, dim, involved, fold=fold) for dim in involved}
    plans, tree_turns = list[tuple[Phase, ...]](), Counter[int](turns)
    for _ in range(2):
        data, phases = cut(case).size_bytes, list[Phase]()
        for dim, collective in stages:
            edges, members = rings[dim]
            root_is_first = tree_turns[dim] % 2 == 1
            finish, left = _phase(
                implementations[dim], collective, edges, data, costs, root_is_first=root_is_first, subgroup=False
            )
            phases.append(Phase(dim, collective, edges.members, data, members, finish))
            tree_turns[dim] += 1
            data = left
        plans.append(tuple(phases))
    return plans[0], plans[1]


def involved_dims(case: AstraCase) -> tuple[int, ...]:
    """Return the dimensions that a collective of the whole machine runs on, ascending."""
    return tuple(sorted({dim for dim, _ in _stages(case, len(case.algorithms))}))


def _rings(fabric: Fabric, dim: int, involved: Set[int], *, fold: bool) -> tuple[Edges, IntArray]:
    """Return the edges that all rings of a dimension share, and the rows of each; folded, one NPU stands for all.

    Rows number the NPUs of one set that the `involved` dimensions span, in order.
    """
    stride = prod(fabric.npus_per_dim[:dim])
    edges = fabric.edges([stride * place for place in range(fabric.npus_per_dim[dim])], rows=1)
    if fold:
        return edges, np.zeros((1, 1), dtype=np.int64)
    extents = [npus if index in involved else 1 for index, npus in enumerate(fabric.npus_per_dim)]
    grid = np.arange(prod(extents)).reshape(extents[::-1])
    return edges.unfolded(), np.moveaxis(grid, -1 - dim, -1).reshape(-1, extents[dim])


def group_plan(case: AstraCase, edges: Edges) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    """Return the phases of even and odd chunks of a communicator group smaller than the machine.

    It is one flat ring in listed order, whatever the dimensions; with more than one entry in the implementation
    list its algorithm is `ring`.
    """
    implementation = parse_implementation(case.algorithms[0])
    if len(case.algorithms) > 1:
        implementation = Implementation("ring", None, flat=False)
    if implementation.kind == "double_binary_tree":
        raise InfeasibleError(
            "ASTRA-sim gives no time: doubleBinaryTree on a communicator group reads a ring as a tree",
            hint="use ring for communicator groups",
        )
    costs = Costs(SUBGROUP_DELAY_NS, case.memory_gb_per_s)
    return _flat_plans(case, implementation, edges, costs, subgroup=True)


def _flat_plans(
    case: AstraCase, implementation: Implementation, edges: Edges, costs: Costs, *, subgroup: bool
) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    data = cut(case).size_bytes
    finish, _ = _phase(implementation, case.collective, edges, data, costs, root_is_first=False, subgroup=subgroup)
    members = np.arange(edges.rows, dtype=np.int64)[None, :]
    plan = (Phase(0, case.collective, edges.members, data, members, finish),)
    return plan, plan


def _stages(case: AstraCase, listed: int) -> Iterator[tuple[int, str]]:
    """Yield (dimension, collective) in order; a list of implementations shorter than the network drops dims.

    A communicator group of all NPUs involves every dimension whatever involved_dim says.
    """
    flags = (True,) * DEFAULT_INVOLVED_DIMS if case.involved_dims is None else case.involved_dims
    if case.groups:
        flags = (True,) * listed
    dims = [dim for dim in range(min(listed, len(flags))) if flags[dim]]
    if case.collective != "all_reduce" or case.multidim == "baseline":
        order = reversed(dims) if case.collective == "all_gather" else dims
        yield from ((dim, case.collective) for dim in order)
        return
    yield from ((dim, "reduce_scatter") for dim in dims[:-1])
    yield from ((dim, "all_reduce") for dim in dims[-1:])
    yield from ((dim, "all_gather") for dim in reversed(dims[:-1]))


def _phase(
    implementation: Implementation,
    collective: str,
    edges: Edges,
    data_bytes: int,
    costs: Costs,
    *,
    root_is_first: bool,
    subgroup: bool,
) -> tuple[Finish, int]:
    """Return the finish function of a phase and the bytes per NPU that it leaves.

    A double binary tree runs an all-reduce whatever was asked for, so it leaves what it was given.
    """
    npus = edges.members
    reason = group_failure(implementation, collective, npus)
    if reason is not None:
        raise InfeasibleError(f"ASTRA-sim gives no time: {reason}", hint="use ring or direct")
    left = {"reduce_scatter": data_bytes // npus, "all_gather": data_bytes * npus}.get(collective, data_bytes)
    if implementation.kind == "double_binary_tree":
        return partial(tree_finish, edges, data_bytes, costs, root_is_first=root_is_first), data_bytes
    if implementation.kind == "direct":
        window = implementation.window or npus - 1
        return partial(direct_finish, collective, edges, data_bytes, costs, window=window, subgroup=subgroup), left
    finish = ring_finish if implementation.kind == "ring" else halving_doubling_finish
    return partial(finish, collective, edges, data_bytes, costs), left
