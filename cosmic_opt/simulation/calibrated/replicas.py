"""Replicas of many designs, each kind computed once: designs differ in the number of replicas, or in another pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, Terms

MOST_KEYS = 2**62


@dataclass(frozen=True, slots=True)
class Replicas:
    """The kinds of replica that designs have.

    Attributes:
        kinds: One design of each kind, with one replica.
        of_design: [designs], the kind of each.
    """

    kinds: ServingDesigns
    of_design: NDArray[np.int64]

    @classmethod
    def of(cls, designs: ServingDesigns) -> Self:
        """Return the kinds of these designs."""
        first, kind = _distinct((designs.tp, designs.pp, designs.ep, designs.batch))
        tp, pp, ep, batch = (each[first] for each in (designs.tp, designs.pp, designs.ep, designs.batch))
        return cls(ServingDesigns.of(tp=tp, pp=pp, ep=ep, batch=batch), kind)

    def spread(self, values: FloatArray) -> FloatArray:
        """Return the value of each design's kind."""
        return np.asarray(values[self.of_design])

    def spread_terms(self, terms: Terms) -> Terms:
        """Return the terms of each design's kind."""
        return {name: self.spread(np.broadcast_to(each, self.kinds.tp.shape)) for name, each in terms.items()}


def _distinct(columns: tuple[FloatArray, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each distinct one, and for each row the number of its distinct one.

    A row is the digits of one key, where keys are machine integers.
    """
    rows = np.stack(columns).astype(np.int64)
    sizes = [int(size) for size in rows.max(axis=1, initial=0) + 1]
    if math.prod(sizes) < MOST_KEYS:
        _, first, kind = np.unique(np.ravel_multi_index(tuple(rows), sizes), return_index=True, return_inverse=True)
    else:
        _, first, kind = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    return first, kind.reshape(-1)
