"""The feasible set of a lowered model: a product of independent diagrams."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.feasibility.bounds import WIDTH, DiagramLimitError, restricted, size_bounds
from cosmic_opt.feasibility.compile import CompileLimit, TooWideError
from cosmic_opt.feasibility.cover import Region, cover_by, cover_within
from cosmic_opt.feasibility.diagram import Diagram, build_diagram, random_below
from cosmic_opt.feasibility.order import elimination_order
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.passes.split import components

CHUNK = 1 << 16
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class DiagramShape:
    """How large a diagram is: nodes and arcs that some design meets, and the most nodes of a layer."""

    nodes: int
    arcs: int
    width: int


@dataclass(frozen=True)
class ComponentCount:
    """An independent group of parameters and the number of ways to choose them."""

    parameters: tuple[str, ...]
    value: int
    shape: DiagramShape


@dataclass(frozen=True)
class FeasibleSet:
    """Every feasible design, as the product of the diagrams of independent components."""

    model: LoweredModel
    diagrams: tuple[Diagram, ...]

    @property
    def size(self) -> int:
        """The exact number of feasible designs."""
        return math.prod(diagram.size for diagram in self.diagrams)

    def component_counts(self) -> list[ComponentCount]:
        """Return the parameters of each component with more than one column value, and its exact count."""
        counts = []
        for diagram in self.diagrams:
            names = [self.model.columns[c].name for c in sorted(diagram.order) if c < self.model.designs]
            if names:
                counts.append(ComponentCount(tuple(names), diagram.size, shape_of([diagram])))
        return counts

    @property
    def shape(self) -> DiagramShape:
        """The size of all diagrams together, and the width of the widest."""
        return shape_of(self.diagrams)

    def cover(self, columns: Sequence[int] | None = None, *, max_regions: int | None = None) -> Iterator[Region]:
        """Yield disjoint regions whose union is the set; their sizes add up to `size`, and none is empty.

        Either by every feasible choice of `columns` (sorted by code within a component; of the components, the last
        changes first), or cut along the ranks into at most `max_regions`: the region then fixes the first columns of
        the diagrams, and holds the ranks right after those of the region before. `given` opens a region.

        Raises:
            SpecError: neither or both are given, or a column is named twice.
            LimitError: a component holds millions of choices of its columns.
        """
        if (columns is None) == (max_regions is None):
            raise SpecError("a cover is by columns or by a number of regions", hint="give one of the two")
        if columns is not None and (
            len(set(columns)) < len(columns) or not set(columns) <= set(range(self.model.designs))
        ):
            raise SpecError(
                "a column is named twice or does not exist", hint=f"columns are 0 to {self.model.designs - 1}"
            )
        if max_regions is not None and max_regions < 1:
            raise SpecError(f"{max_regions} regions cover nothing", hint="at least 1")
        if self.size == 0:
            return iter(())
        if columns is None:
            return cover_within(self.diagrams, self.model.designs, max_regions or 1)
        return cover_by(self.diagrams, columns)

    def unrank(self, ranks: Sequence[int] | NDArray[np.generic]) -> Codes:
        """Return the designs with the given ranks: the last component varies fastest.

        Raises:
            SpecError: a rank is no whole number in [0, size).
        """
        rest = _ranks_within(ranks, self.size)
        codes = np.zeros((len(rest), len(self.model.columns)), dtype=np.int32)
        for diagram in reversed(self.diagrams):
            digit, rest = rest % diagram.size, rest // diagram.size
            wanted = digit.astype(diagram.counts[0].dtype)
            codes[:, list(diagram.order)] = diagram.unrank(wanted)
        return codes[:, : self.model.designs]

    def rank(self, designs: Codes) -> list[int]:
        """Return the rank of each design; the inverse of `unrank`.

        Raises:
            KeyError: a design is not feasible; the argument is its position.
        """
        codes, covered = complete(self.model, designs)
        covered &= self.size > 0
        if not covered.all():
            raise KeyError(int(np.flatnonzero(~covered)[0]))
        ranks: NDArray[np.object_] = np.zeros(len(codes), dtype=object)
        for diagram in self.diagrams:
            ranks = ranks * diagram.size + diagram.rank(codes[:, list(diagram.order)]).astype(object)
        return [int(rank) for rank in ranks]

    def given(self, allowed: Mapping[int, Collection[int]]) -> FeasibleSet:
        """Return the feasible designs whose code of each given column is among those allowed.

        Its size is the conditional count, its samples are conditional samples; nothing is compiled again.
        """
        codes = {column: np.array(sorted(values), dtype=np.int32) for column, values in allowed.items()}
        diagrams = [
            diagram.restrict(codes) if codes.keys() & set(diagram.order) else diagram for diagram in self.diagrams
        ]
        return FeasibleSet(self.model, tuple(diagrams))

    def sample(self, count: int, rng: np.random.Generator) -> Codes:
        """Return `count` independent, uniform designs."""
        if self.size == 0:
            return np.zeros((0, self.model.designs), dtype=np.int32)
        codes = np.zeros((count, len(self.model.columns)), dtype=np.int32)
        for diagram in self.diagrams:
            ranks = random_below(np.repeat(diagram.counts[0][:1], count), rng)
            codes[:, list(diagram.order)] = diagram.unrank(ranks)
        return codes[:, : self.model.designs]

    def sample_distinct(self, count: int, rng: np.random.Generator) -> Codes:
        """Return up to `count` different designs, a uniform subset in random order."""
        if 2 * count >= self.size:
            return self.unrank(rng.permutation(self.size)[:count])
        chosen: dict[int, None] = {}
        limit = np.array([self.size], dtype=object if self.size >= 2**62 else np.int64)
        while len(chosen) < count:
            for rank in random_below(np.repeat(limit, count - len(chosen)), rng):
                chosen.setdefault(int(rank))
        return self.unrank(np.array(list(chosen), dtype=limit.dtype))

    def span(self, start: int, stop: int) -> Codes:
        """Return the designs of ranks start, start + 1, …, stop - 1, column by column (Fortran order)."""
        count = stop - start
        codes = np.zeros((count, len(self.model.columns)), dtype=np.int32, order="F")
        period = 1
        for diagram in reversed(self.diagrams):
            digits = _digits(start, count, period, diagram.size)
            paths = diagram.unrank(digits.astype(diagram.counts[0].dtype)) if diagram.table is None else diagram.table
            for at, column in enumerate(diagram.order):
                codes[:, column] = paths[:, at] if diagram.table is None else paths[:, at][digits]
            period *= diagram.size
        return codes[:, : self.model.designs]

    def chunks(self, start: int = 0, chunk: int = CHUNK) -> Iterator[Codes]:
        """Yield every design from rank `start` on, in rank order."""
        while start < self.size:
            stop = min(self.size, start + chunk)
            yield self.span(start, stop)
            start = stop

    def everything(self, limit: int) -> Codes:
        """Return all designs, sorted by code.

        Raises:
            LimitError: there are more than `limit`.
        """
        if self.size > limit:
            raise LimitError(f"{self.size:,} designs, more than the limit of {limit:,}")
        parts = list(self.chunks())
        codes = np.concatenate(parts) if parts else np.zeros((0, self.model.designs), dtype=np.int32)
        return codes[np.lexsort(codes.T[::-1])]


def _ranks_within(ranks: Sequence[int] | NDArray[np.generic], size: int) -> NDArray[np.generic]:
    """Return ranks, shape [n], as an array that holds numbers up to `size`.

    Raises:
        SpecError: one of them is no whole number in [0, size).
    """
    given = ranks if isinstance(ranks, np.ndarray) else np.array(ranks, dtype=object)  # no detour by floats
    hint = f"give a list of ranks from 0 to {size - 1}" if size else "the set is empty"
    whole = given.dtype.kind in "iu" or all(type(rank) is int or isinstance(rank, np.integer) for rank in given.flat)
    if given.ndim != 1 or not whole:
        raise SpecError("a rank is a whole number", hint=hint)
    if given.size and (int(given.min()) < 0 or int(given.max()) >= size):
        wrong = int(given.min()) if int(given.min()) < 0 else int(given.max())
        raise SpecError(f"there is no design of rank {wrong}", hint=hint)
    return given.astype(object if size >= 2**62 else np.int64)


def _digits(start: int, count: int, period: int, size: int) -> NDArray[np.generic]:
    """Return the digit of base `size` that changes every `period` ranks, for `count` ranks from `start` on."""
    first, offset = divmod(start, period)
    if offset + count <= period:
        return np.full(count, first % size, dtype=np.int64 if size < 2**62 else object)
    if size >= 2**62:
        return np.array([(start + step) // period % size for step in range(count)], dtype=object)
    turns = (np.arange(count) + offset % period) // period  # offset + count > period: both fit in 62 bits
    return np.asarray((turns + first % size) % size)


def shape_of(diagrams: Sequence[Diagram]) -> DiagramShape:
    """Return the size of diagrams together, and the width of the widest."""
    return DiagramShape(
        sum(diagram.nodes for diagram in diagrams),
        sum(diagram.arcs for diagram in diagrams),
        max((diagram.width for diagram in diagrams), default=0),
    )


def feasible_set(
    model: LoweredModel,
    first: Collection[int] = (),
    limit: CompileLimit | None = None,
    width: int = WIDTH,
    known: Sequence[Diagram] = (),
) -> FeasibleSet:
    """Return the feasible set; columns in `first` are eliminated before the others of their component.

    Of diagrams of the same model that are `known`, those with the order that comes out are not built again.

    Raises:
        DiagramLimitError: a component is too entangled for its diagram to stay within `limit`; the error holds
            certified bounds of the number of designs, from diagrams of `width` states per layer.
        LimitError: a rule adds numbers beyond 2^62.
    """
    if model.infeasible:
        empty = [np.zeros(1, dtype=np.int64)]
        diagram = Diagram((), (), tuple(empty))
        return FeasibleSet(model, (diagram,))
    diagrams: list[Diagram] = []
    built = {diagram.order: diagram for diagram in known}
    outgrown: TooWideError | None = None
    lower = upper = 1
    for part in components(model):
        order = elimination_order(model, part, first)
        try:
            diagrams.append(built.get(tuple(order)) or build_diagram(model, order, limit))
            low = high = diagrams[-1].size
        except TooWideError as error:
            outgrown = outgrown or error
            low, high = size_bounds(model, order, width)
        lower, upper = lower * low, upper * high
    if outgrown is not None:
        raise DiagramLimitError(outgrown.message, outgrown.column, lower, upper)
    return FeasibleSet(model, tuple(diagrams))


def some_designs(model: LoweredModel, limit: CompileLimit, width: int) -> FeasibleSet:
    """Return feasible designs: all, but of components whose diagrams outgrow `limit` those of `width` states a layer.

    Raises:
        LimitError: a rule adds numbers beyond 2^62.
    """
    if model.infeasible:
        return feasible_set(model)
    diagrams: list[Diagram] = []
    for part in components(model):
        order = elimination_order(model, part)
        try:
            diagrams.append(build_diagram(model, order, limit))
        except TooWideError:
            diagrams.append(restricted(model, order, width))
    return FeasibleSet(model, tuple(diagrams))
