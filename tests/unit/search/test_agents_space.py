"""Draws, moves and repairs on the diagrams, against brute force over every combination of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import Codes, ParameterSet
from cosmic_opt.search import feasible_space
from cosmic_opt.search.feasible_space import FeasibleSpace, raw_grid
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.registry import load_solver
from tests.strategies import FOCUSES, Source, brute_force, declare, sources, whole_grid

MODEL = """
schema: cosmic-opt/model@1
name: small
parameters:
  x: {stack: workload, domain: [1, 2, 3]}
  y: {stack: workload, domain: [1, 2, 3]}
  z: {stack: network, domain: [5, 7]}
constraints:
  four: {rule: x + y == 4}
"""
DRAWS = 40_000

any_source = st.sampled_from(FOCUSES).flatmap(sources)
slow_to_draw = settings(
    derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.filter_too_much]
)


def space_of(parameter_set: ParameterSet) -> FeasibleSpace:
    return FeasibleSpace(parameter_set, feasible_set(lower(parameter_set)))


def bound(source: Source) -> ParameterSet:
    """Return the drawn PSA; one without a design is passed over."""
    parameter_set = source.bind()
    assume(len(brute_force(parameter_set)))
    return parameter_set


def shares(codes: Codes) -> dict[tuple[int, ...], float]:
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    return {tuple(row): count / len(codes) for row, count in zip(rows.tolist(), counts, strict=True)}


def distances(codes: Codes, designs: Codes) -> Codes:
    """Return the number of columns in which each row differs from each design."""
    return (codes[:, np.newaxis] != designs).sum(axis=2)


def test_a_draw_is_in_proportion_to_the_product_of_the_weights_of_its_codes() -> None:
    space = space_of(declare(MODEL))
    weights = np.ones((DRAWS, 8))
    weights[:, 0] = 4.0  # x = 1, of (x, y) in (1, 3), (2, 2), (3, 1)
    weights[:, 7] = 3.0  # z = 7
    found = shares(space.paths.draw(weights, np.random.default_rng(1)))
    assert set(found) == {(x, 2 - x, z) for x in range(3) for z in range(2)}
    for (x, _, z), share in found.items():
        assert share == pytest.approx((4 if x == 0 else 1) / 6 * (3 if z else 1) / 4, abs=0.01)


def test_weights_that_leave_no_design_are_passed_over() -> None:
    space = space_of(declare(MODEL))
    batch = space.parameter_set.batch(space.paths.draw(np.zeros((50, 8)), np.random.default_rng(1)))
    assert feasible(batch).all()


def test_a_mutant_is_an_independent_change_of_every_column_given_that_it_is_feasible() -> None:
    space, rate = space_of(declare(MODEL)), 0.3
    start = np.array([[0, 2, 0]], dtype=np.int32)
    found = shares(
        space.mutate(space.parameter_set.batch(start.repeat(DRAWS, axis=0)), rate, np.random.default_rng(2)).codes
    )
    keep, change, flip = (1 - rate), rate / 2, rate
    weight = {(0, 2, 0): keep**3, (0, 2, 1): keep**2 * flip, (1, 1, 0): change**2 * keep, (1, 1, 1): change**2 * flip}
    weight |= {(2, 0, 0): change**2 * keep, (2, 0, 1): change**2 * flip}
    total = sum(weight.values())
    for row, share in found.items():
        assert share == pytest.approx(weight[row] / total, abs=0.01)


@given(any_source)
@slow_to_draw
def test_membership_is_feasibility(source: Source) -> None:
    parameter_set = bound(source)
    grid = parameter_set.batch(whole_grid(parameter_set))
    assert np.array_equal(space_of(parameter_set).contains(grid), feasible(grid))


@given(any_source)
@slow_to_draw
def test_a_repaired_design_is_as_near_as_any_feasible_one_and_members_stay(source: Source) -> None:
    parameter_set = bound(source)
    designs, grid = brute_force(parameter_set), whole_grid(parameter_set)
    repaired = space_of(parameter_set).nearest(grid, np.random.default_rng(0))
    assert feasible(repaired).all()
    assert np.array_equal((repaired.codes != grid).sum(axis=1), distances(grid, designs).min(axis=1))


@pytest.mark.parametrize("seed", range(5))
def test_cp_sat_finds_no_design_nearer_than_the_repaired_one(seed: int) -> None:
    space = space_of(declare(MODEL))
    wanted = raw_grid(space.parameter_set).sample(1, np.random.default_rng(seed)).codes
    model = space.feasible.model
    weights = tuple(
        tuple(int(code != wanted[0, column]) for code in range(model.columns[column].size))
        for column in range(model.designs)
    )
    objective = LinearObjective(tuple(range(model.designs)), weights)
    answer = load_solver("cp_sat").solve(model, objective, limits=Limits())
    repaired = space.nearest(wanted, np.random.default_rng(seed)).codes
    assert (repaired != wanted).sum() == answer.value


@given(any_source, st.booleans())
@slow_to_draw
def test_every_move_leads_to_a_feasible_design(source: Source, wide: bool) -> None:
    space = space_of(bound(source))
    rng = np.random.default_rng(0)
    left, right = space.sample(40, rng), space.sample(40, rng)
    with pytest.MonkeyPatch.context() as patch:
        if wide:
            patch.setattr(feasible_space, "WIDE", 0)
        moved = [space.mutate(left, 0.3, rng), space.move(left, 1.0, rng), space.crossover(left, right, rng)]
    for batch in moved:
        assert feasible(batch).all()


@given(any_source)
@slow_to_draw
def test_a_move_changes_something_wherever_there_is_another_design(source: Source) -> None:
    space = space_of(bound(source))
    start = space.sample(40, np.random.default_rng(0))
    moved = space.move(start, 1.0, np.random.default_rng(1))
    changed = (moved.codes != start.codes).any(axis=1).mean()
    assert changed == 0 if space.size == 1 else changed > 0.5


@given(any_source)
@slow_to_draw
def test_the_raw_grid_holds_every_combination(source: Source) -> None:
    parameter_set = source.bind()
    grid = raw_grid(parameter_set)
    assert grid.size == parameter_set.grid_size
    assert grid.contains(parameter_set.batch(whole_grid(parameter_set))).all()
