"""What an agent sees: draws, moves and repairs that never leave a set of designs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.search.weighted_paths import Codes, FloatArray, Paths

WIDE = 1 << 20
"""Of diagrams with more arcs, a move follows one path in place of a pass over every arc (milliseconds a design)."""
UNCHANGED_TRIES = 6


@dataclass(frozen=True)
class FeasibleSpace:
    """Draws and moves over a non-empty set of designs; `feasible` are those of `parameter_set`, or a part of them."""

    parameter_set: ParameterSet
    feasible: FeasibleSet

    @property
    def size(self) -> int:
        """The number of designs."""
        return self.feasible.size

    @cached_property
    def paths(self) -> Paths:
        """The designs as paths."""
        return Paths(self.feasible)

    @cached_property
    def open_columns(self) -> tuple[int, ...]:
        """The columns in which designs may differ."""
        codes = {layer.column: len(np.unique(layer.code)) for layer in self.paths.layers}
        return tuple(sorted(column for column, size in codes.items() if size > 1 and column < self._designs))

    @property
    def _designs(self) -> int:
        return self.feasible.model.designs

    def sample(self, count: int, rng: np.random.Generator) -> DesignBatch:
        """Return uniform designs."""
        return self.parameter_set.batch(self.feasible.sample(count, rng))

    def contains(self, batch: DesignBatch) -> NDArray[np.bool_]:
        """Return which designs belong to the set."""
        full, covered = complete(self.feasible.model, batch.codes)
        reached = self.paths.designs(self.paths.walk(full, np.random.default_rng(0)))
        return np.asarray(covered & (reached == batch.codes).all(axis=1))

    def arcs_of(self, batch: DesignBatch) -> NDArray[np.int64]:
        """Return the arcs [designs, layers] of members."""
        full, _ = complete(self.feasible.model, batch.codes)
        return self.paths.walk(full, np.random.default_rng(0))

    def draw(self, weights: FloatArray, count: int, rng: np.random.Generator) -> DesignBatch:
        """Return designs drawn in proportion to the product of the weights [arcs] of their arcs."""
        return self.parameter_set.batch(self.paths.draw_by_arc(weights, count, rng))

    def crossover(self, left: DesignBatch, right: DesignBatch, rng: np.random.Generator) -> DesignBatch:
        """Return, for each pair, a child that takes every column from one of its parents, by a fair coin.

        A child that breaks a rule is replaced by the design nearest to it.
        """
        return self.nearest(np.where(rng.random(left.codes.shape) < 0.5, left.codes, right.codes), rng)

    def nearest(self, codes: Codes, rng: np.random.Generator) -> DesignBatch:
        """Return, for each row, a design that differs from it in the fewest columns; members stay as they are.

        Among equally near ones the choice is random. The distance is exact (a shortest path), except where the
        diagrams are too wide for a pass over every arc: then the codes are taken over as far as they lead.
        """
        full, _ = complete(self.feasible.model, codes)
        result = self.paths.designs(self.paths.walk(full, rng))
        broken = np.flatnonzero((result != codes).any(axis=1))
        if self.paths.arcs <= WIDE and len(broken):
            result[broken] = self._shortest(codes[broken], rng)
        return self.parameter_set.batch(result)

    def _shortest(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Return a nearest design of each row: a column costs 1 where it differs; noise below 1 in all settles ties."""
        differs = self._differs(codes)
        return self.paths.cheapest(differs + rng.random(differs.shape) / (1 + len(self.paths.layers)))

    def _differs(self, codes: Codes) -> NDArray[np.bool_]:
        """Return whether each slot [rows, slots] has another code than the row; a helper column never has."""
        columns, slot_codes = self.paths.slot_columns, self.paths.slot_codes
        own = columns < self._designs
        differs = np.zeros((len(codes), len(columns)), dtype=bool)
        differs[:, own] = codes[:, columns[own]] != slot_codes[own]
        return differs

    def mutate(self, batch: DesignBatch, rate: float, rng: np.random.Generator) -> DesignBatch:
        """Return designs of which each open column changes with probability `rate`, given that the result is a member.

        Exactly: the distribution of independent changes (to any other code alike), conditioned on the set.
        """
        return self._change(batch, np.full(len(batch), rate), rng)

    def move(self, batch: DesignBatch, columns: float, rng: np.random.Generator) -> DesignBatch:
        """Return mutants in which about so many columns change, at least one wherever chance allows it.

        Rows that come back as they were are drawn again with twice the rate, a few times: parameters that a rule ties
        together only change together.
        """
        rate = np.full(len(batch), min(0.5, columns / max(1, len(self.open_columns))))
        codes = batch.codes.copy()
        rows = np.arange(len(batch))
        for _ in range(UNCHANGED_TRIES):
            codes[rows] = self._change(batch.take(rows), rate[rows], rng).codes
            rows = rows[(codes[rows] == batch.codes[rows]).all(axis=1)]
            rate = np.minimum(0.9, 2 * rate)
            if not len(rows):
                break
        return self.parameter_set.batch(codes)

    def _change(self, batch: DesignBatch, rate: FloatArray, rng: np.random.Generator) -> DesignBatch:
        if self.paths.arcs > WIDE:
            return self._change_and_walk(batch, rate, rng)
        differs = self._differs(batch.codes)
        others = np.maximum(1, np.diff(self.paths.first_slot) - 1)[self.paths.slot_columns]
        change = rate[:, np.newaxis]
        weights = np.where(differs, change / others, 1 - change)
        weights[:, self.paths.slot_columns >= self._designs] = 1.0
        return self.parameter_set.batch(self.paths.draw(weights, rng))

    def _change_and_walk(self, batch: DesignBatch, rate: FloatArray, rng: np.random.Generator) -> DesignBatch:
        """Change columns independently, and take the result over as far as it leads."""
        wanted = batch.codes.copy()
        for column in self.open_columns:
            hit = np.flatnonzero(rng.random(len(wanted)) < rate)
            wanted[hit, column] = rng.integers(0, self.feasible.model.columns[column].size, size=len(hit))
        full, _ = complete(self.feasible.model, wanted)
        return self.parameter_set.batch(self.paths.designs(self.paths.walk(full, rng)))


def raw_grid(parameter_set: ParameterSet) -> FeasibleSpace:
    """Return the space of every combination of values: what agents search that know no rule, as in the paper."""
    unruled = replace(parameter_set, constraints=())
    return FeasibleSpace(parameter_set, feasible_set(lower(unruled)))
