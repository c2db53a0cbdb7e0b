"""What the rules on simulated quantities say: a greatest time for each quantity they name."""

from __future__ import annotations

import math

from cosmic_opt.catalog.job_kinds import ENERGY, PER_NPU, THROUGHPUT
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.term import Apply, Constant, Simulated, Term
from cosmic_opt.search.objective import energy_of, is_inference, samples_of
from cosmic_opt.units import TICKS_PER_SECOND

_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}


def metric_limits(parameter_set: ParameterSet) -> dict[str, int]:
    """Return the greatest ticks that the rules allow each simulated quantity they name.

    For a rate, those are the ticks of as many samples as `samples_of` says.

    Raises:
        SpecError: a rule of another form.
    """
    limits: dict[str, int] = {}
    for constraint in parameter_set.constraints:
        if not constraint.simulated:
            continue
        found = _limits_of(constraint.term, parameter_set)
        if found is None:
            inference = is_inference(parameter_set)
            raise SpecError(
                f"the rule {constraint.name!r} is not a limit on {'a simulated time' if inference else 'the step'}: "
                f"{constraint.text}",
                where=constraint.where,
                hint="write first_token_time <= 500 ms, throughput >= 100, or energy <= 1 J"
                if inference
                else "write step_time <= 2 s, throughput >= 100, or energy <= 500 kJ",
            )
        for name, ticks in found:
            limits[name] = min(ticks, limits.get(name, ticks))
    return limits


def _limits_of(term: Term, parameter_set: ParameterSet) -> list[tuple[str, int]] | None:
    """Return the limits a rule is made of; None where it is more than limits."""
    if not isinstance(term, Apply):
        return None
    if term.operator == "and":
        parts = [_limits_of(operand, parameter_set) for operand in term.operands]
        known = [part for part in parts if part is not None]
        return [limit for part in known for limit in part] if len(known) == len(parts) else None
    if term.operator not in _TURNED or len(term.operands) != 2:
        return None
    left, right = term.operands
    operator = term.operator
    if isinstance(right, Simulated):
        left, right, operator = right, left, _TURNED[operator]
    if not isinstance(left, Simulated) or not isinstance(right, Constant) or not isinstance(right.value, int):
        return None
    if left.name == ENERGY.name:
        return [_energy_limit(operator, right.value, parameter_set)] if operator in ("<=", "<") else None
    if left.name in (THROUGHPUT, PER_NPU):
        if operator not in (">=", ">") or right.value <= 0:
            return None
        exact, rest = divmod(samples_of(parameter_set) * TICKS_PER_SECOND, right.value)
        return [(left.name, exact - int(operator == ">" and rest == 0))]
    return [(left.name, right.value - (operator == "<"))] if operator in ("<=", "<") else None


def _energy_limit(operator: str, microjoules: int, parameter_set: ParameterSet) -> tuple[str, int]:
    """Return the greatest ticks in which the boards draw no more (or less) than an energy."""
    ticks = microjoules / energy_of(1, parameter_set)
    return ENERGY.name, math.floor(ticks) if operator == "<=" else math.ceil(ticks) - 1
