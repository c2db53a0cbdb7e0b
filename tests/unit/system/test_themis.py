"""Themis' orders, worked by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.system.multidim import PlanPhase
from cosmic_opt.system.themis import themis_routes


def ticks(phase: PlanPhase) -> Fraction:
    """Dimensions of one speed, groups of two: half the share is moved."""
    return phase.share * 64


def orders(collective: str, chunks: int) -> list[list[int]]:
    return [[phase.dim for phase in route] for route in themis_routes(collective, (2, 1, 2), chunks, ticks)]


def test_the_first_chunk_takes_the_dimensions_in_order_and_the_second_the_less_loaded_first() -> None:
    """Loads after the first: 64 and 32; the second starts on dimension 2: 96 and 96, balanced again."""
    assert orders("reduce_scatter", 3) == [[0, 2], [2, 0], [0, 2]]


def test_an_all_gather_is_the_reverse_and_an_all_reduce_both() -> None:
    assert orders("all_gather", 2) == [[2, 0], [0, 2]]
    assert orders("all_reduce", 2) == [[0, 2, 2, 0], [2, 0, 0, 2]]


def test_payloads_shrink_by_the_groups_passed() -> None:
    (route,) = themis_routes("all_reduce", (4, 2), 1, ticks)
    assert [phase.share for phase in route] == [1, Fraction(1, 4), Fraction(1, 4), 1]


def test_loads_that_differ_by_less_than_a_sixteenth_of_a_chunk_are_balanced() -> None:
    def uneven(phase: PlanPhase) -> Fraction:
        return phase.share * (64 if phase.dim == 0 else 125)

    routes = themis_routes("reduce_scatter", (2, 2), 2, uneven)
    assert [[phase.dim for phase in route] for route in routes] == [[0, 1], [0, 1]]


def test_a_group_of_one_has_no_phase() -> None:
    assert themis_routes("all_reduce", (1, 1), 4, ticks) == ()


def test_an_all_to_all_has_no_order_to_choose() -> None:
    with pytest.raises(SpecError, match="does not schedule"):
        themis_routes("all_to_all", (2, 2), 1, ticks)
