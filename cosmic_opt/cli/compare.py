"""`compare`: designs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.cli.design_file import read_design
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.errors import InfeasibleError, SpecError, Where

MOST = 8
OWN = "the instance's own design does not run here: give the other one, too, --design A.json --design B.json"


def compare(
    request: Request,
    design: Annotated[
        list[str] | None,
        typer.Option("--design", metavar="FILE", help="A design, or the output of solve --json; give two or more."),
    ] = None,
) -> int:
    """Score designs and show them side by side, knob by knob and term by term.

    One --design is compared with the instance's own design. A design that breaks a rule is refused.
    """
    from cosmic_opt.reporting.comparisons import Scored, comparison_keys, comparison_text  # numba takes a second

    sources: list[str | None] = list(design or [])
    if not sources:
        raise SpecError("which designs?", where=Where("--design"), hint="give --design A.json --design B.json")
    if len(sources) > MOST:
        raise SpecError(f"{len(sources)} designs side by side", where=Where("--design"), hint=f"at most {MOST}")
    if len(sources) == 1:
        sources.insert(0, None)
    scored = []
    for name, source in zip(_names(sources), sources, strict=True):
        problem, batch = read_design(request.problem, source)
        try:
            scored.append(Scored(name, batch, problem.simulate(batch)))
        except InfeasibleError as error:
            hint = error.hint if source is not None else OWN
            raise InfeasibleError(f"{name}: {error.message}", where=error.where, hint=hint) from None
    request.output.result("compare", comparison_keys(scored), comparison_text(request.title, scored))
    return DONE


def _names(sources: list[str | None]) -> list[str]:
    """Return a short, distinct name for each source."""
    names: list[str] = []
    for source in sources:
        stem = "own design" if source is None else "stdin" if source == "-" else Path(source).stem
        taken = names.count(stem)
        names.append(stem if not taken else f"{stem} ({taken + 1})")
    return names


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "compare", compare)
