"""Certified limits of a count whose diagram is too wide: a narrow diagram of some designs, a coarse one of more.

Both keep at most a stated number of states per layer (Bergman, Cire, van Hoeve and Hooker, "Decision Diagrams for
Optimization", 2016, chapter 4: restricted and relaxed diagrams). The restricted one drops states, and with them
designs; the relaxed one forgets rules, and with them reasons to refuse a design.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.compile import CompileLimit, Field, Frontier, IntArray, Layer, distinct_rows
from cosmic_opt.feasibility.diagram import Diagram, counted
from cosmic_opt.ir.model import LoweredModel

WIDTH = 1 << 15
"""States per layer of both diagrams: under a second for forty columns of two values."""


class DiagramLimitError(LimitError):
    """A feasible set whose diagram outgrows memory at `column`; its size is certified to be in [`lower`, `upper`]."""

    def __init__(self, message: str, column: str, lower: int, upper: int) -> None:
        super().__init__(
            f"{message}; there are at least {lower:,} and at most {upper:,} designs",
            hint="fix a parameter, drop a rule, or try another engine: count --solver cp_sat",
        )
        self.column = column
        self.lower = lower
        self.upper = upper


def size_bounds(model: LoweredModel, order: Sequence[int], width: int = WIDTH) -> tuple[int, int]:
    """Return certified (lower, upper) counts of the component with columns `order`, from `width` states per layer.

    Raises:
        LimitError: a sum outgrows 62 bits.
    """
    return restricted(model, order, width).size, _drawn(_Relaxed(model, order, width)).size


def restricted(model: LoweredModel, order: Sequence[int], width: int) -> Diagram:
    """Return a diagram of some designs of the component with columns `order`, possibly none: `width` states per layer.

    Raises:
        LimitError: a sum outgrows 62 bits.
    """
    return _drawn(_Restricted(model, order, width))


def _drawn(frontier: Frontier) -> Diagram:
    return counted(frontier.model, frontier.order, [frontier.advance(at) for at in range(len(frontier.order))])


def _unlimited(model: LoweredModel, order: Sequence[int], width: int) -> CompileLimit:
    """Return a limit that `width` states per layer stay within."""
    widest = max(len(model.allowed[column]) for column in order)
    arcs = width * widest + 1
    return CompileLimit(arcs, arcs * 64 * (len(order) + 2) ** 2)


class _Restricted(Frontier):
    """Keeps the states that most choices lead to, and as many spread evenly over the others; the rest is left out."""

    def __init__(self, model: LoweredModel, order: Sequence[int], width: int) -> None:
        super().__init__(model, order, _unlimited(model, order, width))
        self.width = width
        self.paths: NDArray[np.float64] = np.ones(1)

    def close(self, position: int, parent: IntArray, code: NDArray[np.int32], known: dict[Field, IntArray]) -> Layer:
        layer = super().close(position, parent, code, known)
        paths = np.bincount(layer.child, weights=self.paths[layer.parent], minlength=layer.children)
        self.paths = paths / paths.max(initial=1.0)
        if layer.children <= self.width:
            return layer
        kept = self._choose()
        number = np.full(layer.children, -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        self.states, self.paths = self.states[kept], self.paths[kept]
        inside = number[layer.child] >= 0
        child = number[layer.child[inside]]
        return Layer(layer.column, layer.parent[inside], layer.code[inside], child, layer.parents, len(kept))

    def _choose(self) -> IntArray:
        """Return the states to keep, in order."""
        by_paths = np.argsort(-self.paths, kind="stable")
        heavy, others = by_paths[: (self.width + 1) // 2], np.sort(by_paths[(self.width + 1) // 2 :])
        wanted = self.width - len(heavy)
        spread = others[np.arange(wanted) * len(others) // max(1, wanted)]
        return np.sort(np.concatenate([heavy, spread])).astype(np.int64)


class _Relaxed(Frontier):
    """Forgets, where a layer is too wide, the rule that tells most states apart, until it is not."""

    def __init__(self, model: LoweredModel, order: Sequence[int], width: int) -> None:
        super().__init__(model, order, _unlimited(model, order, width))
        self.width = width

    def close(self, position: int, parent: IntArray, code: NDArray[np.int32], known: dict[Field, IntArray]) -> Layer:
        nodes = len(self.states)
        while True:
            layer = super().close(position, parent, code, known)
            if layer.children <= self.width:
                return Layer(layer.column, parent, code, layer.child, nodes, layer.children)
            self.forgotten.add(max(self._open(position), key=self._told_apart))

    def _open(self, position: int) -> list[int]:
        """Return the constraints that read one of the fields kept."""
        return [k for k, last in enumerate(self.last) if last > position and k not in self.forgotten and self._own(k)]

    def _own(self, k: int) -> list[int]:
        """Return the positions of the fields that constraint k reads."""
        constraint = self.constraints[k]
        return [
            at
            for at, (kind, number) in enumerate(self.fields)
            if (number == k if kind == "total" else self.reads_code(constraint, number))
        ]

    def _told_apart(self, k: int) -> int:
        """Return how many states there would be by what constraint k reads alone."""
        states, _ = distinct_rows(self.states[:, self._own(k)])
        return len(states)
