"""Sums, products and prime exponents."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.ir.passes.forms import (
    FACTOR_LIMIT,
    exponent_equations,
    factor_values,
    monomial,
    prime_exponents,
    summands,
    values_by_code,
)
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant
from cosmic_opt.units import Unit

A = ColumnTerm("a", (1, 2, 6), Unit.NONE)
B = ColumnTerm("b", (-1, 3), Unit.NONE)


def test_factors_of_1536_are_nine_twos_and_a_three() -> None:
    assert prime_exponents(1536) == {2: 9, 3: 1}
    assert prime_exponents(1) == {}
    assert prime_exponents(10**12 - 11) == {10**12 - 11: 1}


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 10**9))
def test_factors_multiply_back_and_are_prime(number: int) -> None:
    exponents = prime_exponents(number)
    assert math.prod(prime**power for prime, power in exponents.items()) == number
    assert all(prime_exponents(prime) == {prime: 1} for prime in exponents)


def test_sum_is_taken_apart_through_signs_and_constant_factors() -> None:
    total = Apply("+", (A, Apply("neg", (Apply("*", (Constant(3), B)),)), Constant(7)))
    assert summands(total) == [(1, A), (-3, B), (1, Constant(7))]


def test_product_is_a_constant_and_factors_of_one_column_each() -> None:
    assert monomial(Apply("*", (Constant(2), A, Constant(5), B))) == (10, [A, B])
    assert monomial(Apply("*", (A, Apply("+", (A, B))))) is None


def test_factors_of_one_column_are_multiplied_per_code() -> None:
    assert factor_values([A, B, A], {"a": A, "b": B}) == {"a": (1, 4, 36), "b": (-1, 3)}


def test_values_beyond_63_bits_stay_integers() -> None:
    wide = ColumnTerm("w", (-1, 2**63 + 1), Unit.NONE)
    assert values_by_code(wide, wide) == (-1, 2**63 + 1)
    assert values_by_code(Apply("*", (wide, wide)), wide) == (1, (2**63 + 1) ** 2)


def test_one_equation_per_prime() -> None:
    equations = exponent_equations({"a": (1, 2, 6)}, {"b": (1, 3)}, (1, 2))
    assert equations == [({"a": (0, 1, 1), "b": (0, 0)}, 1), ({"a": (0, 0, 1), "b": (0, -1)}, 0)]


@pytest.mark.parametrize("values", [(0, 1), (-2, 4), (1, FACTOR_LIMIT + 1)])
def test_no_exponents_without_positive_numbers_small_enough_to_factor(values: tuple[int, int]) -> None:
    assert exponent_equations({"a": values}, {}, (1, 1)) is None
