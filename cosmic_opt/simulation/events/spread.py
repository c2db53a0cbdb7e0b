"""The collectives of a step whose chunks take the orders of Themis (`system.themis`), planned one by one.

A dimension serves the waiting chunk that its collective's plan has first; where two collectives meet, the plans' places
decide, then who came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from cosmic_opt.simulation.analytical.inputs import IN_NETWORK
from cosmic_opt.simulation.events.collective import Group, themis_call
from cosmic_opt.simulation.events.program import Call
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.workloads.graph import CONTEXT, DATA, PIPELINE, TENSOR, Communication, TrainingGraph
from cosmic_opt.workloads.placement import GROUPS, nested_placement, placement_strides

Value = int | str
MEMBERS = {TENSOR: ("tp",), CONTEXT: ("sp",), DATA: ("sp", "dp")}
"""The degrees that a group of the graph runs along, innermost first."""


def spread_calls(
    values: Mapping[str, Value], dimensions: int, graph: TrainingGraph, policy: str
) -> dict[tuple[str, str], Call]:
    """Return the collectives of a graph by collective and buffer.

    Args:
        values: The design, with every constant, in base units.
        dimensions: Of the network.
        graph: Of the step.
        policy: In which order plans serve chunks that are there.
    """
    groups = _groups(values, dimensions)
    chunks = int(values["chunks"])
    sizes = {(node.collective, node.buffer): (node.group, Fraction(node.size_bytes)) for node in _collectives(graph)}
    return {
        (collective, buffer): themis_call(groups[group], collective, size, chunks, policy)
        for (collective, buffer), (group, size) in sizes.items()
    }


def _collectives(graph: TrainingGraph) -> Iterator[Communication]:
    buckets = {bucket.name: bucket for stage in graph.stages for _, bucket in stage.buckets}
    for bucket in buckets.values():
        for node in (*bucket.forward, *bucket.backward, bucket.gather, bucket.reduce):
            if isinstance(node, Communication) and node.group != PIPELINE:
                yield node


def _groups(values: Mapping[str, Value], dimensions: int) -> dict[str, Group]:
    """Return where each group lies."""
    dims = range(dimensions)
    network = Network(
        tuple(
            Dimension(
                str(values[f"topology[{dim}]"]),
                int(values[f"npus_per_dim[{dim}]"]),
                int(values[f"bandwidth[{dim}]"]),
                int(values[f"latency[{dim}]"]),
                in_network_reduction=bool(values[IN_NETWORK]) and values[f"topology[{dim}]"] == "switch",
            )
            for dim in dims
        )
    )
    extents = extents_of(values, dimensions)
    strides = dict(zip(GROUPS, placement_strides([extents[group] for group in GROUPS]), strict=True))
    algorithms = tuple(str(values[f"algorithm[{dim}]"]) for dim in dims)
    found = {}
    for group, members in MEMBERS.items():
        spans = [1] * dimensions
        for member in members:
            spans = [span * extent for span, extent in zip(spans, extents[member], strict=True)]
        found[group] = Group(network, algorithms, tuple(spans), strides[members[0]])
    return found


def extents_of(values: Mapping[str, Value], dimensions: int) -> dict[str, tuple[int, ...]]:
    """Return the extents of every group, given or nested in their order."""
    if f"extent[{GROUPS[0]},0]" in values:
        return {group: tuple(int(values[f"extent[{group},{dim}]"]) for dim in range(dimensions)) for group in GROUPS}
    filled = str(values["order"]).split("_")
    npus = [int(values[f"npus_per_dim[{dim}]"]) for dim in range(dimensions)]
    return dict(zip(filled, nested_placement([int(values[group]) for group in filled], npus), strict=True))
