"""Numbers that rules read through a quantity, or inside an expression: their least change, and what is then proved."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from cosmic_opt.analysis.change import Drop, Relaxation, Renumber
from cosmic_opt.analysis.explain import READ_BY_RULES_ONLY, Explanation, relaxable_of
from cosmic_opt.analysis.hidden_data import GROWING, helpful_ways
from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.api import Problem
from cosmic_opt.psa.parameter_set import Constraint
from cosmic_opt.psa.term import Constant
from cosmic_opt.reporting.explanations import explanation_text
from cosmic_opt.search.objective import quantity_values

SERVING = Problem.load("llama3-70b/h100-8-serving")
TIGHT = SERVING.set(memory_capacity="10 GB")
KINDS = ("llama3-70b/h100-8-serving", "llama3-8b/h100-8", "llama3-405b/h100-16k", "cosmic/gpt3-175b-system2")


def first(explanation: Explanation) -> Relaxation:
    return explanation.repairs[0].relaxation


def number_of(relaxation: Relaxation) -> int:
    (change,) = relaxation.changes
    assert isinstance(change, Renumber)
    return change.new


def test_the_capacity_that_the_room_of_the_cache_takes_in_is_enough_and_one_byte_less_is_not() -> None:
    explanation = TIGHT.explain()
    new = number_of(first(explanation))
    assert SERVING.set(memory_capacity=f"{new} B").count().value == explanation.repairs[0].feasible_designs == 2
    assert SERVING.set(memory_capacity=f"{new - 1} B").count().value == 0
    assert first(explanation).cost == Fraction(new - 10**10, 10**10)
    assert all(repair.relaxation.proved for repair in explanation.repairs)
    assert "proved: nothing costs less" in explanation_text("", explanation, None)


def test_what_a_dropped_rule_costs_is_listed_behind_the_number() -> None:
    ways = [repair.relaxation for repair in TIGHT.explain().repairs]
    assert [way.cost for way in ways[1:]] == [10]  # without "fits" nothing could run
    assert all(isinstance(way.changes[0], Drop) for way in ways[1:])
    assert len(TIGHT.explain(limit=1).repairs) == 1


def test_a_rule_dropped_for_less_than_the_number_comes_first_and_is_proved_only_when_no_mix_may_cost_less() -> None:
    """One byte short of enough, dropping a rule still costs 1/1000; so nothing below that can be a mix."""
    explanation = TIGHT.explain(costs=Costs(drop=Fraction(1, 1000)))
    assert isinstance(first(explanation).changes[0], Drop)
    assert first(explanation).proved


def test_a_mix_that_may_cost_less_leaves_the_number_unproved() -> None:
    """More memory is 6.6 times the memory on one NPU; a larger degree, cheap to allow, needs far less."""
    explanation = TIGHT.fix(tp=1, pp=1, ep=1).explain(costs=Costs(value=Fraction(1, 1000)))
    dropless = [r.relaxation for r in explanation.repairs if not any(isinstance(c, Drop) for c in r.relaxation.changes)]
    assert any(not way.proved for way in dropless)
    assert "proved: nothing costs less" not in explanation_text("", explanation, None) or first(explanation).proved


def test_a_number_that_may_help_in_both_ways_is_not_offered_and_nothing_is_proved() -> None:
    problem = TIGHT.require("cache_room_per_npu <= 1 GB")
    explanation = problem.explain()
    assert explanation.repairs
    assert not any(repair.relaxation.proved for repair in explanation.repairs)
    assert "proved: nothing" not in explanation_text("", explanation, None)


@pytest.mark.parametrize("memory", ["80 GB", "1 PB", "500 PB"])
def test_where_no_memory_helps_the_cheapest_other_change_is_proved(memory: str) -> None:
    ways = SERVING.set(memory_capacity=memory).require("tp == 3").explain().repairs
    assert [way.relaxation.cost for way in ways] == [Fraction(1, 3), 10]
    assert ways[0].relaxation.proved


def test_a_number_inside_an_expression_is_found_to_the_byte() -> None:
    problem = SERVING.require("2 * memory_per_npu <= memory_capacity - 1 GB")
    new = number_of(first(problem.set(memory_capacity="15 GB").explain()))
    assert problem.set(memory_capacity=f"{new} B").count().value > 0
    assert problem.set(memory_capacity=f"{new - 1} B").count().value == 0


def test_the_host_memory_is_a_number_of_its_rule() -> None:
    problem = Problem.load("calculon/gpt3-175b-h100-1024")
    assert "host_capacity" in relaxable_of(problem.spec, problem.edits, problem.instance).data


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("datum", READ_BY_RULES_ONLY)
def test_the_quantities_that_take_in_a_datum_are_those_declared(name: str, datum: str) -> None:
    problem = Problem.load(name)
    value = problem.parameter_set.data.get(datum)
    if not isinstance(value, int) or value == 0:
        return
    larger = problem.set(**{datum: 2 * value})
    batch = problem.sample(20, seed=1)
    again = larger.parameter_set.batch(batch.codes)
    for quantity, old in problem.parameter_set.quantities.items():
        if hasattr(old, "terms"):
            before, after = (
                quantity_values(each.parameter_set.quantities[quantity], designs)
                for each, designs in ((problem, batch), (larger, again))
            )
            assert np.all(np.asarray(before) <= np.asarray(after)) or quantity not in GROWING.get(datum, ())
            assert np.array_equal(before, after) == (quantity not in GROWING.get(datum, ())), quantity


@pytest.mark.parametrize(
    ("rule", "ways"),
    [
        ("tp <= 8", set()),
        ("tp <= memory_capacity", {1}),
        ("memory_capacity < tp", {-1}),
        ("memory_capacity == 5", {1, -1}),
        ("tp >= 5 - 2 * memory_capacity", {1}),
        ("tp <= memory_capacity // 3 + cache_room_per_npu", {1}),
        ("tp <= tp * memory_capacity", {1, -1}),
        ("not (tp <= min(memory_capacity, 4))", {-1}),
        ("memory_capacity <= 4 implies tp <= 2", {1}),
        ("tp <= 4 and (tp >= decode_headroom_per_npu or tp > 3)", {-1}),
        ("all(tp <= memory_capacity for d in dim)", {1}),
        ("tp <= product(memory_capacity for d in dim)", {1, -1}),
        ("memory_capacity in {1, 2}", {1, -1}),
    ],
)
def test_the_ways_in_which_a_number_may_help_a_rule(rule: str, ways: set[int]) -> None:
    assert helpful_ways([Constraint("r", rule, Constant(1))], "memory_capacity") == ways
