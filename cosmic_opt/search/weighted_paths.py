"""Weighted paths through the diagrams of a feasible set: draw a design in proportion to weights, or find the cheapest.

A weight per code, or per arc, turns the uniform distribution of designs into any product distribution that is
conditioned on being feasible: one backward pass sums the weight of all completions of every node, one forward pass
draws. (Forward filtering, backward sampling of a hidden Markov model, along the layers of a decision diagram.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.feasibility.compile import Layer
from cosmic_opt.feasibility.feasible_set import FeasibleSet
from cosmic_opt.search.kernel import paths as kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Paths:
    """The diagrams of a non-empty feasible set, one behind another: a path through all layers is a design.

    A slot is a column with a code; the slots of a column are neighbours, those of all columns are numbered through.
    """

    feasible: FeasibleSet

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer; a diagram starts where the one before it ended."""
        return tuple(layer for diagram in self.feasible.diagrams for layer in diagram.layers)

    @cached_property
    def columns(self) -> IntArray:
        """The column that each layer chooses."""
        return np.array([layer.column for layer in self.layers], dtype=np.int64)

    @cached_property
    def code_of(self) -> Codes:
        """The code that each arc gives to its layer's column."""
        return np.concatenate([layer.code for layer in self.layers])

    @cached_property
    def first_slot(self) -> IntArray:
        """The slot of code 0 of each column, and the number of slots."""
        return np.cumsum([0, *(column.size for column in self.feasible.model.columns)])

    @cached_property
    def slot_columns(self) -> IntArray:
        """The column of each slot."""
        return np.repeat(np.arange(len(self.first_slot) - 1), np.diff(self.first_slot))

    @cached_property
    def slot_codes(self) -> IntArray:
        """The code of each slot."""
        return np.arange(self.first_slot[-1]) - self.first_slot[self.slot_columns]

    @cached_property
    def network(self) -> kernel.Network:
        """What the compiled search is given; values are per slot."""
        first = np.cumsum([0, *(layer.parents for layer in self.layers)])
        degrees = [np.bincount(layer.parent, minlength=layer.parents) for layer in self.layers]
        assert all(diagram.layers[-1].children == 1 for diagram in self.feasible.diagrams), "a diagram has one end"
        return kernel.Network(
            first,
            np.cumsum(np.concatenate([[0], *degrees, [0]])),
            np.concatenate([layer.child + first[at + 1] for at, layer in enumerate(self.layers)]),
            np.concatenate([layer.code + self.first_slot[layer.column] for layer in self.layers]).astype(np.int64),
        )

    @cached_property
    def by_arc(self) -> kernel.Network:
        """The same network; values are per arc."""
        return self.network._replace(slot=np.arange(self.arcs))

    @property
    def arcs(self) -> int:
        """The arcs of all layers together."""
        return len(self.code_of)

    def draw(self, weights: FloatArray, rng: np.random.Generator) -> Codes:
        """Return one design per row of weights [rows, slots], in proportion to the product of its codes' weights."""
        taken = self._taken(len(weights))
        kernel.draw(self.network, weights, rng.random(taken.shape), taken)
        return self.designs(taken)

    def draw_by_arc(self, weights: FloatArray, count: int, rng: np.random.Generator) -> Codes:
        """Return `count` designs, each in proportion to the product of the weights [arcs] of its arcs."""
        taken = self._taken(count)
        kernel.draw(self.by_arc, weights.reshape(1, -1), rng.random(taken.shape), taken)
        return self.designs(taken)

    def cheapest(self, costs: FloatArray) -> Codes:
        """Return, for each row of costs [rows, slots], a design with the least sum of costs."""
        taken = self._taken(len(costs))
        kernel.cheapest(self.network, costs, taken)
        return self.designs(taken)

    def walk(self, full: Codes, rng: np.random.Generator) -> IntArray:
        """Return the arcs [rows, layers] of paths that take each row's code wherever an arc has it, else a random arc.

        `full` are codes of all columns of the lowered model. Exactly the members come back as they are.
        """
        taken = self._taken(len(full))
        wanted = full[:, self.columns] + self.first_slot[self.columns]
        kernel.walk(self.network, wanted, rng.random(taken.shape), taken)
        return taken

    def designs(self, taken: IntArray) -> Codes:
        """Return the design columns' codes of paths given by their arcs."""
        codes = np.zeros((len(taken), len(self.feasible.model.columns)), dtype=np.int32)
        codes[:, self.columns] = self.code_of[taken]
        return codes[:, : self.feasible.model.designs]

    def _taken(self, rows: int) -> IntArray:
        return np.zeros((rows, len(self.layers)), dtype=np.int64)
