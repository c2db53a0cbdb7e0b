"""Rules on simulated quantities: what part of them the search can enforce as a limit on the step."""

from __future__ import annotations

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.term import Apply, Constant, Simulated, Term
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.units import TICKS_PER_SECOND

_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}


def step_limit(parameter_set: ParameterSet) -> int:
    """Return the longest step, in ticks, that every rule on a simulated quantity allows.

    An upper limit on `step_time` and a lower limit on `throughput` (sequences per second) are such rules.

    Raises:
        SpecError: a rule of another form, which no bound on the step expresses.
    """
    limit = NO_LIMIT
    for constraint in parameter_set.constraints:
        if not constraint.simulated:
            continue
        ticks = _limit_of(constraint.term, int(parameter_set.data["global_batch"]))
        if ticks is None:
            raise SpecError(
                f"the rule {constraint.name!r} is not a limit on the step: {constraint.text}",
                where=constraint.where,
                hint="write step_time <= 2 s, or throughput >= 100",
            )
        limit = min(limit, ticks)
    return limit


def _limit_of(term: Term, batch: int) -> int | None:
    if not isinstance(term, Apply) or term.operator not in _TURNED or len(term.operands) != 2:
        if isinstance(term, Apply) and term.operator == "and":
            limits = [_limit_of(operand, batch) for operand in term.operands]
            known = [limit for limit in limits if limit is not None]
            return min(known) if len(known) == len(limits) else None
        return None
    left, right = term.operands
    operator = term.operator
    if isinstance(right, Simulated):
        left, right, operator = right, left, _TURNED[operator]
    if not isinstance(left, Simulated) or not isinstance(right, Constant) or not isinstance(right.value, int):
        return None
    if left.name == "step_time" and operator in ("<=", "<"):
        return right.value - (operator == "<")
    if left.name == "throughput" and operator in (">=", ">") and right.value > 0:
        exact, rest = divmod(batch * TICKS_PER_SECOND, right.value)
        return exact - int(operator == ">" and rest == 0)
    return None
