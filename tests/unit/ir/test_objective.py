"""Expressions as linear objectives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.objective import LinearObjective, lower_objective
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.term import Apply, Constant, Term
from tests.strategies import declare, whole_grid

MODEL = """
schema: cosmic-opt/model@1
name: small
indices: {{dim: dims}}
parameters:
  a: {{stack: workload, domain: [1, 2, 4]}}
  b: {{stack: workload, domain: [3, 5]}}
  colour: {{stack: workload, domain: [red, green]}}
constraints:
  probe: "{rule}"
"""


def probe(expression: str) -> tuple[ParameterSet, Term]:
    """Return a parameter set without rules, and the bound expression."""
    parameter_set = declare(MODEL.format(rule=f"{expression} >= 0"), {"dims": 2})
    term = parameter_set.constraints[0].term
    assert isinstance(term, Apply)
    return replace(parameter_set, constraints=()), term.operands[0]


def objective_of(expression: str) -> LinearObjective:
    parameter_set, term = probe(expression)
    return lower_objective(parameter_set, lowering.lower(parameter_set), term)[1]


def test_functions_of_one_column_become_its_weights() -> None:
    assert objective_of("2 * a - b + a * a + 7") == LinearObjective((0, 1), ((3, 8, 24), (-3, -5)), constant=7)


def test_a_column_counted_twice_is_one_column() -> None:
    assert objective_of("a - a + b") == LinearObjective((0, 1), ((0, 0, 0), (3, 5)))


def test_a_category_counts_through_its_condition() -> None:
    assert objective_of("count(colour == red, colour == green)") == LinearObjective((2,), ((1, 1),))


def test_a_product_of_columns_gets_a_helper_column() -> None:
    parameter_set, term = probe("a * b + 1")
    model, objective = lower_objective(parameter_set, lowering.lower(parameter_set), term, maximise=True)
    assert objective == LinearObjective((3,), ((3, 5, 6, 10, 12, 20),), maximise=True, constant=1)
    codes, covered = complete(model, whole_grid(parameter_set))
    assert covered.all()
    values = np.array(objective.weights[0])[codes[:, 3]]
    np.testing.assert_array_equal(values, np.repeat([3, 5, 6, 10, 12, 20], 2))


def test_a_helper_holds_only_what_the_rules_leave() -> None:
    parameter_set, term = probe("a * b")
    rules = declare(MODEL.format(rule="a + b <= 5"), {"dims": 2}).constraints
    parameter_set = replace(parameter_set, constraints=rules)
    _, objective = lower_objective(parameter_set, lowering.lower(parameter_set), term)
    assert objective.weights == ((3, 6),)


def test_the_rows_without_a_rule_stay_as_they_were() -> None:
    parameter_set, term = probe("a * b")
    model = lowering.lower(parameter_set)
    extended, _ = lower_objective(parameter_set, model, term)
    assert extended.constraints == model.constraints
    assert extended.designs == model.designs


def test_an_infeasible_model_needs_no_helpers() -> None:
    parameter_set, term = probe("a * b")
    rules = declare(MODEL.format(rule="a + b <= 0"), {"dims": 2}).constraints
    parameter_set = replace(parameter_set, constraints=rules)
    model = lowering.lower(parameter_set)
    assert lower_objective(parameter_set, model, term) == (model, LinearObjective((), ()))


def test_a_constant_is_a_constant() -> None:
    parameter_set, _ = probe("a * b")
    _, objective = lower_objective(parameter_set, lowering.lower(parameter_set), Constant(9))
    assert objective == LinearObjective((), (), constant=9)
