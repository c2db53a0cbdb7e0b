"""Rules on simulated quantities: what part of them the search can enforce as a limit on the scored time.

A training step has one time. A served model has several; the one that is scored and those that only have a limit come
from one simulator, which gives a design that breaks any of them no time at all.
"""

from __future__ import annotations

from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.metric_limits import metric_limits
from cosmic_opt.search.objective import is_inference

ANY_TIME = NO_LIMIT - 1
"""A limit that every design obeys that has a time."""


def limits_simulated(parameter_set: ParameterSet) -> bool:
    """Tell whether some rule is on a simulated quantity."""
    return any(rule.simulated for rule in parameter_set.constraints)


def step_limit(parameter_set: ParameterSet) -> int:
    """Return the longest time, in ticks, that every rule on a simulated quantity allows.

    Of a training step, `step_time <= 2 s` and `throughput >= 100` (sequences per second) are such rules. The simulator
    of a served model enforces them itself (`metric_limits`).

    Raises:
        SpecError: a rule of another form, which no bound on a time expresses.
    """
    limits = metric_limits(parameter_set)
    if is_inference(parameter_set):
        return ANY_TIME if limits else NO_LIMIT
    return min(limits.values(), default=NO_LIMIT)
