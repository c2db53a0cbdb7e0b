"""Designs that obey the rules and cannot run: as keys, as a paragraph, as one line of warning."""

from __future__ import annotations

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.designs import design_text, designs_keys, parameter_texts
from cosmic_opt.reporting.numbers import exact
from cosmic_opt.search.runnable import CannotRun


def cannot_run_keys(found: CannotRun | None) -> dict[str, object] | None:
    """Return how many designs cannot run, one of them, and why; None where none was found."""
    if found is None:
        return None
    return {
        "designs": found.designs,
        "looked_at": found.looked_at,
        "exact": found.exact,
        "design": next(designs_keys(found.design)),
        "reason": found.reason,
        "hint": found.hint,
    }


def nothing_runs_text(found: CannotRun) -> str:
    """Return why no design can run, with the design that shows it."""
    of = f"none of the {exact(found.looked_at)} designs that obey the rules can run"
    if not found.exact:
        of = f"none of {exact(found.looked_at)} designs drawn from those that obey the rules can run"
    return f"{of}: {found.reason}\n{design_text(found.design)}\n  hint: {found.hint}"


def some_cannot_run(found: CannotRun) -> str:
    """Return a warning of one line that designs cannot run, with one of them."""
    of = f"{exact(found.looked_at)} feasible design{'s'[: found.looked_at != 1]}"
    number = (
        f"{exact(found.designs)} of {of} cannot run"
        if found.exact
        else f"some feasible designs cannot run ({exact(found.designs)} of {exact(found.looked_at)} drawn)"
    )
    if found.every:
        number = f"none of {of}{'' if found.exact else ' drawn'} can run"
    return f"{number}, such as {line_of(found.design)}: {found.reason} ({found.hint})"


def line_of(design: DesignBatch) -> str:
    """Return the (first) design in one line: "dp 48, tp 1, algorithm [ring, direct]"."""
    return ", ".join(text for _, text in parameter_texts(design))
