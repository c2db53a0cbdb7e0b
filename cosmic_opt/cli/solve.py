"""`solve`: the best design, with its proof state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosmic_opt.cli.around import Around, Asked, look_around
from cosmic_opt.cli.engine_pool import EnginePool, Place, Pool, Scheduler, Workers
from cosmic_opt.cli.exits import DONE, INFEASIBLE, INTERRUPTED, LIMIT
from cosmic_opt.cli.files import check_target, whole_file
from cosmic_opt.cli.interrupt import StoppableBudget, stop_on_interrupt
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.time_limit import TimeLimit, seconds_of
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.feasibility.conflict import Conflict, first_conflict
from cosmic_opt.reporting.counts import why_empty
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.engine_names import ANALYTICAL, ENGINES, EVENTS
from cosmic_opt.search.objective import objective_of
from cosmic_opt.solvers.base import SolveStatus

if TYPE_CHECKING:
    from cosmic_opt.api import Problem
    from cosmic_opt.reporting.answers import Score
    from cosmic_opt.search.executor import EngineOf
    from cosmic_opt.search.objective import Objective
    from cosmic_opt.search.outcome import Log, Outcome

EXITS = {SolveStatus.INFEASIBLE: INFEASIBLE, SolveStatus.UNKNOWN: LIMIT}


def solve(
    request: Request,
    agent: Annotated[
        str | None, typer.Option("--agent", help="With --no-hybrid: genetic, optuna:TPESampler, ..., alone.")
    ] = None,
    no_hybrid: Annotated[
        bool, typer.Option("--no-hybrid", help="Run the --agent alone: no regions, no bound, no proof.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Run the --agent alone over the raw grid, rules unknown, as COSMIC does.")
    ] = False,
    engine: Annotated[
        str, typer.Option("--engine", help="What scores. events: chunk by chunk, with contention; closed forms bound.")
    ] = ANALYTICAL,
    evaluations: Annotated[
        int | None, typer.Option("--evaluations", min=1, help="Stop after so many designs scored or boxes bounded.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="FILE", help="Write the evidence there, for 'cosmic-opt verify'."),
    ] = None,
    time_limit: TimeLimit = None,
    study: Annotated[
        Path | None,
        typer.Option("--study", metavar="FILE", help="Remember all results there; a killed run goes on from it."),
    ] = None,
    workers: Workers = None,
    engine_pool: Pool = EnginePool.THREADS,
    scheduler: Scheduler = None,
    within: Annotated[
        str | None, typer.Option("--within", metavar="PERCENT", help="Count the designs within 1% of the optimum.")
    ] = None,
    top: Annotated[int | None, typer.Option("--top", metavar="K", help="List the K best designs.")] = None,
) -> int:
    """Find the best design and prove it, or say how far from proved it is when a limit ends the search."""
    _check_agent(agent, no_hybrid=no_hybrid, native=native)
    _check_engine(engine, within, top)
    if certificate is not None:
        _check_certificate(certificate, agent)
    asked = Asked.of(within, top, agent)
    budget = StoppableBudget(None if time_limit is None else seconds_of(time_limit), evaluations)
    place = Place(workers, engine_pool, scheduler)
    with stop_on_interrupt(budget.stopped), place.engine(request.problem) as pool:
        search = Search(agent, native, engine == EVENTS, study)
        outcome = _search(request, budget, search, pool)
        log = _logger(request, outcome.objective)
        around = look_around(request.problem, outcome, asked, request.seed, budget, engine=pool, log=log)
    if certificate is not None:
        _write_certificate(request.problem, outcome, certificate)
    return _show(request, outcome, around, budget)


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "solve", solve)


def _check_agent(agent: str | None, *, no_hybrid: bool, native: bool) -> None:
    if (no_hybrid or native) and agent is None:
        option = "--native" if native else "--no-hybrid"
        raise SpecError("which agent runs alone?", where=Where(option), hint="add --agent genetic")
    if agent is not None and not (no_hybrid or native):
        hint = "add --no-hybrid (or --native) to run it alone, or leave --agent out"
        raise SpecError("the hybrid search runs every agent already", where=Where("--agent"), hint=hint)


def _check_engine(engine: str, within: str | None, top: int | None) -> None:
    if engine not in ENGINES:
        raise SpecError(f"unknown engine {engine!r}", where=Where("--engine"), hint=nearest(engine, ENGINES))
    for option, asked in (("--within", within), ("--top", top)):
        if engine == EVENTS and asked is not None:
            hint = "leave --engine events out: regions say how many designs are near by closed forms only"
            raise SpecError("designs near the optimum are not counted by events", where=Where(option), hint=hint)


def _check_certificate(path: Path, agent: str | None) -> None:
    if agent is not None:
        raise SpecError("an agent alone proves nothing", where=Where("--certificate"), hint="leave --no-hybrid out")
    check_target(path, (".json",), force=True, where=Where("--certificate"))


def _write_certificate(problem: Problem, outcome: Outcome, path: Path) -> None:
    with whole_file(path, where=Where("--certificate")) as file:
        file.write(problem.certificate(outcome).text())


@dataclass(frozen=True)
class Search:
    """How to search: which agent alone (None: all, with regions), over which grid, what scores, the study's file."""

    agent: str | None
    native: bool
    by_events: bool
    study: Path | None


def _search(request: Request, budget: Budget, search: Search, engine: EngineOf) -> Outcome:
    from cosmic_opt.reporting.answers import LOG_HEADER  # numba takes a second to load
    from cosmic_opt.reporting.studies import report_text
    from cosmic_opt.search.agents import find_agent

    if search.agent is not None:
        find_agent(search.agent, where=Where("--agent"))
    problem = request.problem
    objective = objective_of(problem.instance.objective, problem.parameter_set)
    log = request.output.log
    log(f"{request.title}: objective {objective.name}, seed {request.seed}")
    log(LOG_HEADER)
    outcome = problem.solve(
        seed=request.seed,
        budget=budget,
        agent=search.agent,
        native=search.native,
        by_events=search.by_events,
        engine=engine,
        study=search.study,
        log=_logger(request, objective),
    )
    if outcome.study is not None:
        log(report_text(outcome.study))
    return outcome


def _logger(request: Request, objective: Objective) -> Log:
    """Return what prints lines of the search's log."""
    from cosmic_opt.reporting.answers import log_row

    return lambda line: request.output.log(log_row(line, objective))


def _show(request: Request, outcome: Outcome, around: Around, budget: StoppableBudget) -> int:
    """Print the answer and return the command's exit code."""
    from cosmic_opt.reporting.answers import answer_keys, answer_text
    from cosmic_opt.reporting.runnable import nothing_runs_text

    interrupted = budget.stopped.is_set() and not (_finished(outcome) and around.complete)
    problem, stop = request.problem, outcome.stop.value
    if interrupted and not _finished(outcome):
        stop = "interrupted"
    score = _score(problem, outcome) if len(outcome.design) else None
    skipped = outcome.engine == EVENTS or budget.out_of_time()
    knobs = None if skipped else problem.dead_knobs(budget)
    infeasible = outcome.status is SolveStatus.INFEASIBLE
    conflict = first_conflict(problem.parameter_set) if infeasible else Conflict()
    idle = outcome.cannot_run or problem.cannot_run(seed=request.seed)
    keys = answer_keys(outcome, problem.instance, score, conflict, knobs, idle, seed=request.seed, stop=stop)
    text = answer_text(request.title, outcome, problem.instance, score, knobs, idle, seed=request.seed, stop=stop)
    if infeasible:
        proved = outcome.cannot_run
        text += f"\n\n{why_empty(conflict) if proved is None else nothing_runs_text(proved)}"
    keys |= around.keys(outcome.objective, interrupted=interrupted)
    request.output.result("solve", keys, text + around.text(outcome.objective, interrupted=interrupted))
    return INTERRUPTED if interrupted else EXITS.get(outcome.status, DONE)


def _finished(outcome: Outcome) -> bool:
    """Tell whether the search found a best design, and no limit (or Ctrl-C) ended it."""
    return outcome.status is SolveStatus.OPTIMAL and outcome.stop.value == "proved"


def _score(problem: Problem, outcome: Outcome) -> Score:
    """Return the score of the design of an answer, by what scored it."""
    from cosmic_opt.reporting.answers import Score

    if outcome.engine == EVENTS:
        from cosmic_opt.reporting.event_scores import event_keys, event_text
        from cosmic_opt.search.events import event_report

        scored = event_report(problem.instance, outcome.design)
        return Score(event_keys(scored), event_text(scored, problem.instance))
    from cosmic_opt.reporting.scores import score_keys, score_text

    report = problem.simulate(outcome.design)
    return Score(score_keys(report), score_text(report, problem.instance))
