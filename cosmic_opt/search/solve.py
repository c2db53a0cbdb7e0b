"""The hybrid loop: agents find an incumbent, regions are closed best bound first, the least optimum is reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import SpecError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import check, recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents import find_agent
from cosmic_opt.search.allocation import FIRST, PER_REGION, Allocation, Part, parts_of
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every import proof_of, score_every
from cosmic_opt.search.executor import Engine, EngineOf, threads
from cosmic_opt.search.feasible_space import FeasibleSpace, raw_grid
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.objective import Objective, objective_of
from cosmic_opt.search.proof import Block, Proof
from cosmic_opt.search.score import Scorer, Scores, simulator_of
from cosmic_opt.search.space import Codes, Space, build_space
from cosmic_opt.search.study import Remembering, Study, StudyReport
from cosmic_opt.search.tasks import Scored, ScoreDesigns, Worker
from cosmic_opt.solvers.base import SolveStatus

WARM_START = 4096
"""Evaluations, at most, that agents spend on an incumbent before regions are opened, and on open ones after that."""
NODE_LIMIT = 2_000_000_000
SHARD = 1024
"""Designs that one worker scores; fewer are not worth sharing."""


class Stop(Enum):
    """Why a search stopped."""

    PROVED = "proved"
    TIME = "time limit"
    EVALUATIONS = "evaluation limit"
    NODES = "node limit"


@dataclass(frozen=True)
class LogLine:
    """One line of the search log. Values are of the objective (exact integers), or None when not known yet."""

    seconds: float
    regions_closed: int
    regions: int
    incumbent: int | None
    bound: int | None
    evaluations: int
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """The answer of a search.

    `value` and `bound` are exact integers (see `Objective`); `design` is empty when none was found. `evaluations`
    counts designs that agents asked to score, `wasted` those of them that break a rule (of a native agent only) and
    `nodes` boxes of options that were bounded.
    """

    status: SolveStatus
    stop: Stop
    design: DesignBatch
    scores: Scores | None
    objective: Objective
    value: int | None
    bound: int | None
    feasible_designs: int
    regions: int
    evaluations: int
    wasted: int
    nodes: int
    seconds: float
    proof: Proof | None
    """The evidence for the bound; None where an agent ran alone or there is no feasible design."""
    study: StudyReport | None = None
    """What the study of the search holds, where there is one."""

    @property
    def gap(self) -> float | None:
        """The relative gap between value and bound; 0 exactly when they are equal."""
        if self.value is None or self.bound is None:
            return None
        return 0.0 if self.value == self.bound else (self.value - self.bound) / self.value


Log = Callable[[LogLine], None]


def _silent(line: LogLine) -> None:
    del line


@dataclass
class _Run:
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

    def explain_no_time(self) -> None:
        """Raise for what keeps every design from running, though it obeys every rule."""
        self.scorer.score(self.space.sample(1, np.random.default_rng(self.seed)))

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
        shards = [ScoreDesigns(batch.codes[at : at + SHARD]) for at in range(0, len(batch), SHARD)]
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
        )


def solve(
    instance: BoundInstance,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    agent: str | None = None,
    native: bool = False,
    start: Sequence[Mapping[str, Value]] = (),
    memo: RegionMemo | None = None,
    engine: EngineOf | None = None,
    study: Study | None = None,
    log: Log = _silent,
) -> Outcome:
    """Return the best design of a problem, with the proof state.

    With `agent`, that agent alone spends the budget's evaluations, and nothing is proved; `native` gives it the raw
    grid, as in the paper, where an evaluation may be spent on a design that breaks a rule. `start`
    holds designs (a value per column) to begin with; those that are no members of this problem are passed over. A
    `memo` given to several searches spares a later one the regions that an earlier one has closed; neither changes
    the answer.

    `engine` says where the work is done (threads on every core), and a `study` remembers it: neither changes the answer
    or the number of evaluations.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
        LimitError: too many structural combinations to prove anything (use an agent alone).
    """
    budget = budget or Budget()
    limit = step_limit(instance.parameter_set)
    model = lower(instance.parameter_set)
    objective = objective_of(instance.objective, instance.parameter_set)
    scorer = Scorer(simulator_of(instance), objective)
    space = FeasibleSpace(instance.parameter_set, feasible_set(model))

    def make_space() -> Space:
        return build_space(instance.parameter_set, model, scorer.analytical, instance.dimensions, objective)

    tasks = (engine or threads(os.cpu_count() or 1))(Worker(instance.parameter_set, scorer, limit, make_space))
    if study is not None:
        tasks = Remembering(tasks, study)
    run = _Run(instance, model, space, scorer, limit, seed, budget, log, tasks, study)
    outcome = _search(run, agent, start, memo, native=native)
    if study is None:
        return outcome
    study.note_answer(_answer_keys(outcome))
    return replace(outcome, study=study.report())


def _answer_keys(outcome: Outcome) -> dict[str, object]:
    """Return what a study keeps of an answer; whole numbers of any size as text."""
    return {
        "status": outcome.status.value,
        "stop": outcome.stop.value,
        "objective": outcome.objective.name,
        "value": None if outcome.value is None else str(outcome.value),
        "bound": None if outcome.bound is None else str(outcome.bound),
        "design": outcome.design.codes.tolist(),
        "regions": outcome.regions,
        "evaluations": outcome.evaluations,
        "nodes": outcome.nodes,
    }


def _search(
    run: _Run, agent: str | None, start: Sequence[Mapping[str, Value]], memo: RegionMemo | None, *, native: bool
) -> Outcome:
    if run.space.size == 0:
        return run.outcome(SolveStatus.INFEASIBLE, Stop.PROVED)
    run.offer(start)
    if agent is not None:
        return _agent_alone(run, agent, native=native)
    return _hybrid(run, memo) if run.scorer.simulator.decomposes else _every(run)


def _every(run: _Run) -> Outcome:
    """Score every design, since no region of them has a bound; the given ones are scored again with the others."""
    feasible, left = run.space.feasible, run.evaluations_left()
    blocks: list[Block] = []
    for part in score_every(run.engine, feasible, run.scorer.objective, run.limit_ticks, run.budget, most=left):
        run.evaluations += len(part.codes)
        blocks.append(part.block)
        if part.best is not None:
            run.keep_if_better(int(part.values[part.best]), part.codes[part.best])
        run.log(LogLine(run.budget.elapsed(), 0, 0, run.best_value, None, run.evaluations))
    if sum(block.designs for block in blocks) < feasible.size:
        status = SolveStatus.UNKNOWN if run.best_value is None else SolveStatus.FEASIBLE
        return run.outcome(status, Stop.TIME if run.budget.out_of_time() else Stop.EVALUATIONS)
    if run.best_value is None and run.limit_ticks == NO_LIMIT:
        run.explain_no_time()
    status = SolveStatus.INFEASIBLE if run.best_value is None else SolveStatus.OPTIMAL
    return replace(run.outcome(status, Stop.PROVED, run.best_value), proof=proof_of(blocks))


def _agent_alone(run: _Run, agent: str, *, native: bool) -> Outcome:
    if run.budget.evaluations is None and run.budget.seconds is None:
        raise SpecError("an agent alone never stops by itself", hint="give --evaluations 10000 or --time-limit 60")
    run.use_agent(agent, run.evaluations_left(), native=native)
    if run.best_value is None and run.limit_ticks == NO_LIMIT and not native:
        run.explain_no_time()
    status = SolveStatus.UNKNOWN if run.best_value is None else SolveStatus.FEASIBLE
    stop = Stop.TIME if run.budget.out_of_time() else Stop.EVALUATIONS
    return run.outcome(status, stop)


def _hybrid(run: _Run, memo: RegionMemo | None) -> Outcome:
    allocation = Allocation(run.space, run.score, run.budget.out_of_time, np.random.default_rng(run.seed))
    run.generators["hybrid"] = allocation.rng
    if run.best_design is None:
        first = min(FIRST, run.space.size, run.evaluations_left())
        allocation.consider(run.space.sample(first, allocation.rng))
        allocation.spend([Part(run.space, 0.0)], min(WARM_START, run.space.size, run.evaluations_left()))
        run.log(LogLine(run.budget.elapsed(), 0, 0, run.best_value, None, run.evaluations, "agents"))
    scorer, space = run.scorer, run.engine.worker.bounding.space
    best = None
    if run.best_design is not None:
        scores = scorer.score(run.best_design)
        best = int(scores.evaluation.step_ticks[0]), int(scores.amounts[0])
    frontier = Frontier(space, scorer.analytical, scorer.objective, run.limit_ticks, memo, best, engine=run.engine)
    total = space.regions.count
    run.log(LogLine(run.budget.elapsed(), 0, total, frontier.value, frontier.bound, run.evaluations, "regions bounded"))
    _look_into_open_regions(run, frontier, allocation)
    stop = Stop.PROVED
    limit = min(NODE_LIMIT, run.evaluations_left())
    logged = frontier.value
    for number, progress in enumerate(frontier.run(limit), 1):
        if progress.incumbent != logged or number & (number - 1) == 0:
            logged = progress.incumbent
            found = frontier.incumbent_design()
            if logged is not None and found is not None:
                run.note_incumbent(logged, found)
            closed = total - len(frontier.order) + progress.closed
            run.log(LogLine(run.budget.elapsed(), closed, total, progress.incumbent, progress.bound, run.evaluations))
        if run.budget.out_of_time():
            stop = Stop.TIME
            break
    if frontier.next >= len(frontier.order):
        stop = Stop.PROVED
    elif stop is Stop.PROVED:
        stop = Stop.NODES if run.budget.evaluations is None else Stop.EVALUATIONS
    return _finish(run, frontier, total, stop)


def _look_into_open_regions(run: _Run, frontier: Frontier, allocation: Allocation) -> None:
    """Let agents spend evaluations on open regions: the more of them and the larger the gap, the more."""
    left = frontier.order
    parts = parts_of(run.space, frontier.regions.codes[left], frontier.values[left], frontier.space.structural)
    if not parts or run.best_design is None or run.best_value is None:
        return
    gap = 1 - parts[0].bound / run.best_value
    allocation.known.add(run.best_design, np.array([float(run.best_value)]))
    allocation.spend(parts, min(int(gap * len(left)) // PER_REGION, run.evaluations_left()))
    scores = run.scorer.score(run.best_design)
    frontier.offer(int(scores.evaluation.step_ticks[0]), int(scores.amounts[0]))
    total, closed = frontier.space.regions.count, frontier.space.regions.count - len(left)
    note = "agents on open regions"
    run.log(LogLine(run.budget.elapsed(), closed, total, frontier.value, frontier.bound, run.evaluations, note))


def _finish(run: _Run, frontier: Frontier, regions: int, stop: Stop) -> Outcome:
    if frontier.value is None:
        if run.limit_ticks == NO_LIMIT:
            run.explain_no_time()
        status = SolveStatus.INFEASIBLE if stop is Stop.PROVED else SolveStatus.UNKNOWN
        return run.outcome(status, stop, frontier.bound, frontier)
    if stop is Stop.PROVED:
        run.best_design = run.instance.parameter_set.batch(frontier.least_code().reshape(1, -1))
        run.best_value = frontier.value
        run.log(
            LogLine(run.budget.elapsed(), regions, regions, frontier.value, frontier.value, run.evaluations, "proved")
        )
        return run.outcome(SolveStatus.OPTIMAL, stop, frontier.value, frontier)
    frontier_design = frontier.incumbent_design()
    if frontier_design is not None and (run.best_value is None or frontier.value < run.best_value):
        run.best_design = run.instance.parameter_set.batch(frontier_design.reshape(1, -1))
        run.best_value = frontier.value
    return run.outcome(SolveStatus.FEASIBLE, stop, frontier.bound, frontier)
