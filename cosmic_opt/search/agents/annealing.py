"""Simulated annealing: chains that change one or a few columns at a time."""

from __future__ import annotations

import numpy as np

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents.base import AGENTS, Scores
from cosmic_opt.search.feasible_space import FeasibleSpace
from cosmic_opt.search.weighted_paths import Codes

CHAINS = 8
START = 64
"""Uniform designs at first; the chains go on from the best of them. Uniform designs differ by factors of a hundred."""
COLUMNS = 1.5
"""Columns a move changes, on average."""
HOT = 0.02
"""Temperature at the start: a design worse by 2 % is taken with probability 1/e."""
HALF_AFTER = 128
"""Evaluations after which the temperature is half of that; it goes on falling as 1 / evaluations."""
RENEWAL = 64
"""Evaluations between renewals: the worse half of the chains goes on from where the better half is."""


@AGENTS.register("annealing")
class Annealing:
    """Metropolis chains over the logarithm of the score, so that a temperature is a relative difference."""

    ask_size = CHAINS

    def __init__(self, space: FeasibleSpace, rng: np.random.Generator) -> None:
        self.space = space
        self.rng = rng
        self.at = space.sample(CHAINS, rng)
        self.level = np.full(CHAINS, np.inf)
        self.starting = True
        self.told = 0
        self.asked: DesignBatch | None = None
        self.asked_of = np.zeros(0, dtype=np.int64)

    def ask(self, count: int) -> DesignBatch:
        """Return uniform designs until the chains have a start, then moves of the chains, in turn."""
        if self.starting:
            self.asked = self.space.sample(count, self.rng)
        else:
            self.asked_of = (self.told + np.arange(count)) % CHAINS
            self.asked = self.space.move(self.at.take(self.asked_of), COLUMNS, self.rng)
        return self.asked

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Take better designs, and worse ones by chance, in the order they were asked for; see `_adopt` for others."""
        levels = np.where(np.isfinite(scores), np.log(np.maximum(scores, np.finfo(float).tiny)), np.inf)
        codes = self.at.codes.copy()
        own = batch is self.asked
        if own and not self.starting:
            self._step(codes, batch, levels)
        else:
            self._adopt(codes, batch, levels)
        if own and self.starting:
            self.told += len(batch)
            self._start(codes)
        self.at = self.space.parameter_set.batch(codes)

    def _start(self, codes: Codes) -> None:
        """Begin to move once enough was drawn and some design counts; a chain without one goes on from the best."""
        if self.told >= START and np.isfinite(self.level).any():
            self.starting = False
            without = ~np.isfinite(self.level)
            best = int(self.level.argmin())
            self.level[without], codes[without] = self.level[best], codes[best]

    def _step(self, codes: Codes, batch: DesignBatch, levels: Scores) -> None:
        dice = np.log(self.rng.random(len(batch)))
        for row, chain in enumerate(self.asked_of.tolist()):
            temperature = HOT / (1 + self.told / HALF_AFTER)
            self.told += 1
            if levels[row] < np.inf and levels[row] - self.level[chain] <= -temperature * dice[row]:
                self.level[chain], codes[chain] = levels[row], batch.codes[row]
            if self.told % RENEWAL == 0:
                order = np.argsort(self.level, kind="stable")
                better, worse = order[: CHAINS // 2], order[CHAINS // 2 :]
                self.level[worse], codes[worse] = self.level[better], codes[better]

    def _adopt(self, codes: Codes, batch: DesignBatch, levels: Scores) -> None:
        """Let the worst chains go on from designs that are better than where they are."""
        chains = np.argsort(-self.level, kind="stable")
        rows = np.argsort(levels, kind="stable")
        for chain, row in zip(chains, rows, strict=False):
            if levels[row] >= self.level[chain]:
                return
            self.level[chain], codes[chain] = levels[row], batch.codes[row]
