"""Solve a problem: by regions and agents, by scoring every design, by an agent alone, or by events."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import SpecError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.domain import Value
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every import proof_of, score_every
from cosmic_opt.search.executor import EngineOf, threads
from cosmic_opt.search.feasible_space import FeasibleSpace
from cosmic_opt.search.hybrid import hybrid
from cosmic_opt.search.limits import limits_simulated
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.outcome import Log, LogLine, Outcome, Stop, silent
from cosmic_opt.search.proof import Block
from cosmic_opt.search.refine import refine
from cosmic_opt.search.run import Run
from cosmic_opt.search.study import Remembering, Study
from cosmic_opt.search.tasks import worker_of
from cosmic_opt.solvers.base import SolveStatus


def solve(
    instance: BoundInstance,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    agent: str | None = None,
    native: bool = False,
    by_events: bool = False,
    start: Sequence[Mapping[str, Value]] = (),
    memo: RegionMemo | None = None,
    engine: EngineOf | None = None,
    study: Study | None = None,
    log: Log = silent,
) -> Outcome:
    """Return the best design of a problem, with the proof state.

    With `agent`, that agent alone spends the budget's evaluations, and nothing is proved; `native` gives it the raw
    grid, as in the paper, where an evaluation may be spent on a design that breaks a rule. `by_events`, the event
    simulator scores, and the answer is about its steps (`search.refine`). `start` holds designs (a value per column) to
    begin with; those that are no members of this problem are passed over. A `memo` given to several searches spares a
    later one the regions that an earlier one has closed; neither changes the answer.

    `engine` says where the work is done (threads on every core), and a `study` remembers it: neither changes the answer
    or the number of evaluations.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step; events asked of a calibrated model.
        LimitError: too many structural combinations to prove anything (use an agent alone).
    """
    parameter_set = instance.parameter_set
    model = lower(parameter_set)
    space = FeasibleSpace(parameter_set, feasible_set(model))
    worker = worker_of(instance, model, space.feasible.diagrams)
    scorer = worker.by_events if by_events else worker.scorer
    tasks = (engine or threads(os.cpu_count() or 1))(worker)
    if study is not None:
        tasks = Remembering(tasks, study)
    run = Run(
        instance, model, space, scorer, worker.limit_ticks, seed, budget or Budget(), log, tasks, by_events, study
    )
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
    if run.by_events:
        return refine(run)
    return hybrid(run, memo) if run.scorer.simulator.decomposes else _every(run)


def _every(run: Run) -> Outcome:
    """Score every design, since no region of them has a bound; the given ones are scored again with the others."""
    feasible, left = run.space.feasible, run.evaluations_left()
    blocks: list[Block] = []
    ties: Counter[int] = Counter()
    allowed = 0
    for part in score_every(run.engine, feasible, run.scorer.objective, run.limit_ticks, run.budget, most=left):
        run.evaluations += len(part.codes)
        blocks.append(part.block)
        allowed += int(part.allowed.sum())
        if part.best is not None:
            value = int(part.values[part.best])
            ties[value] += len(part.ties)
            run.keep_if_better(value, part.codes[part.best])
        run.log(LogLine(run.budget.elapsed(), 0, 0, run.best_value, None, run.evaluations))
    if sum(block.designs for block in blocks) < feasible.size:
        status = SolveStatus.UNKNOWN if run.best_value is None else SolveStatus.FEASIBLE
        return run.outcome(status, Stop.TIME if run.budget.out_of_time() else Stop.EVALUATIONS)
    if run.best_value is None:
        outcome = run.nothing_found(Stop.PROVED)
    else:
        found = run.outcome(SolveStatus.OPTIMAL, Stop.PROVED, run.best_value)
        outcome = replace(found, least_code=True, tied=ties[run.best_value])
    limited = limits_simulated(run.instance.parameter_set)
    return replace(outcome, proof=proof_of(blocks), allowed_designs=allowed if limited else None)


def _agent_alone(run: Run, agent: str, *, native: bool) -> Outcome:
    if run.budget.evaluations is None and run.budget.seconds is None:
        raise SpecError("an agent alone never stops by itself", hint="give --evaluations 10000 or --time-limit 60")
    run.use_agent(agent, run.evaluations_left(), native=native)
    status = SolveStatus.UNKNOWN if run.best_value is None else SolveStatus.FEASIBLE
    stop = Stop.TIME if run.budget.out_of_time() else Stop.EVALUATIONS
    return run.outcome(status, stop)
