"""Measured collectives of a communication library on one fabric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_opt.analysis.validation.confidence import confidence
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, number, text, whole
from cosmic_opt.analysis.validation.measured import metric_of
from cosmic_opt.analysis.validation.row_boards import as_stated, limit_notes, stated_boards
from cosmic_opt.analysis.validation.row_keys import COLLECTIVE_KEYS
from cosmic_opt.catalog.device_names import device_aliases, plain_name
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import Device, FabricConstants, collective_s
from cosmic_opt.system.hardware.collective import wire_bytes

KINDS = {
    **{"alltoall": "all_to_all", "alltoallv": "all_to_all", "a2a": "all_to_all", "allreduce": "all_reduce"},
    **{"allgather": "all_gather", "reducescatter": "reduce_scatter", "sendrecv": "send", "send": "send", "p2p": "send"},
}
"""Kinds by the letters and digits of their names."""
BULK_BYTES = 2**24
"""From about here on the library uses its bulk protocol, whatever the fabric."""
HIDDEN = {" across nodes": "network cards and their routing", " over PCIe": "PCIe topology"}
RING_ONLY = "ring"
METRICS = ("time_s", "bus_bandwidth_gb_s", "algorithm_bandwidth_gb_s")
ALIASES = {
    **dict.fromkeys(("time", "latency", "latency_s", "duration_s", "duration"), METRICS[0]),
    **dict.fromkeys(("busbw", "busbw_gb_s", "bus_bw", "bus_bw_gb_s", "bus_bandwidth", "busbandwidth_gb_s"), METRICS[1]),
    **dict.fromkeys(("bus_bandwidth_gb_per_s", "busbw_gb_per_s"), METRICS[1]),
    **dict.fromkeys(("algbw", "algbw_gb_s", "algbw_gb_per_s", "algorithm_bandwidth"), METRICS[2]),
}
"""Other names in use, spelled as `plain_metric` spells them."""


def predict_collective_row(row: Row) -> Outcome:
    """Return the time of a collective in seconds, or its bus bandwidth in GB/s as nccl-tests defines it."""
    row = stated_boards(row)
    kind = kind_of(row)
    if text(row, "gpu") == "not stated":
        raise SpecError("the GPU is not stated", hint="name the GPU")
    device = as_stated(device_of(row), row)
    fabric = _fabric(row, device)
    gpus, size = whole(row, "gpus"), number(row, "size_bytes")
    if gpus == 1:
        raise SpecError("one GPU: nothing is sent", hint="give two GPUs or more")
    local = local_ranks(row, gpus)
    metric, units = collective_metric(row)
    nic = number(row, "scale_out_bytes_per_s") if "scale_out_bytes_per_s" in row else None
    seconds = float(
        collective_s(
            fabric,
            kind,
            gpus,
            size,
            gpus_per_node=min(local, fabric.gpus_per_domain),
            nic_bytes_per_s=nic,
            in_switch=in_switch_of(row),
        )
    )
    moved = {METRICS[1]: float(wire_bytes(kind, np.asarray(float(gpus)), np.asarray(size))), METRICS[2]: size}
    predicted = units * seconds if metric == METRICS[0] else moved[metric] / seconds / 1e9
    note, where, primary = _place(device, fabric, gpus, local, nic)
    sure = confidence(row, kind + where, device.name, predicted, _hidden_input(where, size))
    note = "; ".join([*limit_notes(row, device_of(row)), *([] if note is None else [note])]) or None
    return Outcome(predicted, note, kind + where, device.name, gpus, primary, confidence=sure)


def _hidden_input(where: str, size_bytes: float) -> str:
    """Return what is usually not stated: what moves bytes, or which protocol starts them."""
    if where:
        return HIDDEN[where]
    return "release of the library" if size_bytes >= BULK_BYTES else "protocol and channels the library chooses"


def kind_of(row: Row) -> str:
    """Return the kind of collective in our spelling."""
    kind = text(row, "collective")
    return KINDS.get(plain_name(kind), kind)


def collective_metric(row: Row) -> tuple[str, float]:
    """Return the metric of a row, seconds where it names none, and how many of the row's units one of its units is.

    Raises:
        SpecError: an unknown metric.
    """
    return metric_of(text(row, "metric"), METRICS, ALIASES) if "metric" in row else (METRICS[0], 1.0)


def device_of(row: Row) -> Device:
    """Return the device a row names: the board for its topology where one is known under both."""
    gpu = text(row, "gpu")
    both = f"{gpu}, {row['topology']}" if isinstance(row.get("topology"), str) else gpu
    return load_device(both if plain_name(both) in device_aliases() else gpu)


def _fabric(row: Row, device: Device) -> FabricConstants:
    if device.fabric is None:
        raise SpecError(f"{device.name!r} has no fabric", hint="give its file a 'fabric:' section")
    fabric = device.fabric
    if "scale_up_bytes_per_s" in row:
        fabric = replace(fabric, link_bytes_per_s=number(row, "scale_up_bytes_per_s"))
    if "gpus_per_domain" in row:
        fabric = replace(fabric, gpus_per_domain=whole(row, "gpus_per_domain"))
    return fabric


def local_ranks(row: Row, gpus: int) -> int:
    """Return how many ranks share a host."""
    if "gpus_per_node" in row:
        return min(gpus, whole(row, "gpus_per_node"))
    return max(1, gpus // whole(row, "nodes")) if "nodes" in row else gpus


def in_switch_of(row: Row) -> bool | None:
    """Return whether the row allows reduction in the switch; a library run as a ring does not."""
    if isinstance(row.get("nvls"), bool):
        return bool(row["nvls"])
    return False if RING_ONLY in str(row.get("library", "")).split() else None


def _place(
    device: Device, fabric: FabricConstants, gpus: int, local: int, nic: float | None
) -> tuple[str | None, str, bool]:
    """Return a note, the suffix of the row's group, and whether its inputs are all stated."""
    if gpus > local:
        rate = fabric.nic_bytes_per_s / 1e9
        note = None if nic is not None else f"the rate between nodes is not stated: {rate:g} GB/s per GPU assumed"
        return note, " across nodes", nic is not None
    if gpus > fabric.gpus_per_domain:
        return "PCIe between the domains of one host", " over PCIe", False
    note = None
    if "fabric" in device.extrapolates:
        note = f"extrapolates: {device.name} has no fabric constants of its own"
    return note, "", True


ROW_KINDS.register("collectives")(
    RowKind(lambda row: "collective" in row and "size_bytes" in row, predict_collective_row, COLLECTIVE_KEYS)
)
