"""The genetic agent: tournament selection, crossover by component, mutation by resampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.base import AGENTS
from cosmic_opt.search.feasible_space import FeasibleSpace

POPULATION = 64
MUTATION = 0.05
TOURNAMENT = 3
"""Population and mutation as in COSMIC's experiments (PAPERS: GA, population 32 / 64, mutation 0.01 / 0.05)."""


@AGENTS.register("genetic")
class GeneticAgent:
    """Keeps the best designs it was told; every child is feasible by construction."""

    def __init__(self, space: FeasibleSpace, rng: np.random.Generator) -> None:
        self.space = space
        self.rng = rng
        self.parents = space.parameter_set.batch(np.zeros((0, len(space.parameter_set.columns)), dtype=np.int32))
        self.scores: NDArray[np.float64] = np.zeros(0)

    def ask(self, count: int) -> DesignBatch:
        """Return uniform designs until there is a population, then children."""
        if len(self.parents) < POPULATION:
            return self.space.sample(count, self.rng)
        left, right = (self.parents.take(self._tournament(count)) for _ in range(2))
        child = self.space.crossover(left, right, self.rng)
        return self.space.mutate(child, MUTATION, self.rng)

    def tell(self, batch: DesignBatch, scores: NDArray[np.float64]) -> None:
        """Keep the best distinct designs among parents and children (equal scores: the least code)."""
        codes = np.concatenate([self.parents.codes, batch.codes])
        everything = np.concatenate([self.scores, scores])
        codes, first = np.unique(codes, axis=0, return_index=True)
        everything = everything[first]
        best = np.argsort(everything, kind="stable")[:POPULATION]
        self.parents = self.space.parameter_set.batch(codes[best])
        self.scores = everything[best]

    def _tournament(self, count: int) -> NDArray[np.int64]:
        """Return the winner of each tournament; parents are sorted, so the least position wins."""
        entrants = self.rng.integers(0, len(self.parents), size=(count, TOURNAMENT))
        return np.asarray(entrants.min(axis=1))
