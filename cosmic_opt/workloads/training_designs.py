"""How a training job is cut, with the framework's own knobs: many designs as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.workloads.training import RECOMPUTE

FloatArray = NDArray[np.float64]
SCHEDULES = ("one_f_one_b", "gpipe", "zero_bubble")
"""Pipeline schedules; one forward, one backward is interleaved where a design has virtual stages."""
FRAMEWORK_RECOMPUTE = (*RECOMPUTE, "modules")
"""What frameworks call recompute: "modules" are those of a layer that Megatron-Core runs again one by one."""


class Batch(Protocol):
    """What a step processes."""

    @property
    def sequence(self) -> int:
        """Tokens of a sequence."""

    @property
    def global_batch(self) -> int:
        """Sequences of a step."""


@dataclass(frozen=True, slots=True)
class Recompute:
    """Shares of forward work that backward runs again, per design; 0 nothing, 1 all of it.

    `layers` is the share of layers whose whole forward runs again, collectives included. In the other layers
    `attention`, `elementwise`, `matmul` and `collectives` (of tensor parallelism) are the shares of these alone, and
    `modules` that of the modules in `recomputed_modules`.
    """

    layers: FloatArray
    attention: FloatArray
    elementwise: FloatArray
    matmul: FloatArray
    collectives: FloatArray
    modules: FloatArray

    @classmethod
    def of(
        cls,
        layers: ArrayLike = 0.0,
        *,
        attention: float = 0,
        elementwise: float = 0,
        matmul: float = 0,
        collectives: float = 0,
        modules: float = 0,
    ) -> Self:
        """Broadcast the shares to the shape of `layers`."""
        shape = np.asarray(layers, dtype=float)
        shares = (attention, elementwise, matmul, collectives, modules)
        return cls(shape, *(np.full(shape.shape, share, dtype=float) for share in shares))

    def with_layers(self, layers: FloatArray) -> Self:
        """Return the choice with another share of whole layers."""
        names = (each.name for each in fields(self) if each.name != "layers")
        return type(self)(*np.broadcast_arrays(layers, *(getattr(self, name) for name in names)))


CHOICES = ("zero_stage", "reshard", "prefetch", "schedule")
"""Columns that choose, where 0 is a choice."""


@dataclass(frozen=True, slots=True)
class TrainingDesigns:
    """How the job is cut: one array entry per design.

    Attributes:
        dp, tp, pp, cp: Parallel degrees; `ep` (expert parallel) lies inside dp * cp * tp.
        interleave: Virtual pipeline stages per stage.
        micro_batch: Sequences of one micro-batch on one rank group.
        zero_stage: 0 to 3: what is sharded over dp * cp; 3 is fully sharded data parallel.
        shard_replicas: Copies of what is sharded, each over dp / shard_replicas * cp ranks side by side (hybrid
            sharding); 1 where all ranks share one copy.
        reshard: 1 where fully sharded weights are freed after forward and gathered again for backward, 0 where kept.
        prefetch: 1 where the next layer's weights are gathered beside the layer before, 0 where each waits.
        schedule: The pipeline's, by its place in `SCHEDULES`.
        capacity: Rows of an expert over the balanced number, at least 1: padded to a capacity, or imbalanced.
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
    shard_replicas: FloatArray
    reshard: FloatArray
    prefetch: FloatArray
    schedule: FloatArray
    capacity: FloatArray
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
        shard_replicas: ArrayLike = 1,
        reshard: ArrayLike = 1,
        prefetch: ArrayLike = 1,
        schedule: ArrayLike = 0,
        capacity: ArrayLike = 1,
        recompute: Recompute | None = None,
    ) -> Self:
        """Broadcast scalars and arrays to one length.

        Raises:
            SpecError: a degree, the micro-batch or the capacity is below 1.
        """
        names = tuple(each.name for each in fields(cls) if each.name != "recompute")
        columns = (
            *(dp, tp, pp, cp, ep, interleave, micro_batch, zero_stage),
            *(shard_replicas, reshard, prefetch, schedule, capacity),
        )
        for name, column in zip(names, columns, strict=True):
            if name not in CHOICES and not np.all(np.asarray(column) >= 1):
                raise SpecError(f"{name} is below 1", where=Where(key=name), hint="give 1 or more")
        again = recompute or Recompute.of(0.0)
        shares = (getattr(again, each.name) for each in fields(Recompute))
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

    def micro_batches(self, job: Batch) -> FloatArray:
        """Micro-batches of one step on one pipeline."""
        return np.asarray(np.ceil(job.global_batch / (self.dp * self.micro_batch)))

    def tokens(self, job: Batch) -> FloatArray:
        """Tokens of one micro-batch on one rank."""
        return np.asarray(self.micro_batch * job.sequence / self.cp)


SAVED_OPERATORS = {"elementwise": 1.0, "matmul": 0.5, "collectives": 0.5}
"""Operator-level recompute saves every second product, attention and reductions; the rest runs again."""


def named_recompute(names: NDArray[np.str_], selective: str) -> Recompute:
    """Return what the names of `FRAMEWORK_RECOMPUTE` run again; `selective` is the stack's meaning of the second."""
    whole, modules, chosen = ((names == name).astype(float) for name in ("full", "modules", "selective"))
    shares = SAVED_OPERATORS if selective == "operators" else {"attention": 1.0}
    parts = {name: shares.get(name, 0.0) * chosen for name in ("attention", "elementwise", "matmul", "collectives")}
    return Recompute(whole, **parts, modules=modules)
