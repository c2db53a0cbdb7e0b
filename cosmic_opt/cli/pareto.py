"""`pareto`: the exact front of the step time, or of a served model's times and rates, against other quantities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cosmic_opt.catalog.job_kinds import INFERENCE, TRAINING, JobKind
from cosmic_opt.cli.exits import DONE, INFEASIBLE, INTERRUPTED, LIMIT
from cosmic_opt.cli.interrupt import StoppableBudget, stop_on_interrupt
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.cli.time_limit import TimeLimit, seconds_of
from cosmic_opt.errors import LimitError, SpecError, Where, nearest
from cosmic_opt.feasibility.conflict import first_conflict
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import structural_names
from cosmic_opt.reporting.counts import why_empty

if TYPE_CHECKING:  # numba takes a second to load
    from cosmic_opt.search.pareto import ParetoFront

FIRST = "step_time"
DEFAULTS = {TRAINING.name: "step_time,network_cost", INFERENCE.name: "throughput_per_npu,output_token_time"}


def pareto(
    request: Request,
    objectives: Annotated[
        str | None,
        typer.Option(
            "--objectives",
            metavar="A,B[,C]",
            help="step_time and one or two of network_cost, memory_per_npu, ...; of a served model any two or three.",
        ),
    ] = None,
    time_limit: TimeLimit = None,
) -> int:
    """List every design that no other beats in one objective without losing in another, with a proof."""
    from cosmic_opt.reporting.cluster_warnings import warnings_of, warnings_text
    from cosmic_opt.reporting.fronts import front_keys, front_status, front_text  # numba takes a second to load
    from cosmic_opt.reporting.runnable import cannot_run_keys, some_cannot_run
    from cosmic_opt.search.outcome import Stop

    budget = StoppableBudget(None if time_limit is None else seconds_of(time_limit))
    kind = request.problem.spec.kind
    others = other_objectives(
        DEFAULTS[kind.name] if objectives is None else objectives, kind, request.problem.parameter_set
    )
    with stop_on_interrupt(budget.stopped):
        front = _front(request, others, budget)
    interrupted = budget.stopped.is_set() and front.stop is not Stop.PROVED
    scored = request.problem.scored(*others)
    infeasible = front_status(front) == "infeasible"
    idle = scored.why_none(seed=request.seed) if infeasible else None
    seen = scored.cannot_run(seed=request.seed) if infeasible and idle is None else idle
    text = front_text(request.title, front, idle, interrupted=interrupted)
    if infeasible and idle is None:
        text += "" if seen is None else f"\n\nwarning: {some_cannot_run(seen)}"
        text += f"\n\n{why_empty(first_conflict(scored.parameter_set))}"
    warnings = warnings_of(scored.instance, front.designs)
    text = "\n\n".join(filter(None, (text, warnings_text(warnings))))
    keys = {**front_keys(front, interrupted=interrupted), "cannot_run": cannot_run_keys(seen), "warnings": warnings}
    request.output.result("pareto", keys, text)
    if interrupted:
        return INTERRUPTED
    return {"infeasible": INFEASIBLE, "unknown": LIMIT}.get(front_status(front), DONE)


def _front(request: Request, others: Sequence[str], budget: StoppableBudget) -> ParetoFront:
    """Return the front; an interrupt before the search began, which a limit then kept from beginning, is one."""
    try:
        return request.problem.pareto(*others, budget=budget)
    except LimitError:
        if budget.stopped.is_set():
            raise KeyboardInterrupt from None
        raise


def other_objectives(text: str, kind: JobKind, parameter_set: ParameterSet) -> list[str]:
    """Return the one or two quantities beside `step_time`; of a served model, which has several times, every one.

    Raises:
        SpecError: not two or three different names of quantities, `step_time` is not one of them, or one beside it is
            simulated, too.
    """
    quantities = parameter_set.quantities
    known = list(quantities) if kind is INFERENCE else [FIRST, *structural_names(quantities)]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name and name not in known:
            what = f"{name!r} cannot be beside step_time" if name in quantities else f"unknown quantity {name!r}"
            raise SpecError(what, where=Where("--objectives"), hint=nearest(name, known))
    if kind is INFERENCE:
        if len(names) not in (2, 3) or len(set(names)) != len(names) or not all(names):
            hint = "write --objectives throughput_per_npu,output_token_time"
            raise SpecError(f"{text!r} is not two or three quantities", where=Where("--objectives"), hint=hint)
        return names
    others = [name for name in names if name != FIRST]
    if len(names) not in (2, 3) or len(set(others)) != len(names) - 1 or not all(others):
        hint = "write --objectives step_time,network_cost or step_time,network_cost,memory_per_npu"
        raise SpecError(f"{text!r} is not step_time and one or two quantities", where=Where("--objectives"), hint=hint)
    return others


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "pareto", pareto)
