"""Joint rows of a few columns, and independent components."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cosmic_opt.errors import LimitError, Where
from cosmic_opt.ir.model import Conditional, Constraint, IRColumn, Linear, LoweredModel, Origin, Product, Table
from cosmic_opt.ir.passes.rows import joint_rows
from cosmic_opt.ir.passes.split import components

ORIGIN = Origin("rule", "rule", Where())
COLUMNS = tuple(IRColumn(f"c{at}", 4) for at in range(4))
ALLOWED = tuple(np.arange(4, dtype=np.int32) for _ in COLUMNS)
CODES = (0, 1, 2, 3)


def test_rows_are_those_the_constraints_within_the_columns_allow() -> None:
    total = Linear((0, 2), (CODES, CODES), 3, 3, ORIGIN)
    beyond = Linear((0, 3), (CODES, CODES), 0, 0, ORIGIN)
    pair = Table((2, 0), np.array([[0, 3], [1, 2], [3, 0]], dtype=np.int32), ORIGIN)
    rows = joint_rows((0, 2), COLUMNS, ALLOWED, (total, beyond, pair))
    assert rows.tolist() == [[0, 3], [2, 1], [3, 0]]


def test_rows_without_constraints_are_the_grid_in_lexicographic_order() -> None:
    rows = joint_rows((1, 0), COLUMNS, ALLOWED, ())
    assert rows.tolist() == [list(pair) for pair in product(CODES, CODES)]


def test_no_columns_give_one_empty_row() -> None:
    assert joint_rows((), COLUMNS, ALLOWED, ()).shape == (1, 0)


def test_a_sum_prunes_before_every_column_is_chosen() -> None:
    """Of 4^4 rows only the one with sum 0 is held, so a limit of four rows is enough."""
    nothing = Linear((0, 1, 2, 3), (CODES,) * 4, None, 0, ORIGIN)
    assert joint_rows((0, 1, 2, 3), COLUMNS, ALLOWED, (nothing,), limit=4).tolist() == [[0, 0, 0, 0]]


def test_more_rows_than_the_limit_are_refused() -> None:
    with pytest.raises(LimitError, match="c0, c1 in more than 15 ways"):
        joint_rows((0, 1), COLUMNS, ALLOWED, (), limit=15)


def test_a_constraint_beyond_the_columns_counts_only_where_it_is_asked_for() -> None:
    total = Linear((0, 1, 3), (CODES,) * 3, None, 1, ORIGIN)
    assert len(joint_rows((0, 1), COLUMNS, ALLOWED, (total,))) == 16
    assert joint_rows((0, 1), COLUMNS, ALLOWED, (total,), beyond=True).tolist() == [[0, 0], [0, 1], [1, 0]]


def test_a_sum_beyond_the_columns_takes_what_the_others_give_least_and_most() -> None:
    allowed = (*ALLOWED[:3], np.array([2, 3], dtype=np.int32))
    between = Linear((0, 1, 3), (CODES,) * 3, 8, 8, ORIGIN)
    rows = joint_rows((0, 1), COLUMNS, allowed, (between,), beyond=True)
    assert rows.tolist() == [[2, 3], [3, 2], [3, 3]]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, 9, [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1), (4, 1)]),
        (37, None, [(4, 4), (4, 3), (3, 4)]),
        (None, 1, []),
    ],
)
def test_a_product_beyond_the_columns_by_hand(
    lower: int | None, upper: int | None, expected: list[tuple[int, int]]
) -> None:
    """The other factor is 2 or 4: a product of two up to 9 // 2 = 4, or from 37 / 4 rounded up on, or up to 1 // 2."""
    factors = (1, 2, 3, 4)
    allowed = (*ALLOWED[:3], np.array([1, 3], dtype=np.int32))
    rule = Product((0, 1, 3), (factors,) * 3, lower, upper, ORIGIN)
    rows = joint_rows((0, 1), COLUMNS, allowed, (rule,), beyond=True)
    assert sorted((factors[left], factors[right]) for left, right in rows) == sorted(expected)


@pytest.mark.parametrize(("lower", "upper"), [(None, 0), (1, None), (None, 2)])
def test_a_product_whose_other_factor_may_be_0_excludes_what_no_factor_can_save(
    lower: int | None, upper: int | None
) -> None:
    rule = Product((0, 1, 2), (CODES,) * 3, lower, upper, ORIGIN)
    rows = joint_rows((0, 1), COLUMNS, ALLOWED, (rule,), beyond=True).tolist()
    within = [
        [a, b]
        for a, b in product(CODES, CODES)
        if any((lower is None or a * b * c >= lower) and (upper is None or a * b * c <= upper) for c in CODES)
    ]
    assert rows == within


def test_a_table_beyond_the_columns_leaves_the_pairs_that_its_rows_have() -> None:
    triple = Table((3, 0, 1), np.array([[0, 1, 2], [1, 1, 2], [2, 3, 0]], dtype=np.int32), ORIGIN)
    assert joint_rows((0, 1), COLUMNS, ALLOWED, (triple,), beyond=True).tolist() == [[1, 2], [3, 0]]


def test_a_conditional_beyond_the_columns_excludes_nothing() -> None:
    body = Linear((0, 1), (CODES,) * 2, 0, 0, ORIGIN)
    assert len(joint_rows((0, 1), COLUMNS, ALLOWED, (Conditional(2, body, ORIGIN),), beyond=True)) == 16


def model_of(allowed: tuple[tuple[int, ...], ...], *constraints: Constraint) -> LoweredModel:
    codes = tuple(np.array(row, dtype=np.int32) for row in allowed)
    return LoweredModel(COLUMNS, constraints, codes, (), 4)


def test_columns_no_rule_links_are_independent() -> None:
    link = Linear((0, 2), (CODES, CODES), None, 3, ORIGIN)
    assert components(model_of((CODES,) * 4, link)) == [(0, 2), (1,), (3,)]


def test_a_settled_column_links_nothing() -> None:
    links = Linear((0, 1, 2), (CODES,) * 3, None, 3, ORIGIN)
    assert components(model_of((CODES, (1,), CODES, CODES), links)) == [(0, 2), (1,), (3,)]
    left, right = Linear((0, 1), (CODES,) * 2, None, 3, ORIGIN), Linear((1, 2), (CODES,) * 2, None, 3, ORIGIN)
    assert components(model_of((CODES, (1,), CODES, CODES), left, right)) == [(0,), (1,), (2,), (3,)]
