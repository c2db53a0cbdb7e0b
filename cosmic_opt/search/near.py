"""Designs as good, or nearly as good, as a proved optimum: how many, which knobs they leave free, and the best few."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import InfeasibleError, LimitError
from cosmic_opt.feasibility.diagram import random_below
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.asked import number_of, share_of
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.census import GREATEST, Census, Counted
from cosmic_opt.search.every import Scored, best_of, members_within, score_every
from cosmic_opt.search.executor import EngineOf, threads
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.hybrid import NODE_LIMIT
from cosmic_opt.search.least import least_designs
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.outcome import Log, LogLine, Outcome, Stop, silent
from cosmic_opt.search.owners import STRUCTURAL
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.search.space import Codes, Space, build_space
from cosmic_opt.search.tasks import worker_of
from cosmic_opt.solvers.base import SolveStatus

POOL = 2048
"""Designs drawn at random from which a diverse sample is taken; where there are fewer, all of them are looked at."""
STEPS = (Fraction(0), Fraction(1, 10_000), Fraction(1, 100), Fraction(1), None)
"""How far from the optimum the best few are looked for, one after the other; None is everywhere."""


@dataclass(frozen=True)
class Knob:
    """What the designs that count do with one free column: how many take each value that the rules allow it."""

    name: str
    values: dict[Value, int]

    @property
    def every_value(self) -> bool:
        """Whether every value occurs."""
        return all(self.values.values())


@dataclass(frozen=True)
class Ranking:
    """Designs with their values (exact integers); `stop` is PROVED when nothing is missing."""

    designs: DesignBatch
    values: tuple[int, ...]
    stop: Stop


@dataclass(frozen=True)
class Near:
    """The feasible designs within a share of the optimum.

    At least `designs` and at most `designs_upper` of them count, with objective values up to `limit` (None: every
    design that can run). `parameters` and `sample` are of the designs that were counted; the sample begins with the
    optimum. Names are those of `near` in the answer of `solve --json`.
    """

    within: Fraction
    limit: int | None
    designs: int
    designs_upper: int
    stop: Stop
    parameters: tuple[Knob, ...]
    sample: Ranking
    nodes: int
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether every design that counts was counted."""
        return self.designs == self.designs_upper


class NearOptima:
    """What is asked about the neighbourhood of one proved optimum.

    Where no region has a bound, every design is scored again: `engine` says where (threads on every core), and `log`
    hears how many are done.

    Raises:
        InfeasibleError: the problem has no design.
        LimitError: the optimum is not proved.
    """

    def __init__(
        self, instance: BoundInstance, outcome: Outcome, *, engine: EngineOf | None = None, log: Log = silent
    ) -> None:
        if outcome.status is SolveStatus.INFEASIBLE:
            raise InfeasibleError("no design is feasible, so none is nearly optimal", hint="ask explain for the reason")
        if outcome.status is not SolveStatus.OPTIMAL or outcome.value is None or outcome.scores is None:
            raise LimitError(
                "the optimum is not proved, so nothing is known to be near it", hint="give the search more time"
            )
        self.instance, self.outcome = instance, outcome
        self.engine, self.log = engine or threads(os.cpu_count() or 1), log
        self.value, self.amount = outcome.value, int(outcome.scores.amounts[0])

    @cached_property
    def model(self) -> LoweredModel:
        """The lowered problem."""
        return lower(self.instance.parameter_set)

    @cached_property
    def scorer(self) -> Scorer:
        """What scores designs."""
        return Scorer(simulator_of(self.instance), self.outcome.objective)

    @cached_property
    def space(self) -> Space:
        """The search space."""
        dimensions, simulator = self.instance.dimensions, self.scorer.analytical
        return build_space(self.instance.parameter_set, self.model, simulator, dimensions, self.outcome.objective)

    def limit(self, share: Fraction) -> int | None:
        """Return the greatest objective value within a share of the optimum; None when every value is.

        Throughput is a constant by the step: at most a share below the best is a step of at most best / (1 - share).
        """
        if self.outcome.objective.samples is None:
            return int(self.value * (1 + share))
        return int(self.value / (1 - share)) if share < 1 else None

    def census(self, limit: int | None) -> Census:
        """Return the census of the designs up to a value."""
        amount = max(1, self.amount)
        ticks = NO_LIMIT if limit is None else -(-limit // amount)
        best = (ticks, amount) if ticks < NO_LIMIT else None
        steps = step_limit(self.instance.parameter_set)
        frontier = Frontier(self.space, self.scorer.analytical, self.scorer.objective, steps, best=best)
        return Census(frontier, GREATEST if limit is None else limit)

    def ranked(self, codes: Codes) -> Ranking:
        """Return designs with their values, best first, those of equal value by code; each is checked and scored."""
        designs = self.instance.parameter_set.batch(codes)
        recheck(self.model, self.instance.parameter_set, designs.codes, "the search near the optimum")
        values = self.scorer.score(designs).values
        order = sorted(range(len(designs)), key=lambda row: (values[row], tuple(designs.codes[row])))
        return Ranking(designs.take(order), tuple(int(values[row]) for row in order), Stop.PROVED)

    # --- within a share ---------------------------------------------------------------------------------------

    def within(
        self, share: str | float | Fraction, *, sample: int = 10, seed: int = 0, budget: Budget | None = None
    ) -> Near:
        """Return how many designs are within a share of the optimum ("1%", 0.01), what they have in common, and some.

        The sample is diverse: each design of it differs from those before it in as many columns as any of up to 2,048
        designs that are drawn at random (or all, if there are no more). A budget of evaluations limits the boxes
        bounded.

        Raises:
            SpecError: no share, or not 1 to 10,000 designs.
            LimitError: too many structural combinations hold designs that count.
        """
        budget, share = budget or Budget(), share_of(share)
        started = budget.elapsed()
        number_of(sample)
        limit = self.limit(share)
        if not self.scorer.simulator.decomposes:
            return self._every_within(share, limit, sample, seed, budget)
        census = self.census(limit)
        counted = census.count(max_nodes=budget.evaluations or NODE_LIMIT, budget=budget)
        assert counted.lower or counted.stop is not Stop.PROVED, "the optimum counts"
        pool = census.members(counted, _ranks(counted.lower, np.random.default_rng(seed)))
        chosen = _farthest(np.concatenate([self.outcome.design.codes, pool]), sample)
        ranking = self.ranked(chosen)
        assert all(limit is None or value <= limit for value in ranking.values), "members score as they were counted"
        knobs = self._knobs(census, counted)
        return Near(
            share,
            limit,
            counted.lower,
            counted.upper,
            counted.stop,
            knobs,
            ranking,
            counted.nodes,
            budget.elapsed() - started,
        )

    def _every_within(self, share: Fraction, limit: int | None, sample: int, seed: int, budget: Budget) -> Near:
        """Count by scoring every design."""
        started = budget.elapsed()
        columns = self.instance.parameter_set.columns
        sizes = [len(column.values) for column in columns]
        found = members_within(self._scored(budget), limit, sizes, POOL, np.random.default_rng(seed))
        stop = Stop.TIME if budget.out_of_time() else Stop.PROVED
        upper = found.count if stop is Stop.PROVED else self.outcome.feasible_designs
        allowed = self.model.allowed
        knobs = tuple(
            Knob(column.name, {column.values[code]: int(uses[code]) for code in codes})
            for column, uses, codes in zip(columns, found.uses, allowed, strict=False)
            if len(codes) > 1
        )
        ranking = self.ranked(_farthest(np.concatenate([self.outcome.design.codes, found.pool]), sample))
        seconds = budget.elapsed() - started
        return Near(share, limit, found.count, upper, stop, knobs, ranking, 0, seconds)

    def _scored(self, budget: Budget) -> Iterator[Scored]:
        limit = step_limit(self.instance.parameter_set)
        worker = worker_of(self.instance, self.model)
        feasible, done = feasible_set(self.model), 0
        for part in score_every(self.engine(worker), feasible, self.outcome.objective, limit, budget):
            done += len(part.codes)
            self.log(LogLine(budget.elapsed(), 0, 0, self.value, self.value, done, "again: designs around the best"))
            yield part

    def _knobs(self, census: Census, counted: Counted) -> tuple[Knob, ...]:
        """Return how many of the designs counted take each value of each free column."""
        space, allowed = self.space, self.model.allowed
        uses = {c: dict.fromkeys(allowed[c].tolist(), 0) for c in range(self.model.designs) if len(allowed[c]) > 1}
        for dimension, options in enumerate(space.options):
            for at, column in enumerate(options.columns):
                if space.ownership.owner[column] == dimension and column in uses:
                    for code, number in zip(options.rows[:, at].tolist(), counted.uses[dimension], strict=False):
                        uses[column][code] += number
        structural = [c for c in uses if space.ownership.owner[c] == STRUCTURAL and c not in census.inert]
        codes = census.frontier.regions.codes[list(counted.rows)][:, structural]
        for row, number in zip(codes.tolist(), counted.designs, strict=True):
            for column, code in zip(structural, row, strict=True):
                uses[column][code] += number
        for column in census.inert:
            uses[column] = dict.fromkeys(uses[column], counted.lower // len(uses[column]))
        columns = self.instance.parameter_set.columns
        return tuple(
            Knob(columns[c].name, {columns[c].values[code]: number for code, number in own.items()})
            for c, own in uses.items()
        )

    # --- the best few -----------------------------------------------------------------------------------------

    def top(self, number: int, *, budget: Budget | None = None) -> Ranking:
        """Return the best designs in order, those of equal value by code; all of them if there are no more.

        When the budget is spent first, only designs are returned that are known to be the best.

        Raises:
            SpecError: not 1 to 10,000 designs.
            LimitError: too many structural combinations.
        """
        number_of(number)
        budget = budget or Budget()
        if not self.scorer.simulator.decomposes:
            best = best_of(self._scored(budget), number)
            return self._known(self.outcome.design.codes, Stop.TIME) if budget.out_of_time() else self.ranked(best)
        few, nodes = number + POOL, budget.evaluations or NODE_LIMIT
        below: Codes = self.outcome.design.codes
        least = self.value - 1
        for step in STEPS:
            census = self.census(None if step is None else self.limit(step))
            counted = census.count(max_nodes=nodes, enough=few, budget=budget)
            if counted.stop is not Stop.PROVED:
                return self._known(below, counted.stop)
            if counted.lower >= number or step is None:
                break
            below, least = census.members(counted, range(counted.lower)), census.value
        while counted.lower > few and census.value - least > 1:
            middle = Census(census.frontier, (least + census.value) // 2)
            found = middle.count(max_nodes=nodes, enough=few, budget=budget)
            if found.stop is not Stop.PROVED:
                return self._known(below, found.stop)
            if found.lower >= number:
                census, counted = middle, found
            else:
                below, least = middle.members(found, range(found.lower)), middle.value
        if counted.lower <= few:
            return self._first(census.members(counted, range(counted.lower)), number)
        return self._with_ties(census, number, below if least >= self.value else below[:0], budget)

    def _known(self, codes: Codes, stop: Stop) -> Ranking:
        """Return the designs known to be the best when a limit ended the search for more."""
        return replace(self.ranked(codes), stop=stop)

    def _first(self, codes: Codes, number: int) -> Ranking:
        ranking = self.ranked(codes)
        return Ranking(ranking.designs.take(range(min(number, len(codes)))), ranking.values[:number], Stop.PROVED)

    def _with_ties(self, census: Census, number: int, below: Codes, budget: Budget) -> Ranking:
        """Return all designs `below` the value of the census, and as many of least code as are asked for with it."""
        skip = {tuple(row) for row in below.tolist()}
        least = least_designs(census, number - len(below), skip, budget)
        if least is None:
            return self._known(below if len(below) else self.outcome.design.codes, Stop.TIME)
        return self.ranked(np.concatenate([below, np.array(least, dtype=np.int32).reshape(-1, below.shape[1])]))


def _ranks(total: int, rng: np.random.Generator) -> list[int]:
    """Return up to `POOL` different ranks below `total`, ascending: all of them, or uniform ones."""
    if total <= POOL:
        return list(range(total))
    drawn: set[int] = set()
    limit = np.array([total], dtype=object if total >= 2**62 else np.int64)
    while len(drawn) < POOL:
        drawn.update(int(rank) for rank in random_below(np.repeat(limit, POOL - len(drawn)), rng))
    return sorted(drawn)


def _farthest(codes: Codes, number: int) -> Codes:
    """Return the first design and, one after the other, the one that is farthest from those before it."""
    chosen = [0]
    distances = (codes != codes[0]).sum(axis=1)
    while len(chosen) < number and distances.max() > 0:
        chosen.append(int(distances.argmax()))
        distances = np.minimum(distances, (codes != codes[chosen[-1]]).sum(axis=1))
    return codes[chosen]
