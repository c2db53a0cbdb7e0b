"""Rules on the times and rates of a served model that nothing obeys: what excludes what, and what would do."""

from __future__ import annotations

import pytest

from cosmic_opt.analysis.change import Renumber
from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError

NAME = "llama3-70b/h100-8-serving"


def test_one_limit_out_of_reach_is_the_conflict_and_its_least_number_is_the_best_achievable() -> None:
    problem = Problem.load(NAME)
    best = problem.objective("first_token_time").solve().value
    found = problem.require("first_token_time <= 10 ms").explain()
    assert found.feasible is False
    assert [[rule.text for rule in conflict] for conflict in found.conflicts] == [["first_token_time <= 10 ms"]]
    (change,) = found.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert change.new == best
    assert found.achievable["first_token_time"].value == best


def test_two_limits_that_only_together_exclude_every_design_are_one_conflict() -> None:
    token, rate = "output_token_time <= 15 ms", "throughput >= 2000"
    problem = Problem.load(NAME).require("first_token_time <= 2 s").require(token).require(rate)
    found = problem.explain()
    assert [[rule.text for rule in conflict] for conflict in found.conflicts] == [[token, rate]]
    for repair in found.repairs:
        repaired = Problem.load(NAME).edit(repair.edits).solve()
        assert repaired.value is not None, repair.edits


@pytest.mark.parametrize(("rule", "step"), [("output_token_time <= 15 ms", -1), ("throughput >= 2000", 1)])
def test_a_number_short_of_the_relaxation_still_excludes_every_design(rule: str, step: int) -> None:
    problem = Problem.load(NAME).require("output_token_time <= 15 ms").require("throughput >= 2000")
    ways = [way.relaxation for way in problem.explain().repairs]
    changes = [change for way in ways for change in way.changes if isinstance(change, Renumber)]
    (change,) = [change for change in changes if change.number.rule.endswith("1") == rule.startswith("output")]
    other = "throughput >= 2000" if rule.startswith("output") else "output_token_time <= 15 ms"
    unit = " ps" if rule.startswith("output") else ""
    word = rule.rsplit(" ", 2 if unit else 1)[0]
    again = Problem.load(NAME).require(other)
    exact, short = (again.require(f"{word} {value}{unit}") for value in (change.new, change.new + step))
    assert exact.solve().value is not None
    assert short.solve().value is None


def test_limits_that_leave_a_design_are_no_conflict() -> None:
    found = Problem.load(NAME).require("output_token_time <= 30 ms").explain()
    assert (found.feasible, found.conflicts, found.repairs) == (True, (), ())


def test_why_not_names_every_limit_a_design_breaks_with_its_value() -> None:
    problem = Problem.load(NAME).require("output_token_time <= 30 ms and throughput >= 100")
    why = problem.why_not({**problem.instance.baseline, "batch": 256})
    assert [(each.left.text, each.operator) for each in why.violations] == [("output_token_time", "<=")]
    assert why.violations[0].left.value > why.violations[0].right.value  # type: ignore[operator]


def test_an_unreachable_rate_is_lowered_to_the_best_one() -> None:
    problem = Problem.load(NAME)
    outcome = problem.objective("throughput_per_npu").solve()
    assert outcome.value is not None
    found = problem.require("throughput_per_npu >= 5000").explain()
    (change,) = found.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert change.new == int(outcome.objective.show(outcome.value))


def test_a_rule_that_is_no_limit_is_refused() -> None:
    with pytest.raises(SpecError, match="not a limit on a simulated time"):
        Problem.load(NAME).require("throughput <= 10").explain()
