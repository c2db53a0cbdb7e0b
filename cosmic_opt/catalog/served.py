"""What makes an inference instance: an engine and number format, requests, and the measured constants of its device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from cosmic_opt.catalog.calibrated import as_given, device_of, refuse_decided
from cosmic_opt.catalog.engines import check_devices, load_engine, load_number_format
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.domain import Value
from cosmic_opt.system.hardware import Device
from cosmic_opt.system.scale_up import scale_up
from cosmic_opt.workloads.engine import Engine, NumberFormat
from cosmic_opt.workloads.language_model import LanguageModel, language_model
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_quantities import ServedModel
from cosmic_opt.workloads.stack import Accuracy
from cosmic_opt.workloads.transformer import Transformer

DEFAULT_PRECISION = "bf16"
DECIDED_BY_ENGINE = (
    *("latency", "algorithm", "multidim", "chunks", "scheduling_policy", "in_network_reduction"),
    *("host_capacity", "host_bandwidth"),
)
"""Data of the analytical simulator that an engine, or the device's fitted constants, decide instead."""


@dataclass(frozen=True)
class Serving:
    """A served model's fixed part: device with the instance's own numbers, software, requests, accuracy."""

    model: LanguageModel
    device: Device
    engine: Engine
    numbers: NumberFormat
    accuracy: Accuracy
    requests: Requests

    @property
    def in_memory(self) -> ServedModel:
        """The model as the memory of one device sees it."""
        return ServedModel(self.model, self.engine, self.numbers, self.device.memory_bytes, self.requests)


def serving_of(spec: InstanceSpec, workload: Transformer, data: dict[str, Value], changed: Collection[str]) -> Serving:
    """Return the fixed part of an inference instance; add what its rules name to `data`.

    Added are `precision`, `experts`, `most_sequences` (of one tp group, the engine's own limit) and `scale_up` (NPUs of
    one domain). `memory_capacity` is what the device's driver reports, unless it is given: an engine fills that.
    `changed` are the names that `--set` gives.

    Raises:
        SpecError: no engine or no requests, a device without constants or matrix units of the precision, a number
            the engine decides, or an image model.
    """
    for name, example in (("engine", "engine: vllm"), ("prompt", "prompt: 1000"), ("output", "output: 200")):
        if name not in data:
            raise SpecError(f"an inference job needs {name!r}", where=spec.where, hint=f"add '{example}'")
    data.setdefault("precision", DEFAULT_PRECISION)
    engine, numbers = load_engine(str(data["engine"])), load_number_format(str(data["precision"]))
    refuse_decided(spec, f"engine {engine.name!r}", DECIDED_BY_ENGINE, changed)
    device = device_of(spec)
    device.peak(numbers.compute)
    check_devices(engine, device.board, str(data["engine"]))
    domain = scale_up(len(spec.system.dimensions), data)
    data |= {
        "experts": workload.experts.count if workload.experts is not None else 1,
        "most_sequences": engine.memory.most_sequences,
        "scale_up": domain.npus,
    }
    if "memory_capacity" not in {*changed, *spec.data}:
        data["memory_capacity"] = int(device.installed_bytes)
    capacity = float(data["memory_capacity"])
    given = replace(as_given(device, data), memory_bytes=capacity, installed_bytes=capacity)
    requests = Requests(int(data["prompt"]), int(data["output"]))
    return Serving(language_model(workload), given, engine, numbers, load_accuracy("inference"), requests)
