"""Collectives on real fabrics: wire protocols inside a scale-up domain, rails across domains.

`size_bytes` is the whole buffer S of nccl-tests' size column: what one rank holds before an all-reduce, a
reduce-scatter or an all-to-all, what it holds after an all-gather, and the message of a send.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.system.hardware.device import Device, FabricConstants, KindFactors

FloatArray = NDArray[np.float64]


def collective_s(
    device: Device | FabricConstants,
    kind: str,
    gpus: ArrayLike,
    size_bytes: ArrayLike,
    *,
    domain: ArrayLike | None = None,
    nic_bytes_per_s: float | None = None,
    gpus_per_node: ArrayLike | None = None,
    in_switch: bool | None = None,
) -> FloatArray:
    """Return seconds of one collective over `gpus` ranks, broadcast over arrays; one rank or no bytes take no time.

    `domain` is the number of GPUs a scale-up domain joins (the fabric's own by default), `gpus_per_node` how many of
    the group's ranks lie in one domain (as many as fit by default). `nic_bytes_per_s` is the rate out of the domain
    per GPU. `in_switch` forces reduction inside the switch on or off; by default the library's own rule applies.

    Raises:
        SpecError: an unknown kind, a device without a fabric, or in-switch reduction on a fabric without it.
    """
    fabric = _fabric(device)
    if kind not in fabric.library.kinds:
        raise SpecError(f"unknown collective {kind!r}", hint=nearest(kind, fabric.library.kinds))
    if in_switch and fabric.in_switch_fraction is None:
        raise SpecError("this fabric does not reduce inside its switch", hint="leave in_switch out")
    ranks, size = np.broadcast_arrays(np.asarray(gpus, dtype=float), np.asarray(size_bytes, dtype=float))
    limit = np.asarray(fabric.gpus_per_domain if domain is None else domain, dtype=float)
    local = np.minimum(ranks, limit if gpus_per_node is None else np.asarray(gpus_per_node, dtype=float))
    inside = _inside(fabric, kind, ranks, size, in_switch)
    nic = fabric.nic_bytes_per_s if nic_bytes_per_s is None else nic_bytes_per_s
    outside = _across(fabric, kind, ranks, size, np.maximum(local, 1), nic, in_switch)
    return np.where((ranks > 1) & (size > 0), np.where(ranks <= local, inside, outside), 0.0)


def wire_bytes(kind: str, ranks: FloatArray, size: FloatArray) -> FloatArray:
    """Return the bytes each rank sends: 2 (n-1)/n S for all-reduce, (n-1)/n S for the others, S for a send."""
    if kind == "send":
        return size
    share = (ranks - 1) / np.maximum(ranks, 1)
    return np.asarray((2 if kind == "all_reduce" else 1) * share * size)


def _fabric(device: Device | FabricConstants) -> FabricConstants:
    if isinstance(device, FabricConstants):
        return device
    if device.fabric is None:
        raise SpecError(f"{device.name!r} has no fabric", hint="give its file a 'fabric:' section")
    return device.fabric


def _inside(
    fabric: FabricConstants, kind: str, ranks: FloatArray, size: FloatArray, in_switch: bool | None
) -> FloatArray:
    """Return the smooth minimum over protocols of start + bytes / rate. Source: NCCL's protocols LL, LL128, Simple."""
    factors = fabric.library.kinds[kind]
    moved = wire_bytes(kind, ranks, size)
    rate = _bulk_rate(fabric, kind, ranks, factors)
    start = _latency(fabric, factors, ranks, kind)
    times = []
    for protocol in fabric.library.protocols:
        bulk = moved / (rate * protocol.bandwidth_share)
        if protocol.bandwidth_share == 1 and kind == "all_reduce":
            bulk = _in_switch(fabric, ranks, size, bulk, in_switch)
        times.append(start + protocol.startup_share * fabric.startup_s + bulk)
    return smooth_min(np.stack(times), fabric.library.sharpness)


def _latency(fabric: FabricConstants, factors: KindFactors, ranks: FloatArray, kind: str) -> FloatArray:
    hops = np.zeros_like(ranks) if kind == "send" else ranks - 1
    return np.asarray(fabric.base_s * factors.latency + fabric.hop_s * factors.hop * hops)


def _bulk_rate(fabric: FabricConstants, kind: str, ranks: FloatArray, factors: KindFactors) -> FloatArray:
    """Return bytes/s of one rank: its links to the peers of the group, less where an all-to-all has one peer only."""
    reached = np.ones_like(ranks) if kind == "send" else np.maximum(ranks - 1, 1)
    links = np.minimum(1.0, fabric.peer_share * reached)
    pair = np.where((ranks == 2) & (kind == "all_to_all"), fabric.pair_all_to_all, 1.0)
    return np.asarray(fabric.link_bytes_per_s * links * fabric.efficiency * factors.bandwidth * pair)


def _in_switch(
    fabric: FabricConstants, ranks: FloatArray, size: FloatArray, ring_s: FloatArray, in_switch: bool | None
) -> FloatArray:
    """Return the bulk time with reduction in the switch: each rank sends S and receives S/n besides."""
    if fabric.in_switch_fraction is None or in_switch is False:
        return ring_s
    switch_s = (1 + 1 / ranks) * size / (fabric.in_switch_fraction * fabric.link_bytes_per_s)
    used = (ranks >= fabric.in_switch_gpus) & (ranks <= fabric.gpus_per_domain)
    return np.where(used, np.minimum(ring_s, switch_s), ring_s)


def smooth_min(times: FloatArray, power: float) -> FloatArray:
    """Return (sum of t^-p)^(-1/p) over the first axis."""
    least = times.min(axis=0)
    return np.asarray(least * ((times / least) ** -power).sum(axis=0) ** (-1 / power))


def _across(
    fabric: FabricConstants,
    kind: str,
    ranks: FloatArray,
    size: FloatArray,
    local: FloatArray,
    nic: float,
    in_switch: bool | None,
) -> FloatArray:
    """Return the time over several domains, each of `local` ranks that use their NICs side by side.

    All-to-all and send are limited by the bytes that leave a GPU; the others by min(NVLink bus, local x NIC).
    """
    nodes = np.ceil(ranks / local)
    start = fabric.inter_node_s + fabric.inter_node_doubling_s * np.log2(np.maximum(nodes, 2))
    rate = nic * fabric.nic_efficiency
    if kind == "send":
        return np.asarray(start + size / rate)
    inside = _inside(fabric, kind, np.maximum(local, 2), size, in_switch)
    if kind == "all_to_all":
        remote = (ranks - local) / ranks * size
        return np.asarray(start + np.maximum(remote / rate, np.where(local > 1, inside, 0)))
    bus = np.where(local > 1, _bulk_rate(fabric, kind, local, fabric.library.kinds[kind]), np.inf)
    rails = wire_bytes(kind, ranks, size) / np.minimum(bus, rate * (local if fabric.rail_parallel else 1))
    return np.asarray(start + np.where(local > 1, _latency(fabric, fabric.library.kinds[kind], local, kind), 0) + rails)
