from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from cosmic_opt.analysis.change import Allow, Renumber
from cosmic_opt.analysis.explain import relaxable_of
from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.analysis.relaxed_table import RelaxedTable, _range
from cosmic_opt.api import Problem

MEGATRON = "llama3-70b/h100-64"


@pytest.mark.parametrize("operator", ["<=", "<", ">=", ">", "=="])
@pytest.mark.parametrize("coefficient", [-3, -1, 1, 2, 5])
def test_the_numbers_a_relation_allows_are_those_of_trying_each(operator: str, coefficient: int) -> None:
    values = np.arange(-7, 8).astype(object)
    low, high = _range(operator, values, coefficient)
    for at, value in enumerate(values):
        tried = [n for n in range(-40, 41) if eval(f"{value} {operator} {coefficient} * {n}")]
        assert tried == [n for n in range(-40, 41) if low[at] <= n <= high[at]]


def table_of(problem: Problem) -> RelaxedTable | None:
    relaxable = relaxable_of(problem.spec, problem.edits, problem.instance)
    return RelaxedTable.of(relaxable, Costs(), worth=False)


def test_the_least_memory_is_that_of_the_smallest_design() -> None:
    small = Problem.load(MEGATRON).set(memory_capacity="1 GB")
    table = table_of(small)
    assert table is not None
    least = table.cheapest([])
    assert least is not None
    (change,) = least.changes
    assert isinstance(change, Renumber)
    smallest = Problem.load(MEGATRON).without("fits").optimise("memory_per_npu", solver="exhaustive").value
    assert change.new == smallest
    assert least.cost == Fraction(smallest - 10**9, 10**9)


def test_what_was_found_is_left_out() -> None:
    problem = Problem.load("mixtral-8x7b/h100-64").fix(tp=2, sequence_parallel=0)
    table = table_of(problem)
    assert table is not None
    first = table.cheapest([])
    assert first is not None
    second = table.cheapest([first.changed])
    assert second is not None
    assert {change.column.name for each in (first, second) for change in each.changes if isinstance(change, Allow)} == {
        "tp",
        "sequence_parallel",
    }
    assert table.cheapest([frozenset()]) is None


def test_a_space_of_trillions_has_no_table() -> None:
    assert table_of(Problem.load("cosmic/gpt3-175b-system2").set(memory_capacity="4 GB")) is None


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        ("memory_capacity >= 100 GB", Fraction(20, 100)),  # the literal meets the memory there is
        ("memory_capacity <= 40 GB", Fraction(40, 80)),  # the memory meets the literal
        ("memory_capacity == 100 GB", Fraction(20, 100)),
        ("memory_capacity < 40 GB", Fraction(40 * 10**9 + 1, 80 * 10**9)),  # strictly: one byte less than it
        ("40 GB > memory_capacity", Fraction(40 * 10**9 + 1, 80 * 10**9)),
        ("memory_capacity > 100 GB", Fraction(20 * 10**9 + 1, 100 * 10**9)),  # the literal goes below the memory
        ("-memory_capacity > -40 GB", Fraction(40 * 10**9 + 1, 80 * 10**9)),
    ],
)
def test_a_datum_and_a_literal_meet_where_it_costs_least(rule: str, least: Fraction) -> None:
    table = table_of(Problem.load(MEGATRON).require(rule))
    assert table is not None
    found = table.cheapest([])
    assert found is not None
    assert found.cost == least


@pytest.mark.parametrize("rule", ["memory_capacity < 40 GB", "memory_capacity <= 39999999999 B"])
def test_a_strict_limit_on_a_datum_costs_what_that_of_one_byte_less_does(rule: str) -> None:
    """The datum goes to 39,999,999,999 B; to move the literal instead costs about 1, of either."""
    problem = Problem.load(MEGATRON).require(rule)
    first = problem.explain(limit=1).repairs[0]
    assert first.relaxation.cost == Fraction(40 * 10**9 + 1, 80 * 10**9)
    assert first.relaxation.proved
    assert first.edits.set == (("memory_capacity", "39.999999999 GB"),)


def test_a_datum_and_a_literal_meet_at_what_another_rule_needs() -> None:
    """10 GB are too few for any design: both go to what the smallest needs."""
    table = table_of(Problem.load(MEGATRON).require("memory_capacity <= 10 GB"))
    assert table is not None
    found = table.cheapest([])
    assert found is not None
    need = 22_834_522_112
    assert found.cost == Fraction(80 * 10**9 - need, 80 * 10**9) + Fraction(need - 10**10, 10**10)
    assert len(found.changes) == 2
