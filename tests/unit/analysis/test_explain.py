from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.change import Allow, Change, Drop, Renumber
from cosmic_opt.analysis.explain import Explanation
from cosmic_opt.analysis.relaxed_edits import spelled
from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.units import Unit, parse

GPT3 = Problem.load("cosmic/gpt3-175b-system2")
TABLE1 = Problem.load("cosmic/table1-1024")
LLAMA = Problem.load("llama3-405b/h100-16k")


def after(problem: Problem, at: int, explanation: Explanation) -> Problem:
    return Problem(problem.spec, explanation.repairs[at].edits)


def kinds(explanation: Explanation) -> list[list[type[Change]]]:
    return [[type(change) for change in repair.relaxation.changes] for repair in explanation.repairs]


def test_a_feasible_problem_has_nothing_to_explain() -> None:
    explanation = GPT3.explain()
    assert (explanation.feasible, explanation.conflicts, explanation.repairs) == (True, (), ())
    assert explanation.feasible_designs == GPT3.count().value


def test_a_literal_moves_to_the_nearest_number_that_a_design_has() -> None:
    explanation = GPT3.require("tp == 3").explain()
    assert kinds(explanation) == [[Renumber], [Drop]]
    (change,) = explanation.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert change.new in (2, 4)
    assert explanation.repairs[0].relaxation.cost == Fraction(1, 3)
    assert explanation.repairs[0].edits.require == (f"tp == {change.new}",)


def test_the_capacity_asked_for_is_enough_and_one_byte_less_is_not() -> None:
    problem = LLAMA.set(memory_capacity="1 GB")
    explanation = problem.explain()
    (change,) = explanation.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert problem.set(memory_capacity=f"{change.new} B").count().value > 0
    assert problem.set(memory_capacity=f"{change.new - 1} B").count().value == 0
    assert explanation.repairs[0].relaxation.cost == Fraction(change.new - 10**9, 10**9)


def test_a_capacity_that_two_rules_share_is_changed_and_charged_once() -> None:
    problem = GPT3.require("memory_per_npu <= memory_capacity").set(memory_capacity="5 GB")
    (change,) = problem.explain().repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert change.number.datum == "memory_capacity"
    assert problem.set(memory_capacity=f"{change.new} B").count().value > 0
    assert problem.set(memory_capacity=f"{change.new - 1} B").count().value == 0


def test_the_budget_asked_for_is_the_least_cost_of_any_design() -> None:
    explanation = GPT3.require("network_cost <= 100000").explain()
    (change,) = explanation.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert change.new == GPT3.optimise("network_cost").value


@pytest.mark.slow
def test_numbers_with_no_common_scale_are_still_compared_exactly() -> None:
    problem = GPT3.set(memory_capacity="999999999 B").require(
        "network_cost <= 99999999", "memory_per_npu <= 1234567891 B"
    )
    dropless = problem.explain(limit=2).repairs[-1].relaxation
    news = {change.number.value: change.new for change in dropless.changes if isinstance(change, Renumber)}
    whole = GPT3.require("network_cost <= 99999999", f"memory_per_npu <= {news[1234567891]} B")
    least = whole.optimise("memory_per_npu_cosmic").value
    assert dropless.proved
    assert news == {999999999: least, 1234567891: news[1234567891]}


def test_a_value_that_an_option_took_away_is_allowed_back() -> None:
    problem = GPT3.fix(tp=1, sp=1, dp=1)
    explanation = problem.explain(limit=3)
    assert kinds(explanation) == [[Allow]] * 3
    for at, repair in enumerate(explanation.repairs):
        assert repair.relaxation.cost == 1
        assert after(problem, at, explanation).count().value == repair.feasible_designs > 0  # type: ignore[operator]


def test_what_a_scope_fixes_can_be_allowed_too() -> None:
    problem = TABLE1.scope("workload").require("bandwidth[0] >= 300 GB/s")
    cheap, narrow = (problem.explain(costs=Costs(value=value)).repairs[0] for value in (Fraction(1, 10), Fraction(10)))
    (allowed,), (moved,) = cheap.relaxation.changes, narrow.relaxation.changes
    assert isinstance(allowed, Allow)
    assert (allowed.column.name, cheap.relaxation.cost) == ("bandwidth[0]", Fraction(1, 10))
    assert int(allowed.value) >= 300 * 10**9
    assert isinstance(moved, Renumber)
    assert narrow.edits.require == ("bandwidth[0] >= 100 GB/s",)


def test_a_number_that_another_rule_reads_in_another_way_is_changed_alone_and_to_the_byte() -> None:
    problem = LLAMA.set(memory_capacity="1 GB").require("memory_capacity - memory_per_npu >= 0")
    (change,) = problem.explain().repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert problem.set(memory_capacity=f"{change.new} B").count().value > 0
    assert problem.set(memory_capacity=f"{change.new - 1} B").count().value == 0


def test_the_weights_decide_what_is_cheaper() -> None:
    problem = GPT3.require("tp == 3")
    assert kinds(problem.explain(costs=Costs(drop=Fraction(1, 10))))[0] == [Drop]
    assert kinds(problem.explain(limit=1)) == [[Renumber]]


def test_a_rule_that_a_price_implies_goes_with_the_rule_that_needs_it() -> None:
    problem = TABLE1.require("network_cost <= 1000", "tp == 4")
    drop = next(repair for repair in problem.explain().repairs if isinstance(repair.relaxation.changes[-1], Drop))
    assert drop.edits.require == ("tp == 4",)
    assert drop.feasible_designs == TABLE1.require("tp == 4").count().value


def test_rules_of_the_file_are_required_again_with_other_numbers() -> None:
    problem = GPT3.require("unpriced_blocks == 0 and tp >= 2000").set(memory_capacity="24 GB")
    explanation = problem.explain()
    (change,) = explanation.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert explanation.repairs[0].edits.require == (f"unpriced_blocks == 0 and tp >= {change.new}",)


def test_a_dropped_rule_keeps_the_other_edits() -> None:
    problem = GPT3.require("tp == 2", "dp * tp == 3", "sp == 2").without("priced").set(memory_capacity="80 GB")
    explanation = problem.explain()
    edits = next(r.edits for r in explanation.repairs if any(isinstance(c, Drop) for c in r.relaxation.changes))
    assert edits.set == (("memory_capacity", "80 GB"),)
    assert "priced" in edits.without
    assert edits.require == ("tp == 2", "sp == 2")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("step_time <= 1 ms", "step_time <= {}"),
        ("step_time < 1 ms", "step_time < {}"),
        ("2 ms >= step_time", "{} >= step_time"),
    ],
)
def test_the_step_asked_for_is_the_best_of_any_design(rule: str, expected: str) -> None:
    best = LLAMA.solve().value
    assert best is not None
    explanation = LLAMA.require(rule).explain()
    assert explanation.feasible is False
    assert [[r.name for r in conflict] for conflict in explanation.conflicts] == [["required"]]
    assert explanation.best is not None
    assert explanation.best.outcome.value == explanation.best.outcome.bound == best
    changed = explanation.repairs[-1]
    ticks = best + ("step_time < " in rule)
    assert changed.edits.require == (expected.format(spelled(ticks, Unit.TIME)),)
    assert Problem(LLAMA.spec, changed.edits).solve().value == best


def test_a_throughput_out_of_reach_is_explained_by_the_best_there_is() -> None:
    explanation = LLAMA.require("throughput >= 1000000").explain()
    (text,) = explanation.repairs[0].edits.require or explanation.repairs[1].edits.require
    reached = int(text.rpartition(" ")[2])
    assert LLAMA.require(f"throughput >= {reached}").explain().feasible
    assert LLAMA.require(f"throughput >= {reached + 1}").explain().feasible is False


def test_a_design_that_is_only_too_slow_breaks_the_rule_on_the_step() -> None:
    problem = LLAMA.require("step_time <= 1 ms")
    values = next(LLAMA.baseline().points())
    exactly = problem.fix({name: str(value) for name, value in values.items()})
    answer = exactly.why_not(values)
    (violation,) = answer.violations
    assert (violation.constraint, violation.operator, violation.right.value) == ("required", "<=", 10**9)
    assert float(violation.left.value) > 4e12
    assert answer.nearest == ()


def test_a_rule_on_the_step_of_another_form_is_refused() -> None:
    with pytest.raises(SpecError, match="not a limit on the step"):
        LLAMA.require("step_time >= 1 ms").explain()


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(-(10**20), 10**20), st.sampled_from(list(Unit)))
def test_a_number_spelled_reads_back_exactly(value: int, unit: Unit) -> None:
    assert parse(spelled(value, unit), unit) == value


@pytest.mark.parametrize(
    ("rule", "becomes"),
    [
        ("npus <= 32", "npus <= 64"),
        ("npus * 2 <= 32", "npus * 2 <= 128"),
        ("1000 <= 2 * npus + 8", "136 <= 2 * npus + 8"),
        ("10 <= npus and npus < 40", "10 <= npus and npus < 65"),
        ("system_power <= 20 kW", "system_power <= 44.8 kW"),
        ("device_cost <= 1000000 $", "device_cost <= 1920000 $"),
    ],
)
def test_a_limit_on_what_no_parameter_moves_becomes_the_nearest_that_holds(rule: str, becomes: str) -> None:
    """64 GPUs of 700 W draw 44.8 kW; at 30,000 dollars each they cost 1.92 million."""
    first = Problem.load("llama3-70b/h100-64").require(rule).explain().repairs[0]
    assert first.edits.require == (becomes,)
    assert first.feasible_designs == 2759
    assert first.relaxation.proved


def test_rules_of_numbers_beyond_cp_sat_are_explained() -> None:
    big = 2**62
    problem = GPT3.require(f"tp * {big} + dp * {big // 2} >= {3 * big}", "tp + dp == 3")
    explanation = problem.explain(limit=1)
    assert len(explanation.conflicts[0]) == 2
    assert after(problem, 0, explanation).parameter_set.constraints[-1].text == "tp + dp == 4"
