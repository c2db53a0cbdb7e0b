"""What a serving prediction is asked about: one model on one engine and device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.engine import Engine, NumberFormat, share_on
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.serving_designs import FloatArray, ServingDesigns

__all__ = ["FloatArray", "ServingDesigns", "ServingSetup", "Terms"]

Terms = dict[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSetup:
    """One model served by one engine; every field is a stated input.

    Attributes:
        gpus_per_node: GPUs of one scale-up domain; None: the device's own.
        nic_bytes_per_s: Rate out of the domain per GPU; None: the device's own.
        parallel_block: Attention and MLP read the same norm and share one reduction (GPT-J, Falcon).
        compute_device: The device as the engine's products use it, with memory that is never in the way; derived.
    """

    model: LanguageModel
    device: Device
    engine: Engine
    numbers: NumberFormat
    gpus_per_node: int | None = None
    nic_bytes_per_s: float | None = None
    parallel_block: bool = False
    compute_device: Device = field(init=False)

    def __post_init__(self) -> None:
        self.device.peak(self.numbers.compute)
        object.__setattr__(self, "compute_device", _compute_device(self.device, self.engine))
        for name in ("gpus_per_node", "nic_bytes_per_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SpecError(f"{name} is {value}", where=Where(key=name), hint="give more than zero")

    @property
    def memory_bytes(self) -> float:
        """Memory of one device, as its driver reports it."""
        return self.device.installed_bytes

    @property
    def domain(self) -> int:
        """GPUs of one scale-up domain."""
        return self.device.gpus_per_domain if self.gpus_per_node is None else self.gpus_per_node


def _compute_device(device: Device, engine: Engine) -> Device:
    gemm, share = device.gemm, share_on(engine.matmul_share, device.board) or 1.0
    products = replace(
        gemm,
        simple=replace(gemm.simple, efficiency=share * gemm.simple.efficiency),
        sustained={name: share * fraction for name, fraction in gemm.sustained.items()},
        group_rows=engine.expert_rows,
    )
    return replace(device, gemm=products, memory_bytes_per_s=math.inf)
