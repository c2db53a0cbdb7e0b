"""Weighted paths through the diagrams of a feasible set: draw a design in proportion to weights, or find the cheapest.

A weight per code and column, or per arc, turns the uniform distribution of designs into any product distribution that
is conditioned on being feasible: one backward pass sums the weight of all completions of every node, one forward pass
draws. (Forward filtering, backward sampling of a hidden Markov model, along the layers of a decision diagram.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.feasibility.compile import Layer
from cosmic_opt.feasibility.feasible_set import FeasibleSet

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]
ArcValues = Sequence[FloatArray]
"""One array per layer, of shape [rows, arcs of the layer], or [1, arcs] when every row has the same."""

CELLS = 1 << 22
"""Rows are worked on together up to so many (row, arc) pairs: about a hundred megabytes."""


@dataclass(frozen=True)
class Paths:
    """The diagrams of a non-empty feasible set, one behind another: a path through all layers is a design."""

    feasible: FeasibleSet

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer; all but the first of a diagram start where the one before ended."""
        return tuple(layer for diagram in self.feasible.diagrams for layer in diagram.layers)

    @cached_property
    def starts(self) -> tuple[IntArray, ...]:
        """Per layer: the first arc of each node, and the number of arcs."""
        return tuple(np.searchsorted(layer.parent, np.arange(layer.parents + 1)) for layer in self.layers)

    @cached_property
    def arcs(self) -> int:
        """The arcs of all layers together."""
        return sum(len(layer.parent) for layer in self.layers)

    def per_code(self, values: Callable[[int], FloatArray]) -> list[FloatArray]:
        """Return values per arc from a function that gives a column's values per code, [rows or 1, codes]."""
        return [values(layer.column)[:, layer.code] for layer in self.layers]

    def rows_at_once(self) -> int:
        """Return how many rows with weights of their own are worked on together."""
        return max(1, CELLS // max(1, self.arcs))

    def draw(self, weights: ArcValues, count: int, rng: np.random.Generator) -> Codes:
        """Return `count` designs, each drawn in proportion to the product of the weights of its arcs.

        Returns codes of the design columns; a row whose weights leave no path is drawn among all arcs from there on.
        """
        below = self._backward(weights, np.multiply, np.add)
        picks = rng.random((len(self.layers), count))
        nodes = np.zeros(count, dtype=np.int64)
        codes = np.zeros((count, len(self.feasible.model.columns)), dtype=np.int32)
        for position, layer in enumerate(self.layers):
            arcs, inside = self._fan(position, nodes)
            share = np.where(inside, _at(weights[position], arcs) * _at(below[position + 1], layer.child[arcs]), 0.0)
            share = np.where(share.any(axis=1, keepdims=True), share, inside)
            total = np.cumsum(share, axis=1)
            chosen = (total <= picks[position, :, np.newaxis] * total[:, -1:]).sum(axis=1)
            last = share.shape[1] - 1 - (share[:, ::-1] > 0).argmax(axis=1)
            nodes = self._take(layer, codes, arcs, np.minimum(chosen, last))
        return codes[:, : self.feasible.model.designs]

    def cheapest(self, costs: ArcValues, count: int) -> Codes:
        """Return, for each row, the design with the least sum of costs (one of them, the least code by layer)."""
        below = self._backward(costs, np.add, np.minimum)
        nodes = np.zeros(count, dtype=np.int64)
        codes = np.zeros((count, len(self.feasible.model.columns)), dtype=np.int32)
        for position, layer in enumerate(self.layers):
            arcs, inside = self._fan(position, nodes)
            total = _at(costs[position], arcs) + _at(below[position + 1], layer.child[arcs])
            nodes = self._take(layer, codes, arcs, np.where(inside, total, np.inf).argmin(axis=1))
        return codes[:, : self.feasible.model.designs]

    def walk(self, wanted: Codes, rng: np.random.Generator) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the designs reached by taking the wanted code wherever an arc has it, and a random arc elsewhere.

        Args:
            wanted: Codes [rows, all columns of the lowered model].
            rng: Picks the other arcs.

        Returns:
            The designs, and which rows took the wanted code everywhere: exactly those are feasible as they were.
        """
        nodes = np.zeros(len(wanted), dtype=np.int64)
        codes = np.zeros_like(wanted)
        whole = np.ones(len(wanted), dtype=bool)
        for position, layer in enumerate(self.layers):
            arcs, inside = self._fan(position, nodes)
            match = inside & (layer.code[arcs] == wanted[:, layer.column, np.newaxis])
            found = match.any(axis=1)
            other = (rng.random(len(wanted)) * inside.sum(axis=1)).astype(np.int64)
            nodes = self._take(layer, codes, arcs, np.where(found, match.argmax(axis=1), other))
            whole &= found
        return codes[:, : self.feasible.model.designs], whole

    def arcs_of(self, full: Codes) -> list[IntArray]:
        """Return, per layer, the arc that each feasible row (all columns of the lowered model) takes."""
        nodes = np.zeros(len(full), dtype=np.int64)
        taken = []
        for position, layer in enumerate(self.layers):
            arcs, inside = self._fan(position, nodes)
            match = inside & (layer.code[arcs] == full[:, layer.column, np.newaxis])
            chosen = arcs[np.arange(len(full)), match.argmax(axis=1)]
            taken.append(chosen)
            nodes = layer.child[chosen]
        return taken

    def _fan(self, position: int, nodes: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return the arcs that leave each node, padded to the widest: [rows, widest], and which are no padding."""
        starts = self.starts[position]
        first, stop = starts[nodes], starts[nodes + 1]
        arcs = first[:, np.newaxis] + np.arange(max(1, int((stop - first).max(initial=1))))
        inside = arcs < stop[:, np.newaxis]
        return np.minimum(arcs, starts[-1] - 1), inside

    @staticmethod
    def _take(layer: Layer, codes: Codes, arcs: IntArray, chosen: IntArray) -> IntArray:
        """Enter the code of each row's chosen arc, and return the node that the arc leads to."""
        taken = arcs[np.arange(len(arcs)), chosen]
        codes[:, layer.column] = layer.code[taken]
        return layer.child[taken]

    def _backward(self, values: ArcValues, along: np.ufunc, over: np.ufunc) -> list[FloatArray]:
        """Return, per layer and node, the values of all completions: combined `along` a path, then `over` paths.

        Sums of products are divided by the largest of their layer, so that long paths stay in range.
        """
        neutral = 1.0 if along is np.multiply else 0.0
        below = [np.full((1, self.layers[-1].children), neutral)]
        for layer, starts, value in zip(self.layers[::-1], self.starts[::-1], list(values)[::-1], strict=True):
            total = along(value, below[0][:, layer.child])
            live = np.flatnonzero(starts[1:] > starts[:-1])
            found = np.full((len(total), layer.parents), 0.0 if over is np.add else np.inf)
            found[:, live] = over.reduceat(total, starts[live], axis=1)
            if over is np.add:
                found /= np.maximum(found.max(axis=1, keepdims=True), np.finfo(float).tiny)
            below.insert(0, found)
        return below


def _at(values: FloatArray, columns: IntArray) -> FloatArray:
    """Return `values[row, columns[row]]`; a single row of values stands for every row."""
    if len(values) == 1:
        return np.asarray(values[0][columns])
    return np.take_along_axis(values, columns, axis=1)
