"""What a training prediction is asked about: one job on one cluster, and many designs of how it is cut."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stack import CONTEXT_SCHEDULES, Recipe, Stack

FloatArray = NDArray[np.float64]
Terms = dict[str, FloatArray]

PIPELINES = ("1f1b", "gpipe", "zero_bubble")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """One job on one cluster; every field is a stated input, none is derived from where a measurement came from.

    Attributes:
        sequence: Tokens of a sequence; `global_batch` sequences make a step.
        gpus_per_node: GPUs of one scale-up domain; `nic_bytes_per_s` leaves it per GPU.
        sequence_parallel: Norms and residuals are split over tp.
        pipeline: "1f1b" (interleaved where a design's `interleave` is above 1), "gpipe" or "zero_bubble".
        context_schedule: "balanced" or "ring"; None: the stack's.
        tensor_mode: How tensor-parallel collectives overlap, a key of the stack's table; None: the stack's default.
        compiled: Elementwise kernels are fused by a compiler; False applies the stack's eager factor.
        reduce_bytes: Bytes per gradient in the reduction; None: the stack's default for the precision.
        gather_backward: Fully sharded weights are gathered again for backward.
        capacity: Rows routed to an expert over the balanced number; above 1 they are padded or imbalanced.
        nodes_limit: Nodes one token may be sent to; None: no limit.
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
    pipeline: str = "1f1b"
    context_schedule: str | None = None
    tensor_mode: str | None = None
    compiled: bool = True
    reduce_bytes: float | None = None
    gather_backward: bool = True
    capacity: float = 1.0
    nodes_limit: int | None = None
    shared_nics: bool = False
    sustained_device: Device = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sustained_device", _sustained(self.device))
        for name in ("sequence", "global_batch", "gpus_per_node", "nic_bytes_per_s", "capacity"):
            if not getattr(self, name) > 0:
                raise SpecError(f"{name} is {getattr(self, name)}", where=Where(key=name), hint="give more than zero")
        for name, known in (("pipeline", PIPELINES), ("context_schedule", (None, *CONTEXT_SCHEDULES))):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise SpecError(
                    f"unknown {name} {value!r}",
                    where=Where(key=name),
                    hint=nearest(str(value), [each for each in known if each]),
                )
        if self.tensor_mode is not None and self.tensor_mode not in self.stack.overlap.tensor_exposed:
            hint = nearest(self.tensor_mode, self.stack.overlap.tensor_exposed)
            raise SpecError(f"unknown tensor_mode {self.tensor_mode!r}", where=Where(key="tensor_mode"), hint=hint)

    @property
    def fused_experts(self) -> bool:
        """Whether routed experts run as fused kernels, which exist for block-scaled recipes."""
        return self.stack.fused_experts and self.recipe.block_scaled

    @property
    def gradient_bytes(self) -> float:
        """Bytes per gradient in the data-parallel reduction."""
        if self.reduce_bytes is not None:
            return self.reduce_bytes
        table = self.stack.gradient_bytes
        return table.get(self.recipe.name, table["default"])


def _sustained(device: Device) -> Device:
    """Return the device with its cold matrix rate replaced by the one the best long run keeps, in every precision."""
    fraction = device.sustained_fraction("bf16")
    relative = {name: device.sustained_fraction(name) / fraction for name in device.peak_flop_per_s}
    tile = replace(device.gemm.tile, efficiency=fraction, throttle=0.0)
    return replace(device, gemm=replace(device.gemm, relative=relative, tile=tile))


@dataclass(frozen=True, slots=True)
class Recompute:
    """Shares of forward work that backward runs again, per design; 0 nothing, 1 all of it.

    `layers` is the share of layers whose whole forward runs again, collectives included. In the other layers
    `attention`, `elementwise`, `matmul` and `collectives` (of tensor parallelism) are the shares of these alone.
    """

    layers: FloatArray
    attention: FloatArray
    elementwise: FloatArray
    matmul: FloatArray
    collectives: FloatArray

    @classmethod
    def of(
        cls,
        layers: ArrayLike = 0.0,
        *,
        attention: float = 0,
        elementwise: float = 0,
        matmul: float = 0,
        collectives: float = 0,
    ) -> Self:
        """Broadcast the shares to the shape of `layers`."""
        shape = np.asarray(layers, dtype=float)
        shares = (attention, elementwise, matmul, collectives)
        return cls(shape, *(np.full(shape.shape, share, dtype=float) for share in shares))


@dataclass(frozen=True, slots=True)
class TrainingDesigns:
    """How the job is cut: one array entry per design.

    Attributes:
        dp, tp, pp, cp: Parallel degrees; `ep` (expert parallel) lies inside dp * cp * tp.
        interleave: Virtual pipeline stages per stage.
        micro_batch: Sequences of one micro-batch on one rank group.
        zero_stage: 0 to 3: what is sharded over dp * cp; 3 is fully sharded data parallel.
        recompute: What backward runs again.
    """

    dp: FloatArray
    tp: FloatArray
    pp: FloatArray
    cp: FloatArray
    ep: FloatArray
    interleave: FloatArray
    micro_batch: FloatArray
    zero_stage: FloatArray
    recompute: Recompute

    @classmethod
    def of(
        cls,
        *,
        dp: ArrayLike = 1,
        tp: ArrayLike = 1,
        pp: ArrayLike = 1,
        cp: ArrayLike = 1,
        ep: ArrayLike = 1,
        interleave: ArrayLike = 1,
        micro_batch: ArrayLike = 1,
        zero_stage: ArrayLike = 0,
        recompute: Recompute | None = None,
    ) -> Self:
        """Broadcast scalars and arrays to one length.

        Raises:
            SpecError: a degree or the micro-batch is below 1.
        """
        names = tuple(each.name for each in fields(cls) if each.name != "recompute")
        columns = (dp, tp, pp, cp, ep, interleave, micro_batch, zero_stage)
        for name, column in zip(names, columns, strict=True):
            if name != "zero_stage" and np.any(np.asarray(column) < 1):
                raise SpecError(f"{name} is below 1", where=Where(key=name), hint="a degree is at least 1")
        again = recompute or Recompute.of(0.0)
        shares = (again.layers, again.attention, again.elementwise, again.matmul, again.collectives)
        every = (np.atleast_1d(np.asarray(column, dtype=float)) for column in (*columns, *shares))
        arrays = np.broadcast_arrays(*every)
        shared = Recompute(*arrays[len(columns) :])
        return cls(**dict(zip(names, arrays, strict=False)), recompute=shared)

    def with_recompute(self, recompute: Recompute) -> Self:
        """Return the designs with another recompute choice."""
        shares = (np.broadcast_to(getattr(recompute, each.name), self.tp.shape) for each in fields(Recompute))
        return replace(self, recompute=Recompute(*shares))

    @property
    def gpus(self) -> FloatArray:
        """GPUs of each design."""
        return np.asarray(self.dp * self.tp * self.pp * self.cp)

    def micro_batches(self, setup: TrainingSetup) -> FloatArray:
        """Micro-batches of one step on one pipeline."""
        return np.asarray(np.ceil(setup.global_batch / (self.dp * self.micro_batch)))

    def tokens(self, setup: TrainingSetup) -> FloatArray:
        """Tokens of one micro-batch on one rank."""
        return np.asarray(self.micro_batch * setup.sequence / self.cp)
