"""Designs that share the optimal value: how many, and how to choose among them."""

from __future__ import annotations

from cosmic_opt.catalog.job_kinds import LATENCIES, RATES, THROUGHPUT
from cosmic_opt.reporting.numbers import exact
from cosmic_opt.search.objective import is_inference
from cosmic_opt.search.outcome import Outcome

TICKS_PER_MS = 10**9
WAITS = "output_token_time (or first_token_time)"
"""What orders servers of equal rate: how long users wait."""


def ties_text(outcome: Outcome) -> str:
    """Return how many designs tie and how to order them; "" where one is best, or where it is not known."""
    if outcome.tied is None or outcome.tied < 2:
        return ""
    lines = [f"{exact(outcome.tied)} designs tie; this one is of least code", _how_to_order(outcome)]
    return "\n".join(filter(None, lines))


def _how_to_order(outcome: Outcome) -> str:
    """Return the options that order servers of equal rate or latency.

    A rule on a rate has whole numbers only, so that it may hold servers that are slower by less than one, too.
    """
    objective, value = outcome.objective, outcome.value
    assert value is not None, "designs tie in a value"
    if not is_inference(outcome.design.parameter_set):
        return ""
    if objective.name in LATENCIES:
        rule = f"{objective.name} <= {_milliseconds(value)} ms"
        return f"to order them, add --require '{rule}' --objective {THROUGHPUT}"
    if objective.name in RATES and objective.show(value) >= 1:
        least = int(objective.show(value))
        rule = f"{objective.name} >= {least}"
        return f"to order all of {exact(least)} and more, add --require '{rule}' --objective {WAITS}"
    return ""


def _milliseconds(ticks: int) -> str:
    return f"{ticks // TICKS_PER_MS}.{ticks % TICKS_PER_MS:09d}".rstrip("0").rstrip(".")
