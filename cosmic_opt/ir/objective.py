"""Lower an expression to a linear objective: a weighted sum over design columns and helper columns."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.ir.draft import Draft
from cosmic_opt.ir.model import LoweredModel, Weights
from cosmic_opt.ir.passes.forms import summands
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.term import Term


@dataclass(frozen=True, slots=True)
class LinearObjective:
    """Minimise (or maximise) `constant` plus the sum over columns of one weight per code."""

    columns: tuple[int, ...]
    weights: Weights
    maximise: bool = False
    constant: int = 0


def lower_objective(
    parameter_set: ParameterSet, model: LoweredModel, term: Term, *, maximise: bool = False
) -> tuple[LoweredModel, LinearObjective]:
    """Return the model with the helper columns that `term` needs, and `term` as a sum over its columns.

    `model` is the lowered `parameter_set`; `term` is a number in base units. A summand that reads one column becomes
    weights of that column; a wider one (memory of one NPU, cost of one dimension) is tabulated, over the combinations
    the rules allow.

    Raises:
        LimitError: a summand relates too many parameters at once to be tabulated.
    """
    if model.infeasible:
        return model, LinearObjective((), (), maximise)
    draft = Draft.resumed(parameter_set, model)
    constant, columns, weights = draft.weighted_sum(summands(term))
    return draft.shrink(), LinearObjective(columns, weights, maximise, constant)
