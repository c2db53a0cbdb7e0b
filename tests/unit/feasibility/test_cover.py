"""Covers: disjoint regions, their union the set, their sizes those of the designs they hold."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.feasibility import diagram
from cosmic_opt.feasibility.cover import Region
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.lower import lower
from tests.strategies import FOCUSES, Source, brute_force, sources
from tests.unit.feasibility.test_feasible_set import designs_of, empty_set, ordered_pairs, two_parts

FULL_STACK = "cosmic/gpt3-175b-system2"


def pairs(designs: FeasibleSet, *columns: int) -> list[tuple[list[int], int]]:
    return [(list(region.assignment.values()), region.size) for region in designs.cover(columns)]


def members(region: Region, designs: np.ndarray) -> np.ndarray:
    """Return which of the designs lie in the region."""
    inside = np.ones(len(designs), dtype=bool)
    for column, code in region.assignment.items():
        inside &= designs[:, column] == code
    return inside


def test_a_cover_by_the_first_of_an_ordered_pair_has_sizes_three_two_one() -> None:
    assert pairs(ordered_pairs(), 0) == [([0], 3), ([1], 2), ([2], 1)]
    assert pairs(ordered_pairs(), 1) == [([1], 1), ([2], 2), ([3], 3)]


def test_a_cover_by_every_column_has_one_design_each() -> None:
    assert [size for _, size in pairs(ordered_pairs(), 1, 0)] == [1] * 6


def test_a_cover_by_nothing_is_one_region() -> None:
    assert pairs(two_parts()) == [([], 24)]


def test_columns_of_several_components_multiply() -> None:
    sizes = Counter({(0, 0): 6, (0, 1): 6, (1, 0): 4, (1, 1): 4, (2, 0): 2, (2, 1): 2})
    assert Counter({tuple(codes): size for codes, size in pairs(two_parts(), 0, 1)}) == sizes


def test_an_empty_set_is_covered_by_no_region() -> None:
    assert list(empty_set().cover([0])) == list(empty_set().cover(max_regions=4)) == []


def test_one_region_is_everything_and_enough_regions_are_single_designs() -> None:
    assert [region.size for region in two_parts().cover(max_regions=1)] == [24]
    assert [region.size for region in two_parts().cover(max_regions=24)] == [1] * 24


def test_a_conditioned_set_is_covered_without_compiling_again() -> None:
    designs = ordered_pairs().given({0: [0, 1]})
    assert pairs(designs, 0) == [([0], 3), ([1], 2)]


@pytest.mark.parametrize("focus", FOCUSES)
def test_a_cover_of_a_generated_problem_is_exact_disjoint_and_whole(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus), st.data())
    def check(source: Source, data: st.DataObject) -> None:
        parameter_set = source.bind()
        expected = brute_force(parameter_set)
        designs = feasible_set(lower(parameter_set))
        positions = range(len(parameter_set.columns))
        chosen = data.draw(st.lists(st.sampled_from(positions), unique=True))
        most = data.draw(st.integers(1, 2 * max(1, len(expected))))
        by_columns = list(designs.cover(chosen))
        within = list(designs.cover(max_regions=most))
        assert len(within) <= most
        for regions in (by_columns, within):
            held = np.array([members(region, expected) for region in regions]).reshape(len(regions), len(expected))
            assert (held.sum(axis=0) == 1).all()
            assert [int(row.sum()) for row in held] == [region.size for region in regions]
        assert len(by_columns) == len(np.unique(expected[:, chosen], axis=0)) or not len(expected)
        start = 0
        for region in within:
            assert members(region, designs.span(start, start + region.size)).all()
            start += region.size
        assert start == len(expected)

    check()


def test_given_opens_a_region_of_its_size() -> None:
    designs = Problem.load(FULL_STACK).feasible
    regions = list(designs.cover(max_regions=500))
    assert 200 < len(regions) <= 500
    assert sum(region.size for region in regions) == designs.size
    for region in regions[::40]:
        assert designs.given({column: [code] for column, code in region.assignment.items()}).size == region.size


def test_a_cover_of_seventy_coins_has_sizes_beyond_63_bits() -> None:
    domains = {f"c{at}": "[0, 1]" for at in range(70)}
    designs = designs_of(domains, " + ".join(domains) + " == 35")
    assert pairs(designs, 69, 1) == [
        ([0, 0], math.comb(68, 35)),
        ([0, 1], math.comb(68, 34)),
        ([1, 0], math.comb(68, 34)),
        ([1, 1], math.comb(68, 33)),
    ]


def test_columns_deep_in_a_wide_diagram_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagram, "PROJECTION_LIMIT", 5)
    with pytest.raises(LimitError, match="more than 5 regions") as caught:
        list(ordered_pairs().cover([0, 1]))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("columns", "most"), [(None, None), ([0], 3), ([0, 0], None), ([2], None), ([-1], None), (None, 0), (None, -3)]
)
def test_what_is_no_cover_is_refused(columns: list[int] | None, most: int | None) -> None:
    with pytest.raises(SpecError) as caught:
        ordered_pairs().cover(columns, max_regions=most)
    assert caught.value.hint


def test_the_front_door_covers_by_name_in_values() -> None:
    problem = Problem.load("llama3-405b/h100-16k")
    regions = list(problem.cover("tp", "recompute"))
    assert sum(size for _, size in regions) == 968
    for values, size in regions:
        assert problem.fix(values).count().value == size
    with pytest.raises(SpecError, match="unknown parameter 'tpp'"):
        next(problem.cover("tpp"))
