"""The genetic agent: tournament selection, crossover by column with repair, mutation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.archive import Archive
from cosmic_opt.search.agents.base import AGENTS, Scores
from cosmic_opt.search.feasible_space import FeasibleSpace

POPULATION = 64
MUTATION = 0.05
TOURNAMENT = 3
"""Population and mutation as in COSMIC's experiments (PAPERS: GA, population 32 / 64, mutation 0.01 / 0.05)."""


@AGENTS.register("genetic")
class GeneticAgent:
    """Keeps the best designs it was told; a child that breaks a rule gives way to the member nearest to it."""

    ask_size = POPULATION

    def __init__(self, space: FeasibleSpace, rng: np.random.Generator) -> None:
        self.space = space
        self.rng = rng
        self.parents = Archive(space, POPULATION)
        self.told = 0

    def ask(self, count: int) -> DesignBatch:
        """Return uniform designs until a population was scored, then children."""
        if self.told < POPULATION:
            return self.space.sample(count, self.rng)
        left, right = (self.parents.designs.take(self._tournament(count)) for _ in range(2))
        child = self.space.crossover(left, right, self.rng)
        return self.space.mutate(child, MUTATION, self.rng)

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Keep the best distinct designs among parents and children (equal scores: the least code)."""
        self.told += len(batch)
        self.parents.add(batch, scores)

    def _tournament(self, count: int) -> NDArray[np.int64]:
        """Return the winner of each tournament; parents are sorted, so the least position wins."""
        entrants = self.rng.integers(0, len(self.parents), size=(count, TOURNAMENT))
        return np.asarray(entrants.min(axis=1))
