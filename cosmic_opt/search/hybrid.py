"""The hybrid loop: agents find an incumbent, regions are closed best bound first, the least optimum is reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_opt.search.allocation import FIRST, PER_REGION, Allocation, Part, parts_of
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.outcome import LogLine, Outcome, Stop
from cosmic_opt.search.run import Run
from cosmic_opt.solvers.base import SolveStatus

WARM_START = 4096
"""Evaluations, at most, that agents spend on an incumbent before regions are opened, and on open ones after that."""
NODE_LIMIT = 2_000_000_000


def hybrid(run: Run, memo: RegionMemo | None = None) -> Outcome:
    """Return the best design of a problem whose step decomposes, with the evidence of every region."""
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
    if frontier.settled:
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
    """Return the answer; a limit may end the search when the value is proved and open regions only hold equal ones."""
    if frontier.value is None:
        return run.nothing_found(stop, frontier.bound, frontier)
    if stop is Stop.PROVED:
        run.best_design = run.instance.parameter_set.batch(frontier.least_code().reshape(1, -1))
        run.best_value = frontier.value
        run.log(
            LogLine(run.budget.elapsed(), regions, regions, frontier.value, frontier.value, run.evaluations, "proved")
        )
        return replace(run.outcome(SolveStatus.OPTIMAL, stop, frontier.value, frontier), least_code=True)
    frontier_design = frontier.incumbent_design()
    if frontier_design is not None and (run.best_value is None or frontier.value < run.best_value):
        run.best_design = run.instance.parameter_set.batch(frontier_design.reshape(1, -1))
        run.best_value = frontier.value
    status = SolveStatus.OPTIMAL if frontier.bound == frontier.value else SolveStatus.FEASIBLE
    return run.outcome(status, stop, frontier.bound, frontier)
