"""`simulate`: the full score of one design, or the rules it breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.cli.design_file import read_design
from cosmic_opt.cli.exits import DONE, INFEASIBLE
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.reporting.designs import design_text, designs_keys
from cosmic_opt.reporting.rules import rule_keys, rules_text


def simulate(
    request: Request,
    design: Annotated[
        str | None,
        typer.Option("--design", metavar="FILE", help="JSON or YAML, '-' for stdin; default: the instance's own."),
    ] = None,
) -> int:
    """Score one design: time, where it goes, memory, cost. A design that breaks a rule is refused."""
    problem, batch = read_design(request.problem, design)
    keys: dict[str, object] = {"name": problem.instance.name, "design": next(designs_keys(batch))}
    broken = problem.violations(batch)
    if not broken:
        from cosmic_opt.reporting.scores import score_keys, score_text  # numba takes a second to load

        report = problem.simulate(batch)
        broken = _too_slow(problem, batch)
        if not broken:
            text = f"{request.title}\n\n{design_text(batch)}\n\n{score_text(report, problem.instance)}"
            request.output.result("simulate", {**keys, **score_keys(report), "violations": []}, text)
            return DONE
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
