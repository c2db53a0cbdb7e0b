"""Collectives on real fabrics: wire protocols inside a scale-up domain, rails across domains.

`size_bytes` is the whole buffer S of nccl-tests' size column: what one rank holds before an all-reduce, a
reduce-scatter or an all-to-all, what it holds after an all-gather, and the message of a send.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.system.hardware.device import Device, FabricConstants, KindFactors, Protocol

FloatArray = NDArray[np.float64]
PAIR_SHARPNESS = 6
"""How steeply a pair's low-latency protocol fades above its limit (a power); the library's switch is abrupt."""


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
    per GPU. `in_switch` says whether the switch may reduce; by default it may where the fabric can.

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
    return np.asarray(_steps(kind, ranks) * size / np.maximum(ranks, 1))


def _steps(kind: str, ranks: FloatArray) -> FloatArray:
    return np.asarray((2 if kind == "all_reduce" else 1) * (ranks - 1))


def _fabric(device: Device | FabricConstants) -> FabricConstants:
    if isinstance(device, FabricConstants):
        return device
    if device.fabric is None:
        raise SpecError(f"{device.name!r} has no fabric", hint="give its file a 'fabric:' section")
    return device.fabric


def _inside(
    fabric: FabricConstants, kind: str, ranks: FloatArray, size: FloatArray, in_switch: bool | None
) -> FloatArray:
    """Return the smooth minimum over protocols of start + bytes / rate. Source: NCCL's LL, LL128 and Simple."""
    library, factors = fabric.library, fabric.library.kinds[kind]
    pairs = factors.pair_limit_bytes is not None
    bulk = wire_bytes(kind, ranks, size) / _bus(fabric, kind, ranks)
    start = _latency(fabric, kind, ranks)
    times = [
        _protocol(fabric, protocol, factors, start, bulk, size / np.maximum(ranks, 1))
        for protocol in library.protocols
        if protocol.point_to_point or not pairs
    ]
    if kind == "all_reduce" and fabric.in_switch_fraction is not None and in_switch is not False:
        times.append(_in_switch(fabric, ranks, size, start))
    return smooth_min(np.stack(times), library.sharpness)


def _protocol(
    fabric: FabricConstants,
    protocol: Protocol,
    factors: KindFactors,
    start: FloatArray,
    bulk: FloatArray,
    peer_bytes: FloatArray,
) -> FloatArray:
    startup = fabric.startup_s * factors.startup * protocol.startup_share
    time = start + startup + bulk / protocol.bandwidth_share
    if factors.pair_limit_bytes is None or protocol.bandwidth_share == 1:
        return time
    return np.asarray(time * (1 + (peer_bytes / factors.pair_limit_bytes) ** PAIR_SHARPNESS))


def _latency(fabric: FabricConstants, kind: str, ranks: FloatArray) -> FloatArray:
    factors = fabric.library.kinds[kind]
    return np.asarray(fabric.base_s * factors.latency + fabric.hop_s * factors.hop * (ranks - 1))


def _bus(fabric: FabricConstants, kind: str, ranks: FloatArray) -> FloatArray:
    """Return bulk bytes/s of one rank: links that reach the group's peers, less the copy of the rank's own block."""
    copy = fabric.library.kinds[kind].copy
    if kind == "all_to_all" and fabric.all_to_all_copy is not None:
        copy = fabric.all_to_all_copy
    steps = np.maximum(_steps(kind, ranks), 1)
    reached = 1.0 if kind == "send" else np.maximum(ranks - 1, 1)
    links = np.minimum(1.0, fabric.peer_share * reached)
    return np.asarray(fabric.link_bytes_per_s * links * fabric.efficiency * steps / (steps + copy))


def _in_switch(fabric: FabricConstants, ranks: FloatArray, size: FloatArray, start: FloatArray) -> FloatArray:
    """Return the time with reduction in the switch: each rank sends S and receives S/n besides.

    Small groups gain nothing: at n = 4 the ring's 2 (n-1)/n S and this (1 + 1/n) S are nearly equal.
    """
    assert fabric.in_switch_fraction is not None, "the caller asks only fabrics that reduce in the switch"
    startup = fabric.library.in_switch_startup * fabric.startup_s
    time = start + startup + (1 + 1 / ranks) * size / (fabric.in_switch_fraction * fabric.link_bytes_per_s)
    used = (ranks >= fabric.library.in_switch_gpus) & (ranks <= fabric.gpus_per_domain)
    return np.where(used, time, np.inf)


def smooth_min(times: FloatArray, power: float) -> FloatArray:
    """Return (sum of t^-p)^(-1/p) over the first axis; infinite times do not count."""
    least = times.min(axis=0)
    return np.asarray(least * ((least / times) ** power).sum(axis=0) ** (-1 / power))


def _across(
    fabric: FabricConstants,
    kind: str,
    ranks: FloatArray,
    size: FloatArray,
    local: FloatArray,
    nic_bytes_per_s: float,
    in_switch: bool | None,
) -> FloatArray:
    """Return the time over several domains, each of `local` ranks that use their NICs side by side.

    All-to-all and send are limited by the bytes that leave a GPU; the others by min(bus inside, local x NIC).
    """
    nodes = np.ceil(ranks / local)
    start = fabric.inter_node_s + fabric.inter_node_doubling_s * np.log2(np.maximum(nodes, 2))
    rate = nic_bytes_per_s * fabric.nic_efficiency
    if kind == "send":
        return np.asarray(start + size / rate)
    several = local > 1
    if kind == "all_to_all":
        remote_s = (ranks - local) / np.maximum(ranks, 1) * size / rate
        inside = _inside(fabric, kind, np.maximum(local, 2), size * local / np.maximum(ranks, 1), in_switch)
        return np.asarray(start + np.maximum(remote_s, np.where(several, inside, 0.0)))
    bus = np.where(several, _bus(fabric, kind, local), np.inf)
    rails = wire_bytes(kind, ranks, size) / np.minimum(bus, rate * (local if fabric.rail_parallel else 1))
    return np.asarray(start + np.where(several, _latency(fabric, kind, local), 0.0) + rails)
