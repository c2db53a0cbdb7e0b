"""The hybrid loop: agents find an incumbent, regions are closed best bound first, the least optimum is reported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import SpecError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.domain import Value
from cosmic_opt.search.allocation import FIRST, PER_REGION, Allocation, Part, parts_of
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every import proof_of, score_every
from cosmic_opt.search.executor import EngineOf, threads
from cosmic_opt.search.feasible_space import FeasibleSpace
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.objective import objective_of
from cosmic_opt.search.outcome import Log, LogLine, Outcome, Stop, silent
from cosmic_opt.search.proof import Block
from cosmic_opt.search.run import Run
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.search.space import Space, build_space
from cosmic_opt.search.study import Remembering, Study
from cosmic_opt.search.tasks import Worker
from cosmic_opt.solvers.base import SolveStatus

WARM_START = 4096
"""Evaluations, at most, that agents spend on an incumbent before regions are opened, and on open ones after that."""
NODE_LIMIT = 2_000_000_000


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
    log: Log = silent,
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
    run = Run(instance, model, space, scorer, limit, seed, budget, log, tasks, study)
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
    run: Run, agent: str | None, start: Sequence[Mapping[str, Value]], memo: RegionMemo | None, *, native: bool
) -> Outcome:
    if run.space.size == 0:
        return run.outcome(SolveStatus.INFEASIBLE, Stop.PROVED)
    run.offer(start)
    if agent is not None:
        return _agent_alone(run, agent, native=native)
    return _hybrid(run, memo) if run.scorer.simulator.decomposes else _every(run)


def _every(run: Run) -> Outcome:
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


def _agent_alone(run: Run, agent: str, *, native: bool) -> Outcome:
    if run.budget.evaluations is None and run.budget.seconds is None:
        raise SpecError("an agent alone never stops by itself", hint="give --evaluations 10000 or --time-limit 60")
    run.use_agent(agent, run.evaluations_left(), native=native)
    if run.best_value is None and run.limit_ticks == NO_LIMIT and not native:
        run.explain_no_time()
    status = SolveStatus.UNKNOWN if run.best_value is None else SolveStatus.FEASIBLE
    stop = Stop.TIME if run.budget.out_of_time() else Stop.EVALUATIONS
    return run.outcome(status, stop)


def _hybrid(run: Run, memo: RegionMemo | None) -> Outcome:
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


def _look_into_open_regions(run: Run, frontier: Frontier, allocation: Allocation) -> None:
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


def _finish(run: Run, frontier: Frontier, regions: int, stop: Stop) -> Outcome:
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
