"""What an agent sees: uniform samples, crossover and mutation that never leave the feasible set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.feasibility.feasible_set import FeasibleSet
from cosmic_opt.ir.check import complete
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class FeasibleSpace:
    """Moves over a feasible set. Components are independent, so any mix of components of designs is a design."""

    parameter_set: ParameterSet
    feasible: FeasibleSet

    @property
    def size(self) -> int:
        """The number of designs."""
        return self.feasible.size

    def sample(self, count: int, rng: np.random.Generator) -> DesignBatch:
        """Return uniform designs."""
        return self.parameter_set.batch(self.feasible.sample(count, rng))

    def crossover(self, left: DesignBatch, right: DesignBatch, rng: np.random.Generator) -> DesignBatch:
        """Return, for each pair, a child that takes every component from one of its parents, by a fair coin."""
        codes = left.codes.copy()
        for diagram in self.feasible.diagrams:
            columns = [column for column in diagram.order if column < self.feasible.model.designs]
            swap = rng.random(len(codes)) < 0.5
            rows = np.flatnonzero(swap)
            codes[np.ix_(rows, np.array(columns, dtype=int))] = right.codes[np.ix_(rows, np.array(columns, dtype=int))]
        return self.parameter_set.batch(codes)

    def mutate(self, batch: DesignBatch, rate: float, rng: np.random.Generator) -> DesignBatch:
        """Resample, in each component with probability `rate`, the choices after a random one."""
        full, _ = complete(self.feasible.model, batch.codes)
        for diagram in self.feasible.diagrams:
            if diagram.size == 1:
                continue
            hit = np.flatnonzero(rng.random(len(full)) < rate)
            starts = rng.integers(0, len(diagram.order), size=len(hit))
            for start in np.unique(starts):
                rows = hit[starts == start]
                columns = list(diagram.order)
                full[np.ix_(rows, columns)] = diagram.resample(full[np.ix_(rows, columns)], int(start), rng)
        return self.parameter_set.batch(full[:, : self.feasible.model.designs])
