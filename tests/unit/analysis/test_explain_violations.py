from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.violations import violations
from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.evaluate import holds
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.units import Unit
from tests.strategies import FOCUSES, declare, sources


def problem(rule: str) -> ParameterSet:
    return declare(
        f"""
schema: cosmic-opt/model@1
name: small
parameters:
  u: {{stack: workload, domain: [1, 2, 4]}}
  v: {{stack: workload, domain: [1, 2, 4]}}
  flag: {{stack: workload, domain: [false, true]}}
  block: {{stack: network, domain: [ring, switch]}}
constraints:
  it: {{rule: "{rule}", why: because}}
"""
    )


VALUES = {"u": 2, "v": 4, "flag": 1, "block": "ring"}


def relations(rule: str) -> list[tuple[str, object, str, str, object]]:
    return [
        (v.left.text, v.left.value, v.operator, v.right.text, v.right.value) for v in violations(problem(rule), VALUES)
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("u * v <= 6", [("u * v", 8, "<=", "6", 6)]),
        ("u * v == 8", []),
        ("block == switch", [("block", "ring", "==", "switch", "switch")]),
        ("u > 2 and v > 2", [("u", 2, ">", "2", 2)]),
        ("u > 2 or v < 2", [("u", 2, ">", "2", 2), ("v", 4, "<", "2", 2)]),
        ("block == ring implies u == 4", [("u", 2, "==", "4", 4)]),
        ("not (u == 2 or v == 1)", [("u", 2, "!=", "2", 2)]),
        ("not flag", [("flag", 1, "==", "0", 0)]),
        ("flag implies not flag", [("flag", 1, "==", "0", 0)]),
        ("u in {1, 4}", [("u", 2, "==", "1", 1), ("u", 2, "==", "4", 4)]),
        ("4 <= u <= v", [("4", 4, "<=", "u", 2)]),
    ],
)
def test_the_relations_that_fail_are_named_with_both_sides(rule: str, expected: list[object]) -> None:
    assert relations(rule) == expected


def test_a_quantity_is_shown_in_its_unit_and_not_term_by_term() -> None:
    gpt3 = Problem.load("cosmic/gpt3-175b-system2").require("network_cost <= 1000 $ or tp == 1")
    values = {**next(gpt3.baseline().points()), "tp": 8, "dp": 16}
    cost, degree = violations(gpt3.parameter_set, values)
    assert (cost.left.text, cost.left.unit, cost.operator) == ("network_cost", Unit.DOLLARS, "<=")
    assert (degree.left.value, degree.right.value) == (8, 1)


def test_a_value_outside_its_domain_is_named_and_rules_that_read_it_are_not_judged() -> None:
    found = violations(problem("u * v <= 1"), {**VALUES, "u": 3})
    assert [(v.constraint, v.left.value, v.operator, v.right.value) for v in found] == [
        ("domain of u", 3, "in", "1, 2, 4")
    ]


def test_a_design_without_a_value_for_a_parameter_is_refused() -> None:
    with pytest.raises(SpecError, match="gives no value for 'v'"):
        violations(problem("u == 1"), {"u": 1, "flag": 0, "block": "ring"})


@pytest.mark.parametrize("focus", FOCUSES)
def test_a_rule_is_listed_exactly_when_the_design_breaks_it(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        parameter_set = data.draw(sources(focus)).bind()
        values = {column.name: data.draw(st.sampled_from(column.values)) for column in parameter_set.columns}
        design = parameter_set.design(values)
        broken = {rule.name for rule in parameter_set.constraints if not holds(rule, design)[0]}
        assert {violation.constraint for violation in violations(parameter_set, values)} == broken

    check()
