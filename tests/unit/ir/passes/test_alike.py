"""Codes that no constraint tells apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Conditional, Linear, LoweredModel, Product, Table
from cosmic_opt.ir.passes.alike import BATCH, Alike
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.exhaustive import Exhaustive
from tests.strategies import FOCUSES, Source, brute_force, sources
from tests.unit.solvers.small import ORIGIN, model_of, table


def classes_of(model: LoweredModel) -> list[list[list[int]]]:
    return [[codes.tolist() for codes in own.values()] for own in Alike.of(model).classes]


def members(model: LoweredModel) -> list[list[int]]:
    alike = Alike.of(model)
    listed = Exhaustive().enumerate(alike.model, limits=Limits())
    return sorted(row for designs in listed for part in alike.members(designs) for row in part.tolist())


def test_codes_of_a_column_that_nothing_reads_are_alike() -> None:
    assert classes_of(model_of((3, 2))) == [[[0, 1, 2]], [[0, 1]]]


def test_codes_of_equal_weight_are_alike() -> None:
    total = Linear((0, 1), ((5, 7, 5, 7), (0, 1)), None, 6, ORIGIN)
    assert classes_of(model_of((4, 2), total)) == [[[0, 2], [1, 3]], [[0], [1]]]


def test_one_constraint_is_enough_to_tell_codes_apart() -> None:
    total = Linear((0, 1), ((5, 5, 5), (0, 1)), None, 6, ORIGIN)
    factor = Product((0, 1), ((2, 2, 3), (1, 2)), None, 4, ORIGIN)
    assert classes_of(model_of((3, 2), total, factor)) == [[[0, 1], [2]], [[0], [1]]]


def test_codes_with_equal_rows_beside_them_are_alike_in_whatever_order_the_rows_are() -> None:
    pairs = table((0, 1), (0, 0), (1, 1), (2, 0), (1, 0), (2, 1))
    assert classes_of(model_of((4, 2), pairs)) == [[[0], [1, 2], [3]], [[0], [1]]]


def test_a_guard_tells_1_from_every_other_code() -> None:
    rule = Conditional(0, Linear((1,), ((0, 0, 1),), 1, 1, ORIGIN), ORIGIN)
    assert classes_of(model_of((3, 3), rule)) == [[[0, 2], [1]], [[0, 1], [2]]]


def test_a_table_without_columns_tells_nothing_apart() -> None:
    assert classes_of(model_of((2,), Table((), np.zeros((1, 0), dtype=np.int32), ORIGIN))) == [[[0, 1]]]


def test_a_table_without_rows_excludes_all_codes_alike() -> None:
    rule = Conditional(1, table((0, 1)), ORIGIN)
    assert classes_of(model_of((3, 2), rule)) == [[[0, 1, 2]], [[0], [1]]]


def test_a_threshold_per_shape_leaves_as_many_classes_as_thresholds() -> None:
    """Batches up to 1, 3 and 3 of three shapes: 0 and 1 fit all, 2 and 3 the last two, and 4 and 5 none."""
    fits = table((0, 1), *((shape, batch) for shape, most in enumerate((1, 3, 3)) for batch in range(most + 1)))
    model = model_of((3, 6), fits)
    assert classes_of(model) == [[[0], [1, 2]], [[0, 1], [2, 3], [4, 5]]]
    assert members(model) == [[shape, batch] for shape, most in enumerate((1, 3, 3)) for batch in range(most + 1)]


def test_members_come_in_batches_and_none_is_listed_before_it_is_asked_for() -> None:
    alike = Alike.of(model_of((1000,) * 9))
    first = next(alike.members(np.zeros((1, 9), dtype=np.int32)))
    assert BATCH // 10 < len(first) <= 2 * BATCH
    assert first[:, -1].tolist() == [*range(1000)] * (len(first) // 1000)


def test_distinct_designs_stand_for_distinct_members() -> None:
    total = Linear((0, 2), ((0, 1, 0, 1), (0, 1)), 1, 1, ORIGIN)
    expected = [[a, b, c] for a, b, c in product(range(4), range(3), range(2)) if a % 2 + c == 1]
    assert members(model_of((4, 3, 2), total)) == expected


@pytest.mark.parametrize("focus", FOCUSES)
def test_the_members_are_the_feasible_set(focus: str) -> None:
    @settings(max_examples=20, deadline=None)
    @given(sources(focus))
    def members_are_feasible(source: Source) -> None:
        parameter_set = source.bind()
        model = lower(parameter_set)
        if not model.infeasible:
            assert members(model) == brute_force(parameter_set).tolist()

    members_are_feasible()
