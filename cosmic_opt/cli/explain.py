"""`explain`: why nothing is feasible and the cheapest way out; why not this design, and which is nearest."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

import typer

from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.cli.design_file import read_values
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.errors import SpecError, Where, nearest

WEIGHTS = ("drop", "value")
LARGEST_WEIGHT = 10**6
_WEIGHT = re.compile(r"\d{1,7}(\.\d{1,6})?")


def explain(
    request: Request,
    design: Annotated[
        str | None, typer.Option("--design", metavar="FILE", help="Why not this one? JSON or YAML, '-' for stdin.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="At most so many answers of a kind.")] = 5,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="TEXT", help="Cost of a change: drop=10 (a rule), value=1 (a value more)."),
    ] = None,
) -> int:
    """Say why no design is feasible and what the cheapest change is; with --design, why that one is not.

    A changed number costs its relative change: 24 GB to 30 GB costs 0.25. An infeasible problem is an answer here:
    the exit code is 0.
    """
    costs = Costs() if weights is None else parse_weights(weights)
    problem = request.problem
    asked = None if design is None else read_values(problem, design)
    explanation = problem.explain(limit=limit, costs=costs, seed=request.seed)
    why_not = None
    if asked is not None:
        wider, values = asked
        why_not = wider.why_not(values, limit=limit)
    from cosmic_opt.reporting.explanations import explanation_keys, explanation_text

    text = explanation_text(request.title, explanation, why_not, request.edits)
    request.output.result("explain", explanation_keys(explanation, why_not), text)
    return DONE


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "explain", explain)


def parse_weights(text: str) -> Costs:
    """Return the costs that `drop=10,value=1` spells; either may be left out.

    Raises:
        SpecError: another name, the same name twice, or no positive number with at most six decimals.
    """
    where = Where("--weights")
    given: dict[str, Fraction] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if name not in WEIGHTS:
            raise SpecError(f"unknown weight {name!r}", where=where, hint=nearest(name, WEIGHTS))
        if name in given:
            raise SpecError(f"{name!r} is given twice", where=where, hint="keep one of the two")
        if not equals or not _WEIGHT.fullmatch(number) or not 0 < Fraction(number) <= LARGEST_WEIGHT:
            hint = f"a positive number up to {LARGEST_WEIGHT:,} with at most six decimals: drop=10,value=0.5"
            raise SpecError(f"{part.strip()!r} is not a weight", where=where, hint=hint)
        given[name] = Fraction(number)
    return Costs(**given)
