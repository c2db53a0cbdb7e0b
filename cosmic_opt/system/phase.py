"""The cost of one collective on one network dimension: the seam between step lists and simulators.

A step takes `hops · latency + busiest directed link's bytes / link bandwidth`; a phase is the sum of its
steps, so its time is `hops · latency + load · bytes / bandwidth`: two numbers that depend on structure only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.collectives.base import IntArray, Peers, Shifts
from cosmic_opt.system.network import Dimension
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.system.topology.base import Block


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """`hops` counts latencies; `load` counts payloads that the whole dimension bandwidth serves.

    The phase's latency is hops · latency, its serialisation load · bytes / bandwidth.
    """

    hops: int
    load: Fraction


FREE = PhaseCost(0, Fraction(0))

REDUCING = "set in_network_reduction=1 where switches add and copy messages, or use another algorithm"


@lru_cache(maxsize=65536)
def phase_cost(topology: str, algorithm: str, collective: str, npus: int, extent: int, stride: int) -> PhaseCost:
    """Return the cost of `collective` in all groups of a block at one time.

    A block of `npus` NPUs; a group is `extent` of them, `stride` apart. All npus/extent groups run together
    and share links: the busiest link carries the messages of every group. A group of one NPU costs nothing.

    Raises:
        SpecError: an unknown name, or groups that do not tile the block.
        InfeasibleError: the algorithm does not exist for this extent, or on this block.
    """
    block = TOPOLOGIES.get(topology)
    if ALGORITHMS.get(algorithm).in_switch and not block.switched:
        raise InfeasibleError(f"{algorithm} needs a switch, not a {topology}", hint="use it in switch dimensions only")
    steps = ALGORITHMS.get(algorithm).steps(collective, _checked(npus, extent, stride))
    repeats = Counter[tuple[Peers, Fraction]]()
    for step in steps:
        repeats[step.peers, step.share] += step.repeat
    hops, load = 0, Fraction(0)
    for (peers, share), repeat in repeats.items():
        step_hops, step_load = _step_cost(block, peers, npus, extent, stride)
        hops += repeat * step_hops
        load += repeat * share * step_load
    return PhaseCost(hops, load / block.link_share(npus))


def dimension_cost(dimension: Dimension, algorithm: str, collective: str, extent: int, stride: int) -> PhaseCost:
    """Return `phase_cost` on a dimension of a network.

    Raises:
        SpecError: an unknown name, groups that do not tile the block, or a switch that does not reduce.
        InfeasibleError: the algorithm does not exist for this extent, or on this block.
    """
    cost = phase_cost(dimension.topology, algorithm, collective, dimension.npus, extent, stride)
    if ALGORITHMS.get(algorithm).in_switch and not dimension.in_network_reduction:
        raise SpecError(f"{algorithm}: the switch of this dimension does not reduce", hint=REDUCING)
    return cost


def _step_cost(block: Block, peers: Peers, npus: int, extent: int, stride: int) -> tuple[int, Fraction]:
    """Return the hops of a step and the messages on its busiest link.

    Shifts over a block without distances need no routing, which would cost the square of the group's size.
    """
    if isinstance(peers, Shifts):
        distinct = {offset % extent for offset in peers.offsets}
        load = block.shift_load(npus, len(distinct))
        if load is not None and len(distinct) == len(peers.offsets) and 0 not in distinct:
            return 1, load
    sources, targets = _messages(peers.targets(extent), npus, extent, stride)
    return block.hops(npus, sources, targets), block.busiest_link(npus, sources, targets)


@lru_cache(maxsize=65536)
def send_cost(topology: str, npus: int, stride: int, wrap_extent: int | None = None) -> PhaseCost:
    """Return the cost of a pipeline's neighbour send: every NPU of the block sends the payload at one time.

    Each sends to the NPU `stride` further. With `wrap_extent` the send is one that carries into the next
    dimension: the index in this one goes from wrap_extent - 1 back to 0, so each sends (wrap_extent - 1)
    times `stride` back. A distance of zero costs nothing.

    Raises:
        SpecError: an unknown block, or a number below 1.
    """
    block = TOPOLOGIES.get(topology)
    _checked(npus, 1, 1)
    if stride < 1 or (wrap_extent is not None and wrap_extent < 1):
        raise SpecError(f"a send over stride {stride}, extent {wrap_extent} means nothing", hint="both are at least 1")
    offset = stride if wrap_extent is None else -(wrap_extent - 1) * stride
    if offset % npus == 0:
        return FREE
    sources = np.arange(npus)
    targets = (sources + offset) % npus
    load = block.busiest_link(npus, sources, targets) / block.link_share(npus)
    return PhaseCost(block.hops(npus, sources, targets), load)


def _checked(npus: int, extent: int, stride: int) -> int:
    """Return `extent` if groups of it, `stride` apart, tile a block of `npus`."""
    if npus < 1 or extent < 1 or stride < 1 or npus % (extent * stride):
        raise SpecError(
            f"groups of {extent} NPUs {stride} apart do not tile a block of {npus}",
            hint="extent times stride must divide the block's NPUs",
        )
    return extent


def _messages(targets: IntArray, npus: int, extent: int, stride: int) -> tuple[IntArray, IntArray]:
    """Return sources and targets, numbered in the block, of a step's messages in every group.

    `targets` has shape (messages per rank, extent) in ranks of a group, -1 for nobody. NPU number
    block_index · extent · stride + rank · stride + offset.
    """
    rows, ranks = np.nonzero(targets >= 0)
    starts = np.arange(0, npus, extent * stride)
    first_members = (starts[:, None] + np.arange(stride)).reshape(-1, 1)
    sources = (first_members + ranks * stride).reshape(-1)
    destinations = (first_members + targets[rows, ranks] * stride).reshape(-1)
    return sources, destinations
