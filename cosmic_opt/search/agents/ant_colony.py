"""The ant colony: pheromone on the arcs of the diagrams, evaporation, deposit by the elite."""

from __future__ import annotations

import numpy as np

from cosmic_opt.ir.check import complete
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.archive import Archive
from cosmic_opt.search.agents.base import AGENTS, Scores
from cosmic_opt.search.feasible_space import FeasibleSpace

ANTS = 16
EVAPORATION = 0.25
"""As in COSMIC's experiments (PAPERS: ACO, 8 / 16 ants, evaporation 0.25 / 0.5 / 0.75)."""
ELITE = 8
LEAST_DEVIATIONS = 0.1
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
        paths = space.paths
        fans = [np.bincount(layer.parent, minlength=layer.parents)[layer.parent] for layer in paths.layers]
        self.least = [LEAST_DEVIATIONS / fan for fan in fans]
        self.pheromone = [np.ones(len(layer.parent)) for layer in paths.layers]

    def ask(self, count: int) -> DesignBatch:
        """Return the paths of ants."""
        return self.space.draw([layer[np.newaxis] for layer in self.pheromone], count, self.rng)

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Evaporate and deposit, once per colony of ants; until a design counts there is no trail."""
        counts = np.isfinite(scores)
        self.elite.add(batch.take(counts), scores[counts])
        if not len(self.elite):
            return
        full, _ = complete(self.space.feasible.model, self.elite.designs.codes)
        kept = (1 - EVAPORATION) ** (len(batch) / ANTS)
        for layer, (taken, least) in enumerate(zip(self.space.paths.arcs_of(full), self.least, strict=True)):
            trail = self.pheromone[layer] * kept
            np.add.at(trail, taken, (1 - kept) / len(taken))
            self.pheromone[layer] = np.clip(trail, least, 1.0)
