"""Which ranks of a parallel group share a node, and what its collectives cost.

Ranks are numbered tp fastest, then cp, dp, pp (Megatron's order), so a node holds whole tp groups first.
"""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingSetup
from cosmic_opt.system.hardware import collective_s
from cosmic_opt.system.hardware.collective import wire_bytes


def ranks_in_node(setup: TrainingSetup, degree: FloatArray, inner: FloatArray) -> FloatArray:
    """Return how many of a group's `degree` ranks share a node when its neighbours are `inner` ranks apart."""
    return np.asarray(np.clip(np.floor(setup.gpus_per_node / inner), 1, degree))


def group_s(setup: TrainingSetup, kind: str, degree: FloatArray, inner: FloatArray, size: FloatArray) -> FloatArray:
    """Return seconds of a collective over `degree` ranks that are `inner` apart; `size` bytes is the whole buffer."""
    local = ranks_in_node(setup, degree, inner)
    time = collective_s(
        setup.device,
        kind,
        degree,
        size,
        domain=setup.gpus_per_node,
        nic_bytes_per_s=setup.nic_bytes_per_s,
        gpus_per_node=local,
    )
    time = time + _ring_latency_s(setup, kind, degree, local)
    return _without_rails(setup, kind, degree, local, size, time) if setup.shared_nics else time


def _ring_latency_s(setup: TrainingSetup, kind: str, degree: FloatArray, local: FloatArray) -> FloatArray:
    """Return what a ring over many nodes costs beyond a tree: all-gather and reduce-scatter pass every node in turn.

    NCCL has trees for all-reduce only, so the logarithm of the nodes in `collective_s` becomes their number.
    """
    fabric = setup.device.fabric
    assert fabric is not None
    nodes = np.ceil(degree / local)
    if kind not in ("all_gather", "reduce_scatter"):
        return np.zeros_like(nodes)
    return np.where(nodes > 1, fabric.inter_node_doubling_s * (nodes - 1 - np.log2(np.maximum(nodes, 1))), 0.0)


def _without_rails(
    setup: TrainingSetup, kind: str, degree: FloatArray, local: FloatArray, size: FloatArray, time: FloatArray
) -> FloatArray:
    """Return the time of a ring that leaves each node through one card, shared by the node's other groups.

    A node of g GPUs holds g / local such groups. A setup states a GPU's share of a card; that of all GPUs that share
    the card is the card's rate, which is the device's nominal one whatever the share. A group with one rank per node
    uses that GPU's own share, one that fills the node all cards, as with rails.
    """
    fabric = setup.device.fabric
    assert fabric is not None
    groups = setup.gpus_per_node / local
    rate = fabric.nic_bytes_per_s * fabric.nic_efficiency / groups
    ring = wire_bytes(kind, degree, size) / rate
    part = (local > 1) & (local < setup.gpus_per_node) & (degree > local)
    return np.where(part, np.maximum(time, ring), time)


def send_s(setup: TrainingSetup, distance: FloatArray, gpus: FloatArray, size: FloatArray) -> FloatArray:
    """Return seconds of a message to the rank `distance` away, of `gpus` in all.

    Some senders stay inside the node if distance is below its size, but the slowest crosses: all wait for it.
    """
    crosses = (distance >= setup.gpus_per_node) | (gpus > setup.gpus_per_node)
    local = np.where(crosses, 1.0, 2.0)
    return collective_s(
        setup.device,
        "send",
        np.full_like(size, 2.0),
        size,
        domain=setup.gpus_per_node,
        nic_bytes_per_s=setup.nic_bytes_per_s,
        gpus_per_node=local,
    )
