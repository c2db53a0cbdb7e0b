"""A search on its way: what it works on, what it has spent, and the best design so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.ir.check import check, recheck
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents import find_agent
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.engine_names import ANALYTICAL, EVENTS
from cosmic_opt.search.executor import Engine
from cosmic_opt.search.feasible_space import FeasibleSpace, raw_grid
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.outcome import Log, Outcome, Stop
from cosmic_opt.search.runnable import why_none
from cosmic_opt.search.score import Scorer
from cosmic_opt.search.space import Codes
from cosmic_opt.search.study import Study
from cosmic_opt.search.tasks import Scored, ScoreDesigns, SimulateDesigns
from cosmic_opt.solvers.base import SolveStatus

SHARD = 1024
"""Designs that one worker scores; fewer are not worth sharing."""
EVENT_SHARD = 16
"""The same by events, where one takes milliseconds."""


@dataclass
class Run:
    """The mutable state of one search."""

    instance: BoundInstance
    model: LoweredModel
    space: FeasibleSpace
    scorer: Scorer
    limit_ticks: int
    seed: int
    budget: Budget
    log: Log
    engine: Engine
    by_events: bool = False
    study: Study | None = None
    generators: dict[str, np.random.Generator] = field(default_factory=dict)
    evaluations: int = 0
    wasted: int = 0
    best_value: int | None = None
    best_design: DesignBatch | None = None

    def use_agent(self, name: str, evaluations: int, *, native: bool = False) -> None:
        """Let an agent spend evaluations; keep the best design it finds. A native one searches the raw grid."""
        rng = np.random.default_rng([self.seed, *name.encode()])
        agent = find_agent(name)(raw_grid(self.instance.parameter_set) if native else self.space, rng)
        self.generators[name] = rng
        left = evaluations
        while left > 0 and not self.budget.out_of_time():
            batch = agent.ask(min(agent.ask_size, left))
            left -= len(batch)
            agent.tell(batch, self._score_any(batch) if native else self.score(batch))

    def nothing_found(self, stop: Stop, bound: int | None = None, frontier: Frontier | None = None) -> Outcome:
        """Return the answer without a design: none runs and keeps the limits, where that is proved.

        Raises:
            LimitError: a design could run, for longer than the simulator's clock can hold.
        """
        if stop is not Stop.PROVED:
            return self.outcome(SolveStatus.UNKNOWN, stop, bound, frontier)
        outcome = self.outcome(SolveStatus.INFEASIBLE, stop, bound, frontier)
        return replace(outcome, cannot_run=why_none(self.instance, self.space.feasible, self.seed))

    def evaluations_left(self) -> int:
        """Return how many evaluations the budget still holds."""
        return NO_LIMIT if self.budget.evaluations is None else max(0, self.budget.evaluations - self.evaluations)

    def offer(self, designs: Sequence[Mapping[str, Value]]) -> None:
        """Score the given designs that are members of the problem."""
        columns = self.instance.parameter_set.columns
        members = [values for values in designs if all(values.get(c.name) in c.codes for c in columns)]
        for values in members:
            batch = self.instance.parameter_set.design(values)
            if check(self.model, batch.codes)[0]:
                self.score(batch)

    def score(self, batch: DesignBatch) -> np.ndarray:
        """Score a batch, keep its best, and return what an agent is told: infinity beyond the step limit."""
        task, shard = (SimulateDesigns, EVENT_SHARD) if self.by_events else (ScoreDesigns, SHARD)
        shards = [task(batch.codes[at : at + shard]) for at in range(0, len(batch), shard)]
        scored = Scored(*(np.concatenate(parts) for parts in zip(*self.engine.map(shards), strict=True)))
        values = self.scorer.objective.values(scored.ticks, scored.amounts)
        self.evaluations += len(batch)
        allowed = scored.ticks <= self.limit_ticks
        self._keep_best(batch.take(allowed), values[allowed])
        if self.study is not None:
            states = {name: rng.bit_generator.state for name, rng in self.generators.items()}
            self.study.note_agents(self.evaluations, states)
        return np.where(allowed, values.astype(float), np.inf)

    def _score_any(self, batch: DesignBatch) -> np.ndarray:
        """Score what a native agent asks for: a design that breaks a rule is an evaluation spent for infinity."""
        values = np.full(len(batch), np.inf)
        rows = np.flatnonzero(feasible(batch))
        self.wasted += len(batch) - len(rows)
        self.evaluations += len(batch) - len(rows)
        if len(rows):
            values[rows] = self.score(batch.take(rows))
        return values

    def _keep_best(self, batch: DesignBatch, values: np.ndarray) -> None:
        if not len(batch):
            return
        at = min(range(len(batch)), key=lambda row: (values[row], tuple(batch.codes[row])))
        if self.best_value is None or values[at] < self.best_value:
            self.best_value, self.best_design = int(values[at]), batch.take([at])
            self.note_incumbent(self.best_value, batch.codes[at])

    def keep_if_better(self, value: int, codes: Codes) -> None:
        """Keep a scored design that is better than the best so far, or as good with less code."""
        own = None if self.best_design is None else tuple(self.best_design.codes[0].tolist())
        if self.best_value is None or own is None or (value, tuple(codes.tolist())) < (self.best_value, own):
            self.best_value, self.best_design = value, self.instance.parameter_set.batch(codes.reshape(1, -1))
            self.note_incumbent(value, codes)

    def note_incumbent(self, value: int, codes: Codes) -> None:
        """Let the study, if there is one, keep the best design so far."""
        if self.study is not None:
            self.study.note_incumbent(value, codes.astype("<i4").tobytes(), self.evaluations)

    def outcome(
        self,
        status: SolveStatus,
        stop: Stop,
        bound: int | None = None,
        frontier: Frontier | None = None,
    ) -> Outcome:
        """Return the answer; the reported design is scored once more and re-checked against every rule."""
        empty = self.instance.parameter_set.batch(np.zeros((0, len(self.instance.parameter_set.columns)), np.int32))
        design = self.best_design if self.best_design is not None else empty
        scores = self.scorer.score(design) if len(design) else None
        if scores is not None:
            recheck(self.model, self.instance.parameter_set, design.codes, "the search")
            assert int(scores.values[0]) == self.best_value, "the reported design scores as it was found"
        return Outcome(
            status,
            stop,
            design,
            scores,
            self.scorer.objective,
            self.best_value,
            bound,
            self.space.size,
            frontier.space.regions.count if frontier else 0,
            self.evaluations,
            self.wasted,
            frontier.nodes if frontier else 0,
            self.budget.elapsed(),
            frontier.proof() if frontier else None,
            EVENTS if self.by_events else ANALYTICAL,
        )
