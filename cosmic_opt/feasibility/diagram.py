"""Layered decision diagrams: exact counts, the design of a rank, uniform samples, prefixes with their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.compile import CompileLimit, Layer, compile_layers, distinct_rows
from cosmic_opt.ir.model import LoweredModel

TABLE_LIMIT = 1 << 18
"""A component with at most so many paths is tabulated when designs are asked for."""

PROJECTION_LIMIT = 5_000_000
"""A projection that meets more (node, choice) pairs is refused: about a gigabyte."""

Counts = NDArray[Any]
"""Counts per node: int64 where every number met fits in 62 bits, Python integers otherwise."""


@dataclass(frozen=True)
class Diagram:
    """One component. `layers[i]` chooses `order[i]`; `counts[i][n]` completions start at node n of layer i."""

    order: tuple[int, ...]
    layers: tuple[Layer, ...]
    counts: tuple[Counts, ...]

    @property
    def size(self) -> int:
        """The number of paths."""
        return int(self.counts[0][0]) if len(self.counts[0]) else 0

    @property
    def width(self) -> int:
        """The largest number of nodes of a layer that some path meets."""
        return max(int(np.count_nonzero(counts)) for counts in self.counts)

    @property
    def nodes(self) -> int:
        """The number of nodes that some path meets, the end included."""
        return sum(int(np.count_nonzero(counts)) for counts in self.counts)

    @property
    def arcs(self) -> int:
        """The number of arcs that some path takes."""
        return sum(len(layer.parent) for layer in self.layers)

    @cached_property
    def _walked(self) -> tuple[Counts, ...]:
        """The counts as paths are looked up in them: machine integers wherever those hold the sums met on the way.

        `counts` are Python integers wherever the grid alone does not show that machine integers do; looking a rank up
        among those takes ten times as long.
        """
        sums = (int(self.counts[at + 1][layer.child].sum()) for at, layer in enumerate(self.layers))
        fits = max(sums, default=0) < 2**62
        return tuple(counts.astype(np.int64) for counts in self.counts) if fits else self.counts

    @cached_property
    def table(self) -> NDArray[np.int32] | None:
        """Every path in order of rank, [size, len(order)]; None where that would be large."""
        if self.size > TABLE_LIMIT:
            return None
        return self._unrank(np.arange(self.size).astype(self.counts[0].dtype))

    def unrank(self, ranks: Counts) -> NDArray[np.int32]:
        """Return the codes (one column per entry of `order`) of the paths with the given ranks, lexicographic."""
        if self.table is not None:
            return self.table[ranks.astype(np.int64)]
        return self._unrank(ranks)

    def _unrank(self, ranks: Counts) -> NDArray[np.int32]:
        codes = np.zeros((len(ranks), len(self.order)), dtype=np.int32)
        nodes = np.zeros(len(ranks), dtype=np.int64)
        self._descend(codes, nodes, ranks, 0)
        return codes

    def rank(self, codes: NDArray[np.int32]) -> Counts:
        """Return the rank of each path (codes in the order of `order`); the inverse of `unrank`.

        Raises:
            KeyError: a row is no path of the diagram; the argument is its position.
        """
        ranks = np.zeros(len(codes), dtype=self.counts[0].dtype)
        nodes = np.zeros(len(codes), dtype=np.int64)
        for position, layer in enumerate(self.layers):
            arcs = self._arcs(layer, nodes, codes[:, position])
            below = self.counts[position + 1][layer.child]
            before = np.cumsum(below) - below
            ranks = ranks + before[arcs] - before[np.searchsorted(layer.parent, nodes)]
            nodes = layer.child[arcs]
        return ranks

    def restrict(self, allowed: Mapping[int, NDArray[np.integer]]) -> Diagram:
        """Return the diagram of the paths whose code of each given column is among those allowed."""
        kept = []
        for layer in self.layers:
            keep = np.isin(layer.code, allowed[layer.column]) if layer.column in allowed else None
            kept.append(layer if keep is None else layer.take(keep))
        return with_counts(self.order, kept, self.counts[0].dtype)

    def resample(self, codes: NDArray[np.int32], start: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return paths that agree with `codes` before layer `start` and are uniform from there on."""
        result = codes.copy()
        nodes = self._follow(codes, start)
        ranks = random_below(self.counts[start][nodes], rng)
        self._descend(result, nodes, ranks, start)
        return result

    def _follow(self, codes: NDArray[np.int32], stop: int) -> NDArray[np.int64]:
        """Return the node that each path reaches before layer `stop`."""
        nodes = np.zeros(len(codes), dtype=np.int64)
        for position, layer in enumerate(self.layers[:stop]):
            nodes = layer.child[self._arcs(layer, nodes, codes[:, position])]
        return nodes

    @staticmethod
    def _arcs(layer: Layer, nodes: NDArray[np.int64], codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the arc that leaves each node with each code."""
        stride = int(max(layer.code.max(initial=0), codes.max(initial=0))) + 1
        keys = layer.parent * stride + layer.code
        wanted = nodes * stride + codes
        arcs = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        missing = np.flatnonzero(keys[arcs] != wanted) if len(keys) else np.arange(len(codes))
        if len(missing):
            raise KeyError(int(missing[0]))
        return arcs

    def _descend(self, codes: NDArray[np.int32], nodes: NDArray[np.int64], ranks: Counts, start: int) -> None:
        """Fill `codes` from layer `start` on with the path of each rank below each node."""
        ranks = ranks.astype(self._walked[0].dtype)
        for position in range(start, len(self.layers)):
            layer = self.layers[position]
            below = self._walked[position + 1][layer.child]
            after = np.cumsum(below)
            before = after - below
            base = before[np.searchsorted(layer.parent, nodes)]
            target = base + ranks
            arcs = np.searchsorted(after, target, side="right")
            codes[:, position] = layer.code[arcs]
            ranks = target - before[arcs]
            nodes = layer.child[arcs]

    def prefixes(self, depth: int) -> tuple[NDArray[np.int32], Counts]:
        """Return every feasible choice of the first `depth` columns, and the number of completions of each."""
        roots = min(1, self.size)
        codes = np.zeros((roots, 0), dtype=np.int32)
        nodes = np.zeros(roots, dtype=np.int64)
        for layer in self.layers[:depth]:
            rows, arcs = layer.fan_out(nodes)
            codes = np.column_stack([codes[rows], layer.code[arcs]]).astype(np.int32)
            nodes = layer.child[arcs]
        return codes, self.counts[depth][nodes]

    def project(self, columns: Sequence[int]) -> tuple[NDArray[np.int32], Counts]:
        """Return every feasible choice of some columns, sorted by code in the order given, and its number of paths.

        The columns may stand anywhere in the order; a choice is followed through all nodes that it meets.

        Raises:
            LimitError: more than `PROJECTION_LIMIT` pairs of a node and a choice.
        """
        choices, nodes, paths = self._project(columns, PROJECTION_LIMIT)
        if len(nodes) > PROJECTION_LIMIT:
            raise LimitError(
                f"more than {PROJECTION_LIMIT:,} regions, or the columns stand too deep in the diagram",
                hint="name fewer columns, or make the feasible set with `first=columns`",
            )
        depth = 1 + max((self.order.index(column) for column in columns), default=-1)
        regions, number = distinct_rows(choices)
        sizes: Counts = np.zeros(len(regions), dtype=self.counts[0].dtype)
        np.add.at(sizes, number, paths * self.counts[depth][nodes])
        return regions.astype(np.int32), sizes

    def choices_up_to(self, columns: Sequence[int], most: int) -> int:
        """Return how many feasible choices the first design columns have, or a number beyond `most`."""
        return len(self._project(columns, most)[1])

    def _project(self, columns: Sequence[int], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Counts]:
        """Return choices of the columns, the node reached behind the last of them, and the paths that lead there.

        Stops as soon as there are more than `most`.
        """
        depth = 1 + max((self.order.index(column) for column in columns), default=-1)
        roots = min(1, self.size)
        choices = np.zeros((roots, len(columns)), dtype=np.int64)
        nodes = np.zeros(roots, dtype=np.int64)
        paths: Counts = np.ones(roots, dtype=self.counts[0].dtype)
        for layer in self.layers[:depth]:
            rows, arcs = layer.fan_out(nodes)
            choices = choices[rows]
            if layer.column in columns:
                choices[:, columns.index(layer.column)] = layer.code[arcs]
            states, number = distinct_rows(np.column_stack([choices, layer.child[arcs]]))
            merged: Counts = np.zeros(len(states), dtype=paths.dtype)
            np.add.at(merged, number, paths[rows])
            choices, nodes, paths = states[:, :-1], states[:, -1], merged
            if len(nodes) > most:
                break
        return choices, nodes, paths


def build_diagram(model: LoweredModel, order: Sequence[int], limit: CompileLimit | None = None) -> Diagram:
    """Return the diagram of the component with columns `order`; dead ends are removed.

    Raises:
        TooWideError, LimitError: see `compile_layers`.
    """
    return counted(model, order, compile_layers(model, order, limit))


def counted(model: LoweredModel, order: Sequence[int], layers: Sequence[Layer]) -> Diagram:
    """Return the diagram of compiled layers; its numbers are Python integers where 62 bits may not hold them."""
    grid = 1.0
    for column in order:
        grid *= max(1, len(model.allowed[column]))
    widest = max((len(layer.parent) for layer in layers), default=1)
    dtype: type = np.int64 if grid * max(1, widest) < 2.0**62 else object
    return with_counts(order, layers, dtype)


def with_counts(order: Sequence[int], layers: Sequence[Layer], dtype: Any) -> Diagram:
    """Return the diagram of layers with the completions of every node counted, and dead ends removed."""
    counts: list[Counts] = [np.ones(layers[-1].children, dtype=dtype)]
    kept: list[Layer] = []
    for layer in reversed(layers):
        below = counts[0][layer.child]
        alive = np.asarray(below > 0, dtype=np.bool_)
        trimmed = layer.take(alive)
        total: Counts = np.zeros(layer.parents, dtype=dtype)
        np.add.at(total, trimmed.parent, below[alive])
        counts.insert(0, total)
        kept.insert(0, trimmed)
    return Diagram(tuple(order), tuple(kept), tuple(counts))


def random_below(limits: Counts, rng: np.random.Generator) -> Counts:
    """Return, for each limit, a uniform integer in [0, limit)."""
    if limits.dtype != object:
        return rng.integers(0, limits, dtype=np.int64)
    return np.array([_random_int(int(limit), rng) for limit in limits], dtype=object)


def _random_int(limit: int, rng: np.random.Generator) -> int:
    """Return a uniform integer in [0, limit) by rejection on whole words."""
    bits = max(1, (limit - 1).bit_length())
    words = -(-bits // 32)
    while True:
        value = 0
        for word in rng.integers(0, 2**32, size=words, dtype=np.int64):
            value = (value << 32) | int(word)
        value >>= 32 * words - bits
        if value < limit:
            return value
