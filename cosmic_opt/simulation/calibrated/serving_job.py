"""What a serving prediction is asked about: one model on one engine and device, and many ways to cut it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.engine import Engine, NumberFormat, share_on
from cosmic_opt.workloads.language_model import LanguageModel

FloatArray = NDArray[np.float64]
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
    def domain(self) -> int:
        """GPUs of one scale-up domain."""
        return self.device.gpus_per_domain if self.gpus_per_node is None else self.gpus_per_node


def _compute_device(device: Device, engine: Engine) -> Device:
    gemm, share = device.gemm, share_on(engine.matmul_share, device.name) or 1.0
    products = replace(
        gemm,
        simple=replace(gemm.simple, efficiency=share * gemm.simple.efficiency),
        sustained={name: share * fraction for name, fraction in gemm.sustained.items()},
        group_rows=engine.expert_rows,
    )
    return replace(device, gemm=products, memory_bytes_per_s=math.inf)


@dataclass(frozen=True, slots=True)
class ServingDesigns:
    """How the model is cut and loaded: one array entry per design.

    Attributes:
        tp, pp: Tensor and pipeline degree of one replica.
        ep: Groups of tp ranks that share the experts of a layer; each serves its part of the replica's sequences.
        dp: Replicas, which share nothing but the queue.
        batch: Sequences one replica decodes at once.
    """

    tp: FloatArray
    pp: FloatArray
    ep: FloatArray
    dp: FloatArray
    batch: FloatArray

    @classmethod
    def of(
        cls,
        *,
        tp: ArrayLike = 1,
        pp: ArrayLike = 1,
        ep: ArrayLike = 1,
        dp: ArrayLike = 1,
        batch: ArrayLike = 1,
    ) -> Self:
        """Broadcast scalars and arrays to one length.

        Raises:
            SpecError: a degree or the batch is below 1.
        """
        columns = [np.atleast_1d(np.asarray(column, dtype=float)) for column in (tp, pp, ep, dp, batch)]
        for each, column in zip(fields(cls), columns, strict=True):
            if not np.all(column >= 1):
                raise SpecError(f"{each.name} is below 1", where=Where(key=each.name), hint="give at least 1")
        return cls(*np.broadcast_arrays(*columns))

    def with_batch(self, batch: ArrayLike) -> Self:
        """Return the same cuts at another batch."""
        return type(self).of(tp=self.tp, pp=self.pp, ep=self.ep, dp=self.dp, batch=batch)

    @property
    def replica_gpus(self) -> FloatArray:
        """GPUs of one replica."""
        return np.asarray(self.tp * self.pp * self.ep)

    @property
    def gpus(self) -> FloatArray:
        """GPUs of all replicas."""
        return np.asarray(self.dp * self.replica_gpus)

    @property
    def sequences(self) -> FloatArray:
        """Sequences of one tp group."""
        return np.asarray(np.ceil(self.batch / self.ep))
