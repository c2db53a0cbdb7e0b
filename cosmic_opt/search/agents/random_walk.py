"""The random agent: uniform, independent designs (COSMIC's "random walk" draws every action anew)."""

from __future__ import annotations

import numpy as np

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.base import AGENTS, Scores
from cosmic_opt.search.feasible_space import FeasibleSpace


@AGENTS.register("random")
class RandomAgent:
    """Draws every design uniformly from its space."""

    ask_size = 256

    def __init__(self, space: FeasibleSpace, rng: np.random.Generator) -> None:
        self.space = space
        self.rng = rng

    def ask(self, count: int) -> DesignBatch:
        """Return uniform designs."""
        return self.space.sample(count, self.rng)

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """A memoryless agent learns nothing."""
