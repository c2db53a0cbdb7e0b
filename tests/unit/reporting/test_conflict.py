"""A minimal conflict excludes every design, and no proper subset of it does."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.reporting.conflict import feasible_size, minimal_conflict

TABLE1 = Problem.load("cosmic/table1-1024")
RULES = ("tp >= 8", "tp <= 4", "dp * tp == 1024", "pp == 2", "pp != 2", "sp + tp <= 9", "chunks < 2", "dp == sp")


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(RULES), min_size=2, max_size=5, unique=True))
def test_every_rule_of_a_conflict_is_needed(rules: list[str]) -> None:
    parameter_set = TABLE1.require(*rules).parameter_set
    assume(feasible_size(parameter_set, parameter_set.constraints) == 0)
    conflict = minimal_conflict(parameter_set)
    assert feasible_size(parameter_set, conflict) == 0
    for rule in conflict:
        assert feasible_size(parameter_set, [other for other in conflict if other is not rule]) > 0


def test_rules_on_simulated_quantities_are_blamed_only_when_the_others_allow_a_design() -> None:
    slow = TABLE1.require("step_time <= 1 ns").parameter_set
    assert [rule.name for rule in minimal_conflict(slow)] == ["required"]
    impossible = TABLE1.require("tp == 3", "step_time <= 1 ns").parameter_set
    assert [rule.name for rule in minimal_conflict(impossible)] == ["required_1"]


def test_one_rule_alone_keeps_what_it_allows() -> None:
    parameter_set = TABLE1.parameter_set
    (inner,) = [rule for rule in parameter_set.constraints if rule.name == "inner"]
    assert feasible_size(parameter_set, [inner]) * 3 == 2 * parameter_set.grid_size
    assert feasible_size(replace(parameter_set, constraints=(inner,)), []) == parameter_set.grid_size
