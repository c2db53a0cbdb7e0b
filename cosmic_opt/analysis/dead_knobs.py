"""Free knobs that cannot change the objective here.

A set of knobs is *dead* when any two feasible designs that differ in no other knob have the same objective value (one
that the simulator cannot run has a value of its own). `dead_knobs` collects such a set knob by knob, in the order of
the model: first those that neither the simulator nor the objective reads, then each that keeps the set dead and has
freedom of its own: some two feasible designs differ in it alone. A knob that the rules tie to others (dp, where
dp * tp * pp * sp == npus) has none, and is never called dead. Nothing is claimed from a sample:

- *live* is shown by two feasible designs, scored;
- *dead* is proved over every region and option of the search space, or by scoring every design of a small problem;
- *tied* is proved by two exact counts, or, of a small problem with a limit on the step, on the designs within it;
- where none of these succeeds within its stated limit, the knob is *undecided*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.dead_proof import TooLargeError, designs_at, differing_place
from cosmic_opt.analysis.projection import count_projections
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.check import check
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Linear, LoweredModel
from cosmic_opt.psa.domain import Value
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.objective import objective_of
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.search.space import build_space
from cosmic_opt.simulation.analytical.layout import NO_TIME

Codes = NDArray[np.int32]
Keys = NDArray[np.object_]
Verdicts = NDArray[np.bool_]
Rows = NDArray[np.intp]

SAMPLES = 64
"""Designs in which every other value of every knob is tried, to find a pair that shows the knob live."""
TRIED = 1 << 12
"""Changed designs scored between two looks at the clock, and whether one has shown the knob live."""
MOST_TRIED = 1 << 16
"""Changed designs scored of one knob: of a wide one with no effect, more would take seconds and show nothing."""
REGION_LIMIT = 500_000
"""Spaces with more regions are not proved over: that would take longer than the search."""
EXHAUSTIVE_LIMIT = 50_000
"""A problem with at most so many designs is decided by scoring them all."""


@dataclass(frozen=True)
class Witness:
    """Two feasible designs that differ in a knob and in dead ones only, and have different values."""

    left: Mapping[str, Value]
    right: Mapping[str, Value]


@dataclass(frozen=True)
class DeadKnobs:
    """Every free knob of a problem, by what is proved of it; knobs that the rules leave one value are not free."""

    dead: tuple[str, ...]
    live: Mapping[str, Witness]
    tied: tuple[str, ...]
    undecided: tuple[str, ...]


@dataclass(frozen=True)
class EquivalentCount:
    """How many feasible designs differ in a knob that is not proved dead; with a rule on the step, certified limits."""

    value: int
    lower: int
    knobs: DeadKnobs

    @property
    def exact(self) -> bool:
        """Whether the limits meet."""
        return self.lower == self.value


def dead_knobs(
    instance: BoundInstance, *, budget: Budget | None = None, exhaustive_limit: int = EXHAUSTIVE_LIMIT
) -> DeadKnobs:
    """Return what each free knob can do to the objective; those not reached within the budget's time are undecided.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
        LimitError: the rules entangle too many parameters to count.
    """
    model = lower(instance.parameter_set)
    feasible = feasible_set(model)
    if feasible.size == 0:
        return DeadKnobs((), {}, (), ())
    return _Examination(instance, model, feasible, exhaustive_limit, budget or Budget()).run()


def count_up_to_equivalence(instance: BoundInstance, counted: tuple[int, int]) -> EquivalentCount:
    """Return the number of feasible designs that differ in more than dead knobs.

    `counted` are certified (lower, upper) counts of the feasible designs; they matter under a rule on the step, which
    no diagram holds. The lower one is then divided by the most designs that can be equal but for dead knobs.

    Raises:
        LimitError: the projection does not fit in memory.
    """
    knobs = dead_knobs(instance)
    parameter_set = instance.parameter_set
    model = lower(parameter_set)
    dropped = [parameter_set.positions[name] for name in knobs.dead]
    value = count_projections(model, dropped, feasible_set(model))
    low, high = counted
    if not any(rule.simulated for rule in parameter_set.constraints):
        return EquivalentCount(value, value, knobs)
    most = 1
    for column in dropped:
        most *= len(model.allowed[column])
    return EquivalentCount(min(value, high), -(-low // most), knobs)


@dataclass
class _Examination:
    """One feasible problem under examination; `live` grows as witnesses are found."""

    instance: BoundInstance
    model: LoweredModel
    feasible: FeasibleSet
    exhaustive_limit: int
    budget: Budget
    live: dict[str, Witness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parameter_set = self.instance.parameter_set
        self.objective = objective_of(self.instance.objective, self.parameter_set)
        self.scorer = Scorer(simulator_of(self.instance), self.objective)
        self.limit_ticks = step_limit(self.parameter_set)

    @cached_property
    def frontier(self) -> Frontier:
        """The search space, for proofs over all of it."""
        if not self.scorer.simulator.decomposes:
            raise TooLargeError
        simulator, dimensions = self.scorer.analytical, self.instance.dimensions
        space = build_space(self.parameter_set, self.model, simulator, dimensions, self.objective)
        if space.regions.count > REGION_LIMIT:
            raise TooLargeError
        return Frontier(space, simulator, self.objective)

    @cached_property
    def everything(self) -> tuple[Codes, Keys, Verdicts]:
        """Every design with its key (see `_keys`), of a small problem."""
        codes = self.feasible.everything(self.exhaustive_limit)
        return codes, *self._keys(codes)

    def run(self) -> DeadKnobs:
        open_columns = [c for c in range(self.model.designs) if len(self.model.allowed[c]) > 1]
        unread = self._unread(open_columns)
        others = [column for column in open_columns if column not in unread]
        moved = self._try_values(others)
        freedom = {c: True if c in moved else self._has_freedom(c) for c in others}
        dead = self._collect(unread, [c for c in others if freedom[c] and self._name(c) not in self.live])
        slow = [c for c in dead if c not in unread and self._is_held_by_limit(c)]
        dead = [c for c in dead if c not in slow]
        tied = [c for c in others if freedom[c] is False or c in slow]
        rest = [c for c in others if c not in {*dead, *tied} and self._name(c) not in self.live]
        return DeadKnobs(self._names(dead), self.live, self._names(tied), self._names(rest))

    def _name(self, column: int) -> str:
        return self.parameter_set.columns[column].name

    def _names(self, columns: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._name(column) for column in sorted(columns))

    def _unread(self, columns: Iterable[int]) -> list[int]:
        """Return the columns that neither the simulator nor the objective's amount reads."""
        amount = self.objective.amount
        read = {name for term in amount.terms for name in term.names} if amount is not None else set()
        inert = set(self.scorer.simulator.inert) - read
        return [column for column in columns if self._name(column) in inert]

    def _keys(self, codes: Codes) -> tuple[Keys, Verdicts]:
        """Return a number per design that stands for its value (-1: it cannot run), and whether it counts at all.

        Under a rule on the step, only designs that obey it do.
        """
        scores = self.scorer.score(self.parameter_set.batch(codes), strict=False)
        ticks = scores.evaluation.step_ticks
        keys = np.where(ticks == NO_TIME, -1, scores.values)
        return keys, np.ones(len(codes), dtype=bool) if self.limit_ticks == NO_LIMIT else ticks <= self.limit_ticks

    def _witness(self, left: Codes, right: Codes) -> Witness:
        points = self.parameter_set.batch(np.array([left, right])).points()
        return Witness(next(points), next(points))

    # --- live and tied ----------------------------------------------------------------------------------------

    def _try_values(self, columns: list[int]) -> set[int]:
        """Try other values of each column in sampled designs; keep a witness, return the columns that can move."""
        designs = self.feasible.sample(SAMPLES, np.random.default_rng(0))
        keys, counts = self._keys(designs)
        moved = set()
        for column in columns:
            if self.budget.out_of_time():
                break
            own, changed = self._moves(designs, column)
            if len(own):
                moved.add(column)
            for start in range(0, len(own), TRIED):
                part = slice(start, start + TRIED)
                row = self._first_shown(keys[own[part]], counts[own[part]], changed[part])
                if row is not None:
                    self.live[self._name(column)] = self._witness(designs[own[part][row]], changed[part][row])
                if row is not None or self.budget.out_of_time():
                    break
        return moved

    def _moves(self, designs: Codes, column: int) -> tuple[Rows, Codes]:
        """Return feasible designs that differ from a given one in the column alone, after the rows of those.

        All of them, or where they are more than MOST_TRIED about so many, evenly spaced.
        """
        codes = self.model.allowed[column]
        own = np.tile(np.arange(len(designs)), len(codes))
        changed = designs[own]
        changed[:, column] = np.repeat(codes, len(designs))
        possible = np.flatnonzero(changed[:, column] != designs[own, column])
        possible = possible[check(self.model, changed[possible])]
        possible = possible[:: 1 + len(possible) // MOST_TRIED]
        return own[possible], changed[possible]

    def _first_shown(self, keys: Keys, counts: Verdicts, changed: Codes) -> int | None:
        """Return the first of the changed designs whose value is not the given one's, where both count."""
        new, new_counts = self._keys(changed)
        rows = np.flatnonzero((keys != new) & counts & new_counts)
        return int(rows[0]) if len(rows) else None

    def _has_freedom(self, column: int) -> bool | None:
        """Tell whether two feasible designs differ in the column alone; None when it is not counted in time."""
        if self._is_determined(column):
            return False
        if self.budget.out_of_time():
            return None
        try:
            return count_projections(self.model, [column], self.feasible) < self.feasible.size
        except LimitError:
            return None

    def _is_held_by_limit(self, column: int) -> bool:
        """Tell whether a limit on the step leaves no two designs of a small problem that differ in the column alone."""
        if self.limit_ticks == NO_LIMIT or self.feasible.size > self.exhaustive_limit:
            return False
        codes, _, counts = self.everything
        rest = np.delete(codes[counts], column, axis=1)
        return len(np.unique(rest, axis=0)) == len(rest)

    def _is_determined(self, column: int) -> bool:
        """Tell whether equations leave the column one code once the others are chosen: no two codes weigh alike."""
        equations = [
            rule.weights[rule.columns.index(column)]
            for rule in self.model.constraints
            if isinstance(rule, Linear)
            and rule.lower is not None
            and rule.lower == rule.upper
            and column in rule.columns
        ]
        codes = self.model.allowed[column]
        return len({tuple(weights[code] for weights in equations) for code in codes}) == len(codes)

    # --- dead -------------------------------------------------------------------------------------------------

    def _collect(self, unread: list[int], candidates: list[int]) -> list[int]:
        """Return `unread` and each candidate, in order, that keeps the set dead; the others may turn out live."""
        if len(candidates) > 1 and self._all_dead([*unread, *candidates]):
            return [*unread, *candidates]
        dead = list(unread)
        for column in candidates:
            try:
                witness = self._refute([*dead, column])
            except TooLargeError:
                continue
            if witness is None:
                dead.append(column)
            else:
                self.live[self._name(column)] = witness
        return dead

    def _all_dead(self, columns: list[int]) -> bool:
        try:
            return self._refute(columns) is None
        except TooLargeError:
            return False

    def _refute(self, columns: Collection[int]) -> Witness | None:
        """Return two designs that show the set not dead, or None when it is proved dead.

        Raises:
            TooLargeError: neither is found within the limits.
        """
        if self.budget.out_of_time():
            raise TooLargeError
        try:
            place = differing_place(self.frontier, columns, self.budget)
        except (TooLargeError, LimitError):
            place = None
        else:
            if place is None:
                return None
            left, right = designs_at(self.frontier, place, columns)
            (old, old_counts), (new, new_counts) = self._keys(left), self._keys(right)
            shown = np.flatnonzero((old != new) & old_counts & new_counts)
            if len(shown):
                return self._witness(left[shown[0]], right[shown[0]])
        if self.feasible.size > self.exhaustive_limit or self.budget.out_of_time():
            raise TooLargeError
        return self._refute_by_scoring(columns)

    def _refute_by_scoring(self, columns: Collection[int]) -> Witness | None:
        codes, keys, counts = self.everything
        codes, keys = codes[counts], keys[counts]
        kept = [column for column in range(codes.shape[1]) if column not in set(columns)]
        _, first, alike = np.unique(codes[:, kept], axis=0, return_index=True, return_inverse=True)
        differs = np.flatnonzero(keys != keys[first[alike.reshape(-1)]])
        if not len(differs):
            return None
        return self._witness(codes[first[alike.reshape(-1)[differs[0]]]], codes[differs[0]])
