"""The best designs that an agent was told."""

from __future__ import annotations

import numpy as np

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.base import Scores
from cosmic_opt.search.feasible_space import FeasibleSpace


class Archive:
    """Up to `size` distinct designs, best first; of equal scores the least code comes first."""

    def __init__(self, space: FeasibleSpace, size: int) -> None:
        self.size = size
        self.designs = space.parameter_set.batch(np.zeros((0, len(space.parameter_set.columns)), dtype=np.int32))
        self.scores: Scores = np.zeros(0)

    def __len__(self) -> int:
        return len(self.designs)

    def add(self, batch: DesignBatch, scores: Scores) -> None:
        """Take in designs, and forget all but the best."""
        codes = np.concatenate([self.designs.codes, batch.codes])
        everything = np.concatenate([self.scores, scores])
        codes, first = np.unique(codes, axis=0, return_index=True)
        everything = everything[first]
        best = np.argsort(everything, kind="stable")[: self.size]
        self.designs = batch.parameter_set.batch(codes[best])
        self.scores = everything[best]
