"""The ant colony: pheromone on the arcs of the diagrams, evaporation, deposit by the elite."""

from __future__ import annotations

import numpy as np

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.archive import Archive
from cosmic_opt.search.agents.base import AGENTS, Scores
from cosmic_opt.search.feasible_space import FeasibleSpace

ANTS = 16
EVAPORATION = 0.5
"""As in COSMIC's experiments (PAPERS: ACO, 8 / 16 ants, evaporation 0.25 / 0.5 / 0.75)."""
ELITE = 4
LEAST_DEVIATIONS = 0.2
"""Columns of an ant that leave the trail even when it is deepest, on average per column with two codes."""


@AGENTS.register("ant_colony")
class AntColony:
    """Every ant is a path; it is drawn in proportion to the product of the pheromone on its arcs.

    An arc holds between a least amount and 1 (MAX-MIN ant system, Stützle and Hoos 2000). At first all hold 1: ants
    are uniform designs. Each colony evaporates a share, and the elite (the best designs so far) renew it, each its
    part. A node's pheromone is that of a partial design, not of a value alone.
    """

    ask_size = ANTS

    def __init__(self, space: FeasibleSpace, rng: np.random.Generator) -> None:
        self.space = space
        self.rng = rng
        self.elite = Archive(space, ELITE)
        layers = space.paths.layers
        fans = [np.bincount(layer.parent, minlength=layer.parents)[layer.parent] for layer in layers]
        self.least = LEAST_DEVIATIONS / np.concatenate(fans)
        self.pheromone = np.ones(space.paths.arcs)

    def ask(self, count: int) -> DesignBatch:
        """Return the paths of ants."""
        return self.space.draw(self.pheromone, count, self.rng)

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Evaporate and deposit, once per colony of ants; until a design counts there is no trail."""
        counts = np.isfinite(scores)
        self.elite.add(batch.take(counts), scores[counts])
        if not len(self.elite):
            return
        kept = (1 - EVAPORATION) ** (len(batch) / ANTS)
        self.pheromone *= kept
        np.add.at(self.pheromone, self.space.arcs_of(self.elite.designs), (1 - kept) / len(self.elite))
        self.pheromone = np.clip(self.pheromone, self.least, 1.0)
