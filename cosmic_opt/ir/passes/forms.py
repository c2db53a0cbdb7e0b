"""Recognise sums and products of single-column functions, and turn products into sums of prime exponents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant, Term

FACTOR_LIMIT = 10**12
"""Numbers above this are not factored (trial division would take seconds)."""

Columns = Mapping[str, ColumnTerm]
"""Every column by name."""

Function = dict[str, tuple[int, ...]]
"""A value per code, for each column."""


def values_by_code(term: Term, column: ColumnTerm) -> tuple[int, ...]:
    """Return the value of a term that reads one column only, for each of its codes."""
    values = evaluate(term, {column.name: column.array}, len(column.values))
    return tuple(int(value) for value in values)


def summands(term: Term, sign: int = 1) -> list[tuple[int, Term]]:
    """Return `term` as a list of (coefficient, term) whose weighted sum it is."""
    if isinstance(term, Apply) and term.operator == "+":
        return [part for operand in term.operands for part in summands(operand, sign)]
    if isinstance(term, Apply) and term.operator == "neg":
        return summands(term.operands[0], -sign)
    if isinstance(term, Apply) and term.operator == "*":
        constant = math.prod(
            operand.value
            for operand in term.operands
            if isinstance(operand, Constant) and isinstance(operand.value, int)
        )
        rest = [operand for operand in term.operands if not isinstance(operand, Constant)]
        if len(rest) == 1:
            return summands(rest[0], sign * constant)
    return [(sign, term)]


def monomial(term: Term) -> tuple[int, list[Term]] | None:
    """Return (constant, factors) when `term` is a product of single-column functions."""
    factors = list(term.operands) if isinstance(term, Apply) and term.operator == "*" else [term]
    constant = 1
    rest: list[Term] = []
    for factor in factors:
        if isinstance(factor, Constant):
            if not isinstance(factor.value, int):
                return None
            constant *= factor.value
        elif len(factor.columns) == 1:
            rest.append(factor)
        else:
            return None
    return constant, rest


def factor_values(factors: Iterable[Term], columns: Columns) -> Function:
    """Return, per column, the product of its factors for each code."""
    table: Function = {}
    for factor in factors:
        (name,) = factor.columns
        values = values_by_code(factor, columns[name])
        old = table.get(name, (1,) * len(values))
        table[name] = tuple(left * right for left, right in zip(old, values, strict=True))
    return table


def prime_exponents(number: int) -> dict[int, int]:
    """Return the prime factorisation of a positive integer."""
    exponents: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            exponents[divisor] = exponents.get(divisor, 0) + 1
            number //= divisor
        divisor += 1 if divisor == 2 else 2
    if number > 1:
        exponents[number] = exponents.get(number, 0) + 1
    return exponents


def exponent_equations(left: Function, right: Function, quotient: tuple[int, int]) -> list[tuple[Function, int]] | None:
    """Return linear equations equivalent to `a * prod(left) == b * prod(right)`, with (a, b) = `quotient`.

    Each equation is (weights per column and code, right-hand side), one per prime that occurs. None when a value
    is not positive or is too large to factor.
    """
    numbers = {value for table in (left, right) for values in table.values() for value in values} | set(quotient)
    if any(number <= 0 or number > FACTOR_LIMIT for number in numbers):
        return None
    factored = {number: prime_exponents(number) for number in numbers}
    primes = sorted({prime for exponents in factored.values() for prime in exponents})
    equations = []
    for prime in primes:
        weights: Function = {}
        for sign, table in ((1, left), (-1, right)):
            for name, values in table.items():
                exponents = [sign * factored[value].get(prime, 0) for value in values]
                old = weights.get(name, (0,) * len(values))
                weights[name] = tuple(a + b for a, b in zip(old, exponents, strict=True))
        target = factored[quotient[1]].get(prime, 0) - factored[quotient[0]].get(prime, 0)
        equations.append((weights, target))
    return equations
