"""`pareto`: the exact front of the step time against a structural quantity."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_opt.cli.exits import DONE, INFEASIBLE
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.errors import SpecError, Where

FIRST = "step_time"


def pareto(
    request: Request,
    objectives: Annotated[
        str, typer.Option("--objectives", metavar="A,B", help="step_time and one of network_cost, total_bandwidth, ...")
    ] = "step_time,network_cost",
) -> int:
    """List every design that no other beats in one objective without losing in the other, with a proof."""
    from cosmic_opt.reporting.fronts import front_keys, front_text  # numba takes a second to load

    front = request.problem.pareto(second_objective(objectives))
    request.output.result("pareto", front_keys(front), front_text(request.title, front))
    return DONE if len(front.designs) else INFEASIBLE


def second_objective(text: str) -> str:
    """Return the quantity beside `step_time`.

    Raises:
        SpecError: not two different names, or `step_time` is not one of them.
    """
    names = [name.strip() for name in text.split(",")]
    others = [name for name in names if name != FIRST]
    if len(names) != 2 or len(others) != 1 or not others[0]:
        hint = "write --objectives step_time,network_cost"
        raise SpecError(f"{text!r} is not step_time and one quantity", where=Where("--objectives"), hint=hint)
    return others[0]


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "pareto", pareto)
