"""The answer of a search, and its log while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from cosmic_opt.analysis.dead_knobs import DeadKnobs
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.feasibility.conflict import Conflict
from cosmic_opt.reporting.dead_knobs import dead_keys, dead_text
from cosmic_opt.reporting.designs import design_text, designs_keys
from cosmic_opt.reporting.launch import launch_keys, launch_text
from cosmic_opt.reporting.numbers import count_text, designs_text, exact
from cosmic_opt.reporting.rules import conflict_keys
from cosmic_opt.reporting.runnable import cannot_run_keys, some_cannot_run
from cosmic_opt.reporting.ties import ties_text
from cosmic_opt.search.engine_names import CALIBRATED, EVENTS
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.outcome import LogLine, Outcome, Stop
from cosmic_opt.search.runnable import CannotRun
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.units import show_joules, show_seconds

LOG_HEADER = f"{'time':>8}  {'regions closed':>19}  {'incumbent':>14}  {'bound':>14}  {'gap':>8}  {'scored':>9}  note"


def log_row(line: LogLine, objective: Objective) -> str:
    """Return a line of the log under `LOG_HEADER`, in the objective's unit."""
    regions = f"{exact(line.regions_closed)} / {exact(line.regions)}" if line.regions else "-"
    incumbent, bound = (value_text(value, objective) for value in (line.incumbent, line.bound))
    gap = "-"
    if line.incumbent is not None and line.bound is not None:
        gap = gap_text((line.incumbent - line.bound) / line.incumbent)
    return (
        f"{line.seconds:>7.2f}s  {regions:>19}  {incumbent:>14}  {bound:>14}  {gap:>8}  "
        f"{exact(line.evaluations):>9}  {line.note}"
    ).rstrip()


def value_text(value: int | None, objective: Objective) -> str:
    """Return a value of the objective with its unit; "-" when there is none yet."""
    if value is None:
        return "-"
    shown = objective.show(value)
    if objective.watts is not None:
        return f"{show_joules(shown)}{objective.unit.removeprefix('J')}"
    return show_seconds(shown) if objective.unit == "s" else f"{shown:,.6g} {objective.unit}"


def may_have_less_code(stop: str) -> str:
    """Return that a limit came before the optimum of least code was found."""
    return f"an equally good design may have less code: {stop}"


def gap_text(gap: float) -> str:
    """Return a relative gap in percent; a gap above 0 never reads as 0."""
    if gap == 0:
        return "0 %"
    return f"{100 * gap:.2f} %" if gap >= 5e-5 else "< 0.01 %"


@dataclass(frozen=True)
class Score:
    """The score of the design of an answer: as keys, and on the screen."""

    keys: Mapping[str, object]
    text: str


def answer_keys(
    outcome: Outcome,
    instance: BoundInstance,
    score: Score | None,
    conflict: Conflict,
    knobs: DeadKnobs | None,
    idle: CannotRun | None,
    *,
    seed: int,
    stop: str,
) -> dict[str, object]:
    """Return the object of `solve --json`; `knobs` are None where no time was left to look for them.

    `idle` are the feasible designs that cannot run.
    """
    objective = outcome.objective
    bound = None if outcome.bound is None else objective.show(outcome.bound)
    grid = instance.parameter_set.grid_size
    scored = {"metrics": None, "breakdown": None} if score is None else score.keys
    keys: dict[str, object] = {
        "name": instance.name,
        "scope": instance.scope,
        "engine": outcome.engine if instance.calibrated is None else CALIBRATED,
        "status": outcome.status.value,
        "stop": stop,
        "design": next(designs_keys(outcome.design), {}),
        "objective": {"name": objective.name, "value": outcome.shown, "unit": objective.unit},
        "bound": bound,
        "gap": outcome.gap,
        "least_code": outcome.least_code,
        **scored,
        "warnings": _warnings(score, idle),
        "cannot_run": cannot_run_keys(idle),
        **({"launch": [], "environment": {}} if score is None else launch_keys(instance, outcome.design)),
        "tied_designs": outcome.tied,
        "feasible_designs": outcome.designs,
        "feasible_designs_text": exact(outcome.designs),
        "before_simulated_rules": outcome.before_simulated_rules,
        "grid_size": grid,
        "grid_size_text": exact(grid),
        "evaluations": outcome.evaluations,
        "wasted": outcome.wasted,
        "nodes": outcome.nodes,
        "regions": outcome.regions,
        "seconds": outcome.seconds,
        "seed": seed,
        **({} if outcome.engine == EVENTS else dead_keys(knobs)),
        "study": None if outcome.study is None else asdict(outcome.study),
    }
    return keys | (conflict_keys(conflict) if outcome.status is SolveStatus.INFEASIBLE else {})


def _warnings(score: Score | None, idle: CannotRun | None) -> list[object]:
    """Return the warnings about the design, and that others of the problem cannot run."""
    own = [] if score is None else score.keys["warnings"]
    assert isinstance(own, list), "warnings are a list of texts"
    return [*own, *([] if idle is None else [some_cannot_run(idle)])]


def _scored(outcome: Outcome) -> str:
    """Return how many designs agents asked to score, and how many of them broke a rule."""
    wasted = f", {exact(outcome.wasted)} of them infeasible" if outcome.wasted else ""
    return f"{exact(outcome.evaluations)} designs scored{wasted}"


def answer_text(
    title: str,
    outcome: Outcome,
    instance: BoundInstance,
    score: Score | None,
    knobs: DeadKnobs | None,
    idle: CannotRun | None,
    *,
    seed: int,
    stop: str,
) -> str:
    """Return the answer on one screen: proof state, design, score."""
    bounded = f"{exact(outcome.regions)} regions, {exact(outcome.nodes)} boxes bounded, "
    if instance.calibrated is not None:
        bounded = ""
    by = " by events" if outcome.engine == EVENTS else ""
    effort = f"{bounded}{_scored(outcome)}{by}, {outcome.seconds:.3g} s; seed {seed}"
    size = (
        f"{designs_text(outcome.designs, before_simulated_rules=outcome.before_simulated_rules)} "
        f"of {count_text(instance.parameter_set.grid_size)} in the grid"
    )
    proof = "\n".join(filter(None, [_proof(outcome, stop), ties_text(outcome)]))
    head = f"{title}\nminimise {outcome.objective.name}: {proof}\n{size}\n{effort}"
    if outcome.objective.samples is not None:
        head = head.replace("minimise", "maximise", 1)
    warning = "" if idle is None or outcome.cannot_run is not None else f"warning: {some_cannot_run(idle)}"
    if score is None:
        return f"{head}\n\n{warning}".rstrip()
    launch = launch_text(instance, outcome.design)
    parts = [head, design_text(outcome.design), launch, score.text, warning]
    if outcome.engine != EVENTS:
        parts.append(dead_text(knobs))
    return "\n\n".join(filter(None, parts))


def _proof(outcome: Outcome, stop: str) -> str:
    value, bound = (value_text(number, outcome.objective) for number in (outcome.value, outcome.bound))
    match outcome.status:
        case SolveStatus.OPTIMAL:
            proved = f"{value}, proved optimal (bound = value)"
            return proved if outcome.stop is Stop.PROVED else f"{proved}\n{may_have_less_code(stop)}"
        case SolveStatus.FEASIBLE if outcome.gap is not None:
            return f"{value}, not proved: {stop}, bound {bound}, gap {gap_text(outcome.gap)}"
        case SolveStatus.FEASIBLE:
            return f"{value}, not proved: {stop}, no bound without regions"
        case SolveStatus.INFEASIBLE:
            return "no feasible design, proved" if outcome.cannot_run is None else "no design can run, proved"
        case _:
            return f"no design found yet: {stop}"
