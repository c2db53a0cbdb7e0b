"""Certified limits of counts whose diagram is too wide."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.feasibility.bounds import DiagramLimitError, size_bounds
from cosmic_opt.feasibility.compile import CompileLimit
from cosmic_opt.feasibility.count import count, count_without_diagram
from cosmic_opt.feasibility.feasible_set import feasible_set, some_designs
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from tests.strategies import FOCUSES, Source, brute_force, sources
from tests.unit.feasibility.test_feasible_set import designs_of, ordered_pairs, psa, two_parts


def limits(model: LoweredModel, limit: CompileLimit, width: int) -> tuple[int, int]:
    """Return the limits of the number of designs: twice the number where the diagram stays within `limit`."""
    try:
        size = feasible_set(model, limit=limit, width=width).size
    except DiagramLimitError as error:
        return error.lower, error.upper
    return size, size


def knapsack() -> LoweredModel:
    """Return a sum of forty weights without structure: its diagram is wide."""
    domains = {f"c{at}": "[0, 1]" for at in range(40)}
    rule = " + ".join(f"{10**6 + 7919 * at * at} * {name}" for at, name in enumerate(domains))
    return lower(psa(domains, f"{rule} <= {20 * 10**6 + 7919 * 11001}"))


@pytest.mark.parametrize("focus", FOCUSES)
@pytest.mark.parametrize("width", [1, 2, 5])
def test_limits_of_a_generated_problem_enclose_its_count(focus: str, width: int) -> None:
    @settings(derandomize=True, deadline=None, max_examples=25)
    @given(sources(focus), st.sampled_from((1, 4, 12)))
    def check(source: Source, arcs: int) -> None:
        parameter_set = source.bind()
        low, high = limits(lower(parameter_set), CompileLimit(arcs=arcs), width)
        assert low <= len(brute_force(parameter_set)) <= high

    check()


def test_a_width_that_suffices_gives_the_exact_count_from_both_sides() -> None:
    for designs in (ordered_pairs(), two_parts()):
        for part in designs.diagrams:
            assert size_bounds(designs.model, part.order, 1000) == (part.size, part.size)


def test_a_wider_diagram_bounds_a_knapsack_better() -> None:
    model = knapsack()
    order = feasible_order(model)
    narrow, wide = size_bounds(model, order, 64), size_bounds(model, order, 4096)
    assert 0 < narrow[0] < wide[0] <= wide[1] <= narrow[1] <= 2**40


def feasible_order(model: LoweredModel) -> list[int]:
    return list(range(len(model.columns)))


def test_ordered_pairs_in_width_one_are_between_three_and_nine() -> None:
    """Kept: the least a, with three b. Forgotten: the rule, which leaves a in 1..3 and b in 2..4."""
    assert limits(ordered_pairs().model, CompileLimit(arcs=3), width=1) == (3, 9)


def test_the_error_names_the_column_and_both_limits_and_what_to_do() -> None:
    with pytest.raises(DiagramLimitError, match=r"more than 1,000 arcs at 'c\d+'; there are at least") as caught:
        feasible_set(knapsack(), limit=CompileLimit(arcs=1000), width=100)
    assert f"{caught.value.lower:,}" in caught.value.message
    assert "--solver cp_sat" in str(caught.value)


def test_bytes_are_a_limit_too() -> None:
    with pytest.raises(DiagramLimitError, match="more than 50,000 bytes"):
        feasible_set(knapsack(), limit=CompileLimit(size_bytes=50_000), width=100)


def test_limits_are_the_same_every_time() -> None:
    model = knapsack()
    order = feasible_order(model)
    assert size_bounds(model, order, 300) == size_bounds(model, order, 300)


def test_components_within_the_limit_count_exactly() -> None:
    """A free column of 7 values multiplies both limits by 7."""
    domains = {f"c{at}": "[0, 1]" for at in range(12)}
    rule = " + ".join(f"{3**at} * {name}" for at, name in enumerate(domains))
    alone = lower(psa(domains, f"{rule} <= 200000"))
    beside = lower(psa({**domains, "free": "[1, 2, 3, 4, 5, 6, 7]"}, f"{rule} <= 200000"))
    errors = []
    for model in (alone, beside):
        with pytest.raises(DiagramLimitError) as caught:
            feasible_set(model, limit=CompileLimit(arcs=50), width=10)
        errors.append(caught.value)
    assert (errors[1].lower, errors[1].upper) == (7 * errors[0].lower, 7 * errors[0].upper)


def test_a_count_without_a_diagram_holds_both_limits_or_another_engines_number() -> None:
    parameter_set = psa({"a": "[1, 2, 3, 4]", "b": "[1, 2, 3, 4]"}, "a < b")
    model = lower(parameter_set)
    limit = DiagramLimitError("too wide", "b", 3, 9)
    result = count_without_diagram(parameter_set, model, limit)
    assert (result.lower, result.value, result.exact, result.outgrown_at) == (3, 9, False, "b")
    listed = count_without_diagram(parameter_set, model, limit, engine="cp_sat")
    assert (listed.value, listed.exact, listed.outgrown_at, listed.shape) == (6, True, None, None)


def test_the_shape_of_a_diagram_counts_what_designs_meet() -> None:
    """Pairs a < b of 1..4: a in 1..3 leads to three states, b in 2..4 to the end: 5 nodes, 3 + 6 arcs."""
    shape = ordered_pairs().shape
    assert (shape.nodes, shape.arcs, shape.width) == (5, 9, 3)
    result = count(psa({"a": "[1, 2, 3, 4]", "b": "[1, 2, 3, 4]"}, "a < b"), ordered_pairs())
    assert result.shape == result.components[0].shape == shape


def test_the_width_of_the_full_stack_is_small() -> None:
    shape = Problem.load("cosmic/gpt3-175b-system2").feasible.shape
    assert shape.width < 1000
    assert math.log10(shape.arcs) < 4


def test_designs_of_is_within_the_default_limit() -> None:
    assert designs_of({"a": "[1, 2]"}).size == 2


@pytest.mark.parametrize("focus", FOCUSES)
def test_some_designs_are_all_within_the_limit_and_else_some_of_them(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=25)
    @given(sources(focus), st.sampled_from((1, 12, 10**6)))
    def check(source: Source, arcs: int) -> None:
        parameter_set = source.bind()
        found = some_designs(lower(parameter_set), CompileLimit(arcs=arcs), 2)
        codes, everything = found.everything(10**6), brute_force(parameter_set)
        assert len(codes) == len(everything) or arcs < 10**6
        assert set(map(tuple, codes.tolist())) <= set(map(tuple, everything.tolist()))

    check()
