"""Propagation shrinks columns and drops what always holds, without changing the feasible set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.errors import Where
from cosmic_opt.ir import draft
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import check
from cosmic_opt.ir.model import Conditional, Constraint, IRColumn, Linear, LoweredModel, Origin, Product, Table
from cosmic_opt.ir.passes.propagate import propagate
from tests.strategies import Source, brute_force, sources, whole_grid

ORIGIN = Origin("rule", "rule", Where())


def model_of(sizes: tuple[int, ...], *constraints: Constraint, definitions: tuple[Table, ...] = ()) -> LoweredModel:
    columns = tuple(IRColumn(f"c{at}", size) for at, size in enumerate(sizes))
    allowed = tuple(np.arange(size, dtype=np.int32) for size in sizes)
    return LoweredModel(columns, constraints, allowed, definitions, len(sizes) - len(definitions))


def table(columns: tuple[int, ...], *rows: tuple[int, ...]) -> Table:
    return Table(columns, np.array(rows, dtype=np.int32).reshape(-1, len(columns)), ORIGIN)


def codes_left(model: LoweredModel) -> list[list[int]]:
    return [codes.tolist() for codes in model.allowed]


def test_sum_bound_removes_codes_that_no_choice_of_the_others_can_repair() -> None:
    small = propagate(model_of((3, 3), Linear((0, 1), ((0, 5, 9), (0, 1, 2)), None, 6, ORIGIN)))
    assert codes_left(small) == [[0, 1], [0, 1, 2]]


def test_product_bound_removes_factors_too_large_or_too_small() -> None:
    small = propagate(model_of((3, 3), Product((0, 1), ((1, 4, 9), (2, 3, 5)), 8, 17, ORIGIN)))
    assert codes_left(small) == [[1], [0, 1]]


def test_two_sums_reach_a_common_fixed_point() -> None:
    up, down = ((0, 1, 2, 3), (0, -1, -2, -3)), ((0, -1, -2, -3), (0, 1, 2, 3))
    small = propagate(model_of((4, 4), Linear((0, 1), up, 1, None, ORIGIN), Linear((1, 0), up, None, 1, ORIGIN)))
    assert codes_left(small) == [[1, 2, 3], [0, 1, 2]]
    both = model_of((4, 4), Linear((0, 1), up, 1, None, ORIGIN), Linear((0, 1), down, 1, None, ORIGIN))
    assert propagate(both).infeasible


def test_table_leaves_the_codes_that_occur_in_a_row() -> None:
    assert codes_left(propagate(model_of((3, 3), table((0, 1), (0, 2), (1, 2))))) == [[0, 1], [2]]


def test_constraint_that_always_holds_is_dropped() -> None:
    small = propagate(
        model_of((2, 2), Linear((0, 1), ((0, 1), (0, 1)), 0, 2, ORIGIN), table((0, 1), (0, 0), (0, 1), (1, 0), (1, 1)))
    )
    assert small.constraints == ()


def test_conditional_whose_body_cannot_hold_excludes_its_guard() -> None:
    body = Linear((1,), ((0, 1),), 5, None, ORIGIN)
    assert codes_left(propagate(model_of((2, 2), Conditional(0, body, ORIGIN)))) == [[0], [0, 1]]


def test_conditional_with_a_true_guard_becomes_its_body() -> None:
    body = table((1, 2), (0, 0), (1, 1))
    small = propagate(model_of((2, 2, 2), table((0,), (1,)), Conditional(0, body, ORIGIN)))
    (left,) = small.constraints
    assert isinstance(left, Table)
    assert left.columns == (1, 2)


def test_conditional_table_with_stale_rows_is_kept() -> None:
    """Two rows, two allowed codes, but one row is not allowed: the table still excludes code 0."""
    guarded = Conditional(1, table((0,), (1,), (2,)), ORIGIN)
    small = propagate(model_of((3, 2), table((0,), (0,), (1,)), guarded))
    assert check(small, np.array([[0, 1], [1, 1], [0, 0]])).tolist() == [False, True, True]


def test_empty_table_makes_the_model_infeasible() -> None:
    assert propagate(model_of((2,), table((0,)))).infeasible
    assert propagate(model_of((2,), Linear((), (), 1, None, ORIGIN))).infeasible


@pytest.mark.parametrize(("small", "wide"), [(1 << 12, 1 << 16), (1, 1)])
def test_propagation_keeps_the_set(monkeypatch: pytest.MonkeyPatch, small: int, wide: int) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", small)
    monkeypatch.setattr(draft, "WIDE_TABLE", wide)
    with monkeypatch.context() as without:
        without.setattr(draft, "propagate", lambda model: model)
        lower_plain = lowering.lower

        @settings(derandomize=True, deadline=None, max_examples=60)
        @given(sources("logic"))
        def keeps(source: Source) -> None:
            parameter_set = source.bind()
            grid = whole_grid(parameter_set)
            plain = lower_plain(parameter_set)
            np.testing.assert_array_equal(grid[check(plain, grid)], brute_force(parameter_set))
            np.testing.assert_array_equal(check(plain, grid), check(propagate(plain), grid))

        keeps()
