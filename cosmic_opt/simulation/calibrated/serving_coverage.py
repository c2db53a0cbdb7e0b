"""What was measured of served models: groups of engine and device, their number formats and kinds of load."""

from __future__ import annotations

from cosmic_opt.simulation.calibrated.serving_job import ServingSetup
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.stack import Accuracy

OWN = "own"
"""The group of engines and devices that do not come with the program: no shipped one."""
LATENCY, SATURATED = "latency", "saturated"
LOADS = {LATENCY: "latency of a given batch", SATURATED: "saturated server"}
"""Kinds of load, and what they are called."""


def accuracy_group(setup: ServingSetup) -> str:
    """Return the group a job's accuracy is known for: its engine and device; of those of one's own nothing is known."""
    if not setup.engine.shipped or setup.device.measured_as is None:
        return OWN
    return f"{setup.engine.name} {setup.device.board}"


def measured_format(setup: ServingSetup) -> str:
    """Return the job's number format as coverage counts it: both kinds of 16 bits are one, and cost the same."""
    return setup.numbers.name.replace("bf16", "fp16")


def unmeasured(setup: ServingSetup, requests: Requests, accuracy: Accuracy, load: str, gpus: float) -> tuple[str, ...]:
    """Return what of a job lies outside the measured ones: its group, precision, kind of load, size or length."""
    name, engine = setup.device.board, setup.engine.name
    covered, numbers = accuracy.covers.get(accuracy_group(setup)), measured_format(setup)
    found = []
    if setup.device.measured_as not in accuracy.devices:
        own = "" if setup.device.measured_as else ", a device of one's own"
        found.append(f"no measured inference on {name}{own}")
    elif not setup.engine.shipped:
        found.append(f"{engine} is a file of one's own: nothing was measured with it")
    elif covered is None:
        found.append(f"no measured inference with {engine} on {name}")
    else:
        if numbers not in covered.precisions:
            known = ", ".join(sorted(covered.precisions))
            found.append(f"no measured {setup.numbers.name} with {engine} on {name}: only {known}")
        if load not in covered.loads:
            found.append(f"no measured {LOADS[load]} with {engine} on {name}")
    found += setup.device.altered
    if gpus > accuracy.most_gpus:
        found.append(f"more than {accuracy.most_gpus:,} GPUs")
    if requests.prompt + requests.output > accuracy.most_tokens:
        found.append(f"contexts longer than {accuracy.most_tokens:,} tokens")
    return tuple(found)
