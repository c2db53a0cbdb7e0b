"""Why nothing is feasible: a minimal set of rules that together exclude every design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet


def feasible_size(parameter_set: ParameterSet, rules: Sequence[Constraint]) -> int:
    """Return how many designs satisfy `rules` alone.

    Raises:
        LimitError: the rules entangle too many parameters to count.
    """
    return feasible_set(lower(replace(parameter_set, constraints=tuple(rules)))).size


def minimal_conflict(parameter_set: ParameterSet) -> tuple[Constraint, ...]:
    """Return rules that no design satisfies together, though every proper subset of them has a design.

    The problem has no design. When its structural rules do have one, the rules on simulated quantities exclude it,
    and they are the answer. One count per rule, by deletion; where a subset is too large to count, the rule stays.
    """
    kept = [rule for rule in parameter_set.constraints if not rule.simulated]
    if feasible_size(parameter_set, kept):
        return tuple(rule for rule in parameter_set.constraints if rule.simulated)
    for rule in tuple(kept):
        rest = [other for other in kept if other is not rule]
        try:
            if feasible_size(parameter_set, rest) == 0:
                kept = rest
        except LimitError:
            continue
    return tuple(kept)
