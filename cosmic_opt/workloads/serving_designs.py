"""How a served model is cut and loaded, with the engine's own knobs: many designs as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.errors import SpecError, Where

FloatArray = NDArray[np.float64]


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
