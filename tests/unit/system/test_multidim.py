from fractions import Fraction
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError
from cosmic_opt.system.multidim import PlanPhase, plan


def test_baseline_runs_a_full_all_reduce_in_each_dimension() -> None:
    assert plan("all_reduce", "baseline", (2, 1, 8)) == (
        PlanPhase(0, "all_reduce", Fraction(1)),
        PlanPhase(2, "all_reduce", Fraction(1)),
    )


def test_blueconnect_scatters_up_reduces_in_the_last_and_gathers_down() -> None:
    assert plan("all_reduce", "blueconnect", (2, 1, 8, 4)) == (
        PlanPhase(0, "reduce_scatter", Fraction(1)),
        PlanPhase(2, "reduce_scatter", Fraction(1, 2)),
        PlanPhase(3, "all_reduce", Fraction(1, 16)),
        PlanPhase(2, "all_gather", Fraction(1, 2)),
        PlanPhase(0, "all_gather", Fraction(1)),
    )


def test_one_dimension_has_one_way() -> None:
    assert plan("all_reduce", "baseline", (1, 8)) == plan("all_reduce", "blueconnect", (1, 8))


def test_all_to_all_moves_the_whole_payload_in_every_dimension() -> None:
    assert plan("all_to_all", "blueconnect", (2, 8)) == (
        PlanPhase(0, "all_to_all", Fraction(1)),
        PlanPhase(1, "all_to_all", Fraction(1)),
    )


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
def test_a_group_of_one_has_no_phases(collective: str) -> None:
    assert plan(collective, "blueconnect", (1, 1)) == ()


@given(extents=st.lists(st.integers(1, 16), min_size=1, max_size=5))
@settings(derandomize=True, deadline=None)
def test_gather_reverses_scatter_and_both_make_an_all_reduce(extents: list[int]) -> None:
    up = plan("reduce_scatter", "blueconnect", extents)
    down = plan("all_gather", "blueconnect", extents)
    assert [(phase.dim, phase.share) for phase in up] == [(phase.dim, phase.share) for phase in reversed(down)]
    both = plan("all_reduce", "blueconnect", extents)
    if up:
        assert both == (*up[:-1], PlanPhase(up[-1].dim, "all_reduce", up[-1].share), *down[1:])


@given(extents=st.lists(st.integers(1, 16), min_size=1, max_size=5))
@settings(derandomize=True, deadline=None)
def test_a_hierarchical_reduce_scatter_sends_no_more_bytes_than_a_flat_one(extents: list[int]) -> None:
    sent = sum(
        phase.share * Fraction(extents[phase.dim] - 1, extents[phase.dim])
        for phase in plan("reduce_scatter", "blueconnect", extents)
    )
    assert sent == 1 - Fraction(1, prod(extents))


@pytest.mark.parametrize(
    ("collective", "multidim", "extents"),
    [
        ("broadcast", "baseline", (2,)),
        ("all_reduce", "themis", (2,)),
        ("all_reduce", "baseline", ()),
        ("all_reduce", "baseline", (0, 2)),
    ],
)
def test_a_plan_that_means_nothing_is_refused(collective: str, multidim: str, extents: tuple[int, ...]) -> None:
    with pytest.raises(SpecError):
        plan(collective, multidim, extents)
