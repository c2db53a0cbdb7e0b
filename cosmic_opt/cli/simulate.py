"""`simulate`: the full score of one design, or the rules it breaks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.cli.design_file import read_design
from cosmic_opt.cli.exits import DONE, INFEASIBLE
from cosmic_opt.cli.files import check_target, whole_file
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.progress import progress_bar
from cosmic_opt.cli.slow_ranks import EVERY_RANK, SLOW_RANK, EveryRank, SlowRank, check_every_rank, read_slow_ranks
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.reporting.designs import design_text, designs_keys
from cosmic_opt.reporting.launch import launch_keys, launch_text
from cosmic_opt.reporting.rules import rule_keys, rules_text
from cosmic_opt.search.engine_names import ANALYTICAL, ASTRA_SIM, CALIBRATED, ENGINES, EVENTS

SIMULATORS = (*ENGINES, ASTRA_SIM)
TIMELINE = Where("--timeline")


def simulate(
    request: Request,
    design: Annotated[
        str | None,
        typer.Option("--design", metavar="FILE", help="JSON or YAML, '-' for stdin; default: the instance's own."),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="analytical: closed forms; events: with contention; astra-sim: run it, too.")
    ] = ANALYTICAL,
    astra_sim: Annotated[
        Path | None,
        typer.Option("--astra-sim", metavar="PATH", help="Its binary; default: $COSMIC_OPT_ASTRA_SIM."),
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", help="Of ASTRA-sim: '5 min'; default: an hour.")
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option("--timeline", metavar="FILE", help="With events: also write a .json for Chrome or Perfetto."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the timeline if it exists.")] = False,
    slow_rank: SlowRank = None,
    every_rank: EveryRank = False,
) -> int:
    """Score one design: time, where it goes, memory, cost. A design that breaks a rule is refused."""
    from cosmic_opt.cli.astra_sim import program_of  # numba takes a second to load

    _check_engine(engine, timeline, force=force)
    slowdown = read_slow_ranks(slow_rank) if slow_rank else {} if every_rank else None
    if slowdown is not None:
        check_every_rank(engine, timeline, "--slow-rank" if slow_rank else "--every-rank")
    program = program_of(engine, astra_sim, time_limit)
    problem, batch = read_design(request.problem, design)
    _check_events(problem, engine)
    keys: dict[str, object] = {"name": problem.instance.name, "design": next(designs_keys(batch))}
    keys["engine"] = _engine(problem, engine)
    broken = problem.violations(batch) or _too_slow(problem, batch)
    if broken:
        return _refuse(request, batch, keys, broken)
    if engine == ANALYTICAL:
        return _by_closed_forms(request, problem, batch, keys)
    return _by_events(request, problem, batch, keys, _Extras(timeline, program, slowdown))


def _engine(problem: Problem, asked: str) -> str:
    """Return the engine that scores: an instance with a software stack has its own."""
    return CALIBRATED if problem.instance.calibrated is not None and asked == ANALYTICAL else asked


def _check_engine(engine: str, timeline: Path | None, *, force: bool) -> None:
    if engine not in SIMULATORS:
        raise SpecError(f"unknown engine {engine!r}", where=Where("--engine"), hint=nearest(engine, SIMULATORS))
    if timeline is not None:
        if engine != EVENTS:
            hint = "add --engine events: closed forms have no order of events"
            raise SpecError("a timeline needs the event simulator", where=TIMELINE, hint=hint)
        check_target(timeline, (".json",), force=force, where=TIMELINE)


def _check_events(problem: Problem, engine: str) -> None:
    """Refuse events of an instance that has a simulator of its own."""
    if engine != ANALYTICAL and problem.instance.calibrated is not None:
        raise SpecError(
            f"{problem.instance.name!r} names a software stack or an engine, whose step is not played by events",
            where=Where("--engine"),
            hint=f"leave out --engine {engine}, or take an instance without 'stack' or 'engine'",
        )


def _by_closed_forms(request: Request, problem: Problem, batch: DesignBatch, keys: dict[str, object]) -> int:
    """Print the score by closed forms, and what runs the design where a framework can."""
    from cosmic_opt.reporting.scores import score_keys, score_text  # numba takes a second to load

    report = problem.simulate(batch)
    launch = launch_text(problem.instance, batch)
    parts = [request.title, design_text(batch), launch, score_text(report, problem.instance)]
    found = {**score_keys(report), **launch_keys(problem.instance, batch), "violations": []}
    request.output.result("simulate", keys | found, "\n\n".join(filter(None, parts)))
    return DONE


@dataclass(frozen=True)
class _Extras:
    """What is asked for beside the score by events: a timeline, ASTRA-sim and its seconds, every rank, some slow."""

    timeline: Path | None
    program: tuple[Path, float] | None
    slowdown: dict[int, Fraction] | None


def _by_events(request: Request, problem: Problem, batch: DesignBatch, keys: dict[str, object], extras: _Extras) -> int:
    """Print the score by events, or the rules on the step that it breaks; write the timeline; run ASTRA-sim."""
    from cosmic_opt.cli.astra_sim import astra_sim_score
    from cosmic_opt.reporting.astra_sim_scores import astra_sim_keys, astra_sim_text
    from cosmic_opt.reporting.event_scores import event_keys, event_text
    from cosmic_opt.search.events import event_report, steps_too_long

    path = extras.timeline
    scored = event_report(problem.instance, batch, with_trace=path is not None)
    broken = steps_too_long(problem.instance, scored)
    if broken:
        return _refuse(request, batch, keys, broken)
    if path is not None:
        with whole_file(path, where=TIMELINE) as file:
            json.dump(scored.trace, file)
        request.output.log(f"wrote {path}")
    text = f"{request.title}\n\n{design_text(batch)}\n\n{event_text(scored, problem.instance)}"
    keys |= {**event_keys(scored), "violations": []}
    if extras.slowdown is not None:
        own, shown = _by_rank(request, problem, batch, extras.slowdown, scored.step_ticks)
        keys |= {"every_rank": own}
        text += f"\n\n{shown}"
    if extras.program is not None:
        score = astra_sim_score(problem, batch, scored, extras.program)
        keys |= astra_sim_keys(score)
        text += f"\n\n{astra_sim_text(score)}"
    request.output.result("simulate", keys, text)
    return DONE


def _by_rank(
    request: Request, problem: Problem, batch: DesignBatch, slowdown: dict[int, Fraction], equal_ticks: int
) -> tuple[dict[str, object], str]:
    """Return keys and text of a step in which every rank is played; a terminal shows how far that is."""
    from cosmic_opt.reporting.rank_scores import rank_keys, rank_text
    from cosmic_opt.search.every_rank import rank_report

    watch = partial(progress_bar, quiet=request.output.quiet)
    try:
        ranks = rank_report(problem.instance, batch, slowdown, equal_ticks, watch=watch)
    except SpecError as error:
        raise SpecError(error.message, where=SLOW_RANK if slowdown else EVERY_RANK, hint=error.hint) from None
    return rank_keys(ranks), rank_text(ranks)


def _refuse(request: Request, batch: DesignBatch, keys: dict[str, object], broken: list[Constraint]) -> int:
    keys |= {"metrics": None, "breakdown": None, "violations": [rule_keys(rule) for rule in broken]}
    text = f"{request.title}: refused, the design breaks\n{rules_text(broken)}\n\n{design_text(batch)}"
    request.output.result("simulate", keys, text)
    return INFEASIBLE


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "simulate", simulate)


def _too_slow(problem: Problem, batch: DesignBatch) -> list[Constraint]:
    """Return the rules on simulated quantities that the design breaks."""
    from cosmic_opt.search.filter import within_step_limit

    found = []
    for rule in problem.parameter_set.constraints:
        alone = replace(problem.instance, parameter_set=replace(problem.parameter_set, constraints=(rule,)))
        if rule.simulated and not len(next(within_step_limit(alone, iter([batch])))):
            found.append(rule)
    return found
