from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.conflict import Conflict, Oracle, _conflicts, first_conflict, minimal_conflicts, shrink
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.reporting.counts import why_empty
from tests.strategies import FOCUSES, Source, brute_force, sources


def satisfiable(parameter_set: ParameterSet, rules: tuple[Constraint, ...]) -> bool:
    return len(brute_force(replace(parameter_set, constraints=rules))) > 0


def minimal_sets(count: int, satisfiable_sets: set[frozenset[int]]) -> set[frozenset[int]]:
    subsets = [frozenset(s) for n in range(count + 1) for s in itertools.combinations(range(count), n)]
    bad = {subset for subset in subsets if subset not in satisfiable_sets}
    return {subset for subset in bad if not any(other < subset for other in bad)}


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.integers(1, 6), st.lists(st.frozensets(st.integers(0, 5), min_size=1, max_size=4), max_size=5))
def test_every_minimal_conflict_is_found_once(count: int, planted: list[frozenset[int]]) -> None:
    conflicts = [conflict for conflict in planted if max(conflict) < count]

    def consistent(chosen: frozenset[int]) -> bool:
        return not any(conflict <= chosen for conflict in conflicts)

    subsets = [frozenset(s) for n in range(count + 1) for s in itertools.combinations(range(count), n)]
    expected = minimal_sets(count, {subset for subset in subsets if consistent(subset)})
    found = list(_conflicts(count, consistent))
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_shrinking_keeps_a_conflict_and_nothing_else() -> None:
    assert shrink(frozenset(range(6)), lambda chosen: not {1, 4} <= chosen) == {1, 4}


@pytest.mark.parametrize("focus", FOCUSES)
def test_conflicts_of_generated_problems_are_unsatisfiable_and_minimal(focus: str) -> None:
    infeasible = 0

    @settings(derandomize=True, deadline=None, max_examples=160, suppress_health_check=list(HealthCheck))
    @given(sources(focus))
    def check(source: Source) -> None:
        nonlocal infeasible
        parameter_set = source.bind()
        conflicts = minimal_conflicts(parameter_set, limit=5)
        assert bool(conflicts) != satisfiable(parameter_set, parameter_set.constraints)
        infeasible += bool(conflicts)
        for conflict in conflicts:
            assert not satisfiable(parameter_set, conflict)
            for rule in conflict:
                assert satisfiable(parameter_set, tuple(other for other in conflict if other is not rule))

    check()
    assert infeasible >= 40  # 200 over the focuses


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (("tp == 3",), {("required",)}),
        (("tp > 8", "tp < 8"), {("required_1", "required_2")}),
        (
            ("dp * sp * pp == 1", "tp <= 64"),  # tp is then 1,024, or too small for one NPU's memory
            {
                ("world_size", "required_1", "required_2"),
                ("world_size", "runnable_tp", "required_1"),
                ("fits", "required_1", "required_2"),
                ("fits", "runnable_tp", "required_1"),
            },
        ),
        (("memory_per_npu_cosmic <= 1 GB",), {("world_size", "required")}),
    ],
)
def test_conflicts_of_the_full_stack_name_the_rules_a_person_would(
    rules: tuple[str, ...], expected: set[tuple[str, ...]]
) -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2").require(*rules)
    conflicts = minimal_conflicts(problem.parameter_set, limit=10)
    assert {tuple(rule.name for rule in conflict) for conflict in conflicts} == expected


def test_rules_on_simulated_quantities_are_blamed_only_when_the_others_allow_a_design() -> None:
    table1 = Problem.load("cosmic/table1-1024")
    slow = table1.require("step_time <= 1 ns").parameter_set
    assert [rule.name for rule in first_conflict(slow).rules] == ["required"]
    impossible = table1.require("tp == 3", "step_time <= 1 ns").parameter_set
    assert [rule.name for rule in first_conflict(impossible).rules] == ["required_1"]


def test_a_rule_whose_rest_is_too_large_to_decide_stays_in_the_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tp > 8 and tp < 8 nothing can go; whether the world's size can is not decided, so it stays."""
    problem = Problem.load("cosmic/gpt3-175b-system2").require("tp > 8", "tp < 8").parameter_set
    assert first_conflict(problem).minimal
    ask = Oracle.satisfiable

    def limited(oracle: Oracle, chosen: frozenset[int]) -> bool:
        if not any(oracle.rules[position].name == "world_size" for position in chosen):
            raise LimitError("too many ways", hint="shorten a domain")
        return ask(oracle, chosen)

    monkeypatch.setattr(Oracle, "satisfiable", limited)
    conflict = first_conflict(problem)
    assert [rule.name for rule in conflict.rules] == ["world_size", "required_1", "required_2"]
    assert not conflict.minimal
    assert "too large to shrink: some of these rules may not be needed" in why_empty(conflict)


def test_rules_that_are_too_large_to_decide_at_all_are_the_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.load("cosmic/table1-1024").require("tp == 3").parameter_set

    def limited(oracle: Oracle, chosen: frozenset[int]) -> bool:
        raise LimitError("too many ways", hint="shorten a domain")

    monkeypatch.setattr(Oracle, "satisfiable", limited)
    assert first_conflict(problem) == Conflict(problem.constraints, minimal=False)


BIG = 2**62
WORKLOAD = Problem.load("cosmic/gpt3-13b-system1").scope("workload")


def test_numbers_too_large_for_a_diagram_and_cp_sat_leave_the_conflict_minimal() -> None:
    problem = WORKLOAD.require(f"tp * {BIG} + dp * {BIG // 2} >= {3 * BIG}", "tp + dp == 3").parameter_set
    conflict = first_conflict(problem)
    assert [rule.text for rule in conflict.rules] == [rule.text for rule in problem.constraints[-2:]]
    assert conflict.minimal


def test_a_conflict_of_one_rule_is_minimal_whatever_else_is_too_large_to_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = WORKLOAD.require("tp == 3").parameter_set
    ask = Oracle._ask

    def undecided(oracle: Oracle, rules: tuple[Constraint, ...]) -> bool:
        if problem.constraints[-1] not in rules:
            raise LimitError("too large")
        return ask(oracle, rules)

    monkeypatch.setattr(Oracle, "_ask", undecided)
    assert first_conflict(problem) == Conflict((problem.constraints[-1],), minimal=True)
