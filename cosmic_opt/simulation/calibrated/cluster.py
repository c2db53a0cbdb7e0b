"""The cluster a calibrated job runs on, from a system's network dimensions: scale-up domain, links, network cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.simulation.calibrated.job import TrainingSetup, shares_nics
from cosmic_opt.system.hardware import Device
from cosmic_opt.system.scale_up import scale_up
from cosmic_opt.workloads.stack import CONTEXT_EXCHANGES, GRADIENT_OVERLAPS, TENSOR_OVERLAPS

JOB_WIDE: Mapping[str, tuple[str, ...]] = {
    "tensor_overlap": TENSOR_OVERLAPS,
    "gradient_overlap": GRADIENT_OVERLAPS,
    "context_exchange": CONTEXT_EXCHANGES,
}
"""Knobs of the whole job and their values; the stack's own unless given."""
CLUSTER = ("topology", "npus_per_dim", "bandwidth")
"""What of a network dimension the calibrated model reads; latencies are the device's own, fitted."""


def setup_of(calibrated: Calibrated, dimensions: int, values: Mapping[str, int | str]) -> TrainingSetup:
    """Return the job of a problem; `values` hold its numbers and job-wide knobs by name, in base units.

    The dimension outside the scale-up domain gives the rate of a GPU's network card.
    """
    domain = scale_up(dimensions, values)
    device = linked(calibrated.device, domain.link_bytes_per_s)
    assert device.fabric is not None, "catalog.calibrated checks it"
    nic = device.fabric.nic_bytes_per_s if domain.nic_bytes_per_s is None else domain.nic_bytes_per_s
    chosen = {knob: str(values[knob]) for knob in JOB_WIDE if knob in values}
    return TrainingSetup(
        model=calibrated.model,
        device=device,
        stack=calibrated.stack,
        recipe=calibrated.recipe,
        sequence=int(values["seq"]),
        global_batch=int(values["global_batch"]),
        gpus_per_node=domain.npus,
        nic_bytes_per_s=nic,
        shared_nics=shares_nics(device, nic),
        sequence_parallel=bool(values["sequence_parallel"]),
        tensor_mode=chosen.get("tensor_overlap"),
        gradient_overlap=chosen.get("gradient_overlap"),
        context_exchange=chosen.get("context_exchange"),
    )


def linked(device: Device, link_bytes_per_s: float) -> Device:
    """Return the device with the system's own links; shares of them stay as measured."""
    assert device.fabric is not None, "catalog.calibrated checks it"
    return replace(device, fabric=replace(device.fabric, link_bytes_per_s=link_bytes_per_s))
