"""The NumPy checker and the re-check of what a solver returned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.errors import EngineDisagreement, Where
from cosmic_opt.ir.check import check, complete, recheck, satisfied
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Conditional, IRColumn, Linear, LoweredModel, Origin, Product, Table
from tests.strategies import Source, brute_force, declare, sources, whole_grid

ORIGIN = Origin("rule", "rule", Where())


def free(*sizes: int) -> LoweredModel:
    columns = tuple(IRColumn(f"c{at}", size) for at, size in enumerate(sizes))
    return LoweredModel(columns, (), tuple(np.arange(s, dtype=np.int32) for s in sizes), (), len(sizes))


def table(columns: tuple[int, ...], *rows: tuple[int, ...]) -> Table:
    return Table(columns, np.array(rows, dtype=np.int32).reshape(-1, len(columns)), ORIGIN)


CODES = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)


def test_sum_lies_between_its_bounds() -> None:
    rule = Linear((0, 1), ((0, 3), (1, 2)), 2, 4, ORIGIN)
    assert satisfied(rule, free(2, 2), CODES).tolist() == [False, True, True, False]


def test_product_lies_between_its_bounds() -> None:
    rule = Product((0, 1), ((0, 3), (1, 2)), 1, 3, ORIGIN)
    assert satisfied(rule, free(2, 2), CODES).tolist() == [False, False, True, False]


def test_table_lists_what_is_allowed() -> None:
    assert satisfied(table((1, 0), (1, 0), (0, 1)), free(2, 2), CODES).tolist() == [False, True, True, False]
    assert not satisfied(table((0, 1)), free(2, 2), CODES).any()


def test_conditional_binds_where_its_guard_is_one() -> None:
    rule = Conditional(0, Linear((1,), ((0, 1),), 1, None, ORIGIN), ORIGIN)
    assert satisfied(rule, free(2, 2), CODES).tolist() == [True, True, False, True]


def test_numbers_beyond_63_bits_do_not_wrap() -> None:
    total = Linear((0, 1), ((0, 2**63), (0, 2**63)), 2**63, None, ORIGIN)
    assert satisfied(total, free(2, 2), CODES).tolist() == [False, True, True, True]
    product = Product((0, 1), ((1, 2**40), (1, 2**40)), None, 2**40, ORIGIN)
    assert satisfied(product, free(2, 2), CODES).tolist() == [True, True, True, False]


def test_table_over_more_than_63_bits_of_codes_is_exact() -> None:
    width = 70
    row = np.arange(width) % 2
    rule = table(tuple(range(width)), tuple(row))
    codes = np.array([row, 1 - row, row], dtype=np.int32)
    codes[2, -1] ^= 1
    assert satisfied(rule, free(*[2] * width), codes).tolist() == [True, False, False]


def test_helper_is_read_off_its_definition_and_uncovered_designs_are_told() -> None:
    parity = table((0, 1, 2), (0, 0, 0), (0, 1, 1), (1, 0, 1))
    base = free(2, 2, 2)
    model = LoweredModel(base.columns, (), base.allowed, (parity,), 2)
    codes, covered = complete(model, CODES)
    assert covered.tolist() == [True, True, True, False]
    assert codes[covered][:, 2].tolist() == [0, 1, 1]
    assert check(model, CODES).tolist() == [True, True, True, False]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(sources("products"))
def test_recheck_accepts_every_feasible_design_and_raises_on_every_other(source: Source) -> None:
    parameter_set = source.bind()
    model = lower(parameter_set)
    designs = brute_force(parameter_set)
    recheck(model, parameter_set, designs, "engine")
    members = {tuple(row) for row in designs.tolist()}
    outside = [row for row in whole_grid(parameter_set) if tuple(row.tolist()) not in members]
    for row in outside[:5]:
        planted = np.vstack([designs[:3], row.reshape(1, -1)])
        with pytest.raises(EngineDisagreement, match="engine returned a design that breaks a rule"):
            recheck(model, parameter_set, planted, "engine")


def test_recheck_judges_by_the_declared_rules_too() -> None:
    """A lowering that lost a rule would be caught."""
    parameter_set = declare(
        "schema: cosmic-opt/model@1\nname: m\nparameters:\n  a: {stack: compute, domain: [1, 2]}\n"
        "constraints:\n  one: a == 1\n"
    )
    with pytest.raises(EngineDisagreement, match="'a': 2"):
        recheck(free(2), parameter_set, np.array([[0], [1]], dtype=np.int32), "engine")
