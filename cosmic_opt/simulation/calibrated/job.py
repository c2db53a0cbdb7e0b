"""What a training prediction is asked about: one job on one cluster, and many designs of how it is cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stack import (
    CONTEXT_EXCHANGES,
    CONTEXT_SCHEDULES,
    GRADIENT_OVERLAPS,
    Recipe,
    Stack,
    default_tensor_mode,
)
from cosmic_opt.workloads.training_designs import FloatArray, Recompute, TrainingDesigns

__all__ = ["FloatArray", "Recompute", "Terms", "TrainingDesigns", "TrainingSetup", "shares_nics"]

Terms = dict[str, FloatArray]

SHARED_NIC_SHARE = 0.75
"""A rate per GPU below this share of the device's own network card means that GPUs share cards."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "context_schedule": CONTEXT_SCHEDULES,
    "context_exchange": CONTEXT_EXCHANGES,
    "gradient_overlap": GRADIENT_OVERLAPS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """One job on one cluster; every field is a stated input, none is derived from where a measurement came from.

    Attributes:
        sequence: Tokens of a sequence; `global_batch` sequences make a step.
        gpus_per_node: GPUs of one scale-up domain; `nic_bytes_per_s` leaves it per GPU.
        sequence_parallel: Norms and residuals are split over tp.
        context_schedule: "balanced" or "ring"; None: the stack's.
        context_exchange: How ranks of a context group see each other's keys; None: the stack's.
        gradient_overlap: Whether reductions hide behind backward ("window") or follow it ("none"); None: the stack's.
        tensor_mode: How tensor-parallel collectives overlap, a key of the stack's table; None: the stack's default.
        compiled: Elementwise kernels are fused by a compiler; False applies the stack's eager factor.
        reduce_bytes: Bytes per gradient in the reduction; None: the stack's default for the precision.
        shared_nics: A node has fewer network cards than GPUs, so there are no rails: the ranks a group has in a node
            leave it through one card, which the other groups of the node use at the same time.
        sustained_device: The device at the rate a long run keeps; derived.
    """

    model: LanguageModel
    device: Device
    stack: Stack
    recipe: Recipe
    sequence: int
    global_batch: int
    gpus_per_node: int
    nic_bytes_per_s: float
    sequence_parallel: bool = False
    context_schedule: str | None = None
    context_exchange: str | None = None
    gradient_overlap: str | None = None
    tensor_mode: str | None = None
    compiled: bool = True
    reduce_bytes: float | None = None
    shared_nics: bool = False
    sustained_device: Device = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sustained_device", _sustained(self.device))
        for name in ("sequence", "global_batch", "gpus_per_node", "nic_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise SpecError(f"{name} is {getattr(self, name)}", where=Where(key=name), hint="give more than zero")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise SpecError(f"unknown {name} {value!r}", where=Where(key=name), hint=nearest(str(value), known))
        if self.tensor_mode is not None and self.tensor_mode not in self.stack.overlap.tensor_exposed:
            hint = nearest(self.tensor_mode, self.stack.overlap.tensor_exposed)
            raise SpecError(f"unknown tensor_mode {self.tensor_mode!r}", where=Where(key="tensor_mode"), hint=hint)

    @property
    def fused_experts(self) -> bool:
        """Whether routed experts run as fused kernels, which exist for block-scaled recipes."""
        return self.stack.fused_experts and self.recipe.block_scaled

    @property
    def casts_weights_once(self) -> bool:
        """Whether weights are cast once a step, not for each micro-batch: the stack keeps them cast, and no product
        needs a transposed copy, which would be made anew."""
        return self.stack.caches_weights and self.device.gemm.any_layout

    @property
    def tensor_overlap(self) -> str:
        """How tensor-parallel collectives overlap: as told, or what the stack does at this precision."""
        return self.tensor_mode or default_tensor_mode(
            self.stack,
            self.recipe,
            sequence_parallel=self.sequence_parallel,
            latent=self.model.latent is not None,
        )

    @property
    def exchange(self) -> str:
        """How ranks of a context group see each other's keys: as told, or the stack's."""
        return self.context_exchange or self.stack.context_exchange

    @property
    def attention_schedule(self) -> str:
        """How causal attention is shared over a context group: as told, or the stack's."""
        return self.context_schedule or self.stack.context_schedule

    @property
    def gradient_bytes(self) -> float:
        """Bytes per gradient in the data-parallel reduction."""
        if self.reduce_bytes is not None:
            return self.reduce_bytes
        table = self.stack.gradient_bytes
        return table.get(self.recipe.name, table["default"])


def shares_nics(device: Device, nic_bytes_per_s: float) -> bool:
    """Return whether so low a rate per GPU means that a node has fewer network cards than GPUs."""
    return device.fabric is not None and nic_bytes_per_s < SHARED_NIC_SHARE * device.fabric.nic_bytes_per_s


def _sustained(device: Device) -> Device:
    """Return the device with its cold matrix rate replaced by the one a step keeps, in every precision."""
    fraction = device.powered_fraction("bf16")
    relative = {name: device.powered_fraction(name) / fraction for name in device.peak_flop_per_s}
    tile = replace(device.gemm.tile, efficiency=fraction, throttle=0.0)
    return replace(device, gemm=replace(device.gemm, relative=relative, tile=tile))
