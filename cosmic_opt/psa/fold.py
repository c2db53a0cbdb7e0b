"""Evaluate the constant parts of bound terms."""

from __future__ import annotations

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.term import Apply, Constant, Term


def fold(term: Apply) -> Term:
    """Return `term` with constant sub-terms evaluated."""
    operator, operands = term.operator, term.operands
    if operator in ("and", "or"):
        return _fold_logic(term)
    if all(isinstance(operand, Constant) for operand in operands):
        values = [operand.value for operand in operands if isinstance(operand, Constant)]
        return Constant(_constant(operator, values), term.unit)
    if operator in ("+", "*") and len(operands) == 1:
        return operands[0]
    if operator == "not" and isinstance(operands[0], Apply) and operands[0].operator == "not":
        return operands[0].operands[0]
    if operator == "implies":
        if isinstance(operands[0], Constant):
            return operands[1] if operands[0].value else Constant(1)
        if isinstance(operands[1], Constant):
            return Constant(1) if operands[1].value else Apply("not", (operands[0],))
    return term


def _fold_logic(term: Apply) -> Term:
    neutral = int(term.operator == "and")
    kept: list[Term] = []
    for operand in term.operands:
        if isinstance(operand, Constant):
            if operand.value != neutral:
                return Constant(1 - neutral)
        elif operand not in kept:
            kept.append(operand)
    if not kept:
        return Constant(neutral)
    return kept[0] if len(kept) == 1 else Apply(term.operator, tuple(kept))


def _constant(operator: str, values: list[Value]) -> int:
    if operator in ("==", "!="):
        return int((values[0] == values[1]) == (operator == "=="))
    numbers = [value for value in values if isinstance(value, int)]
    assert len(numbers) == len(values), (operator, values)
    product = 1
    if operator == "*":
        for number in numbers:
            product *= number
        return product
    first, second = numbers[0], numbers[-1]
    return {
        "+": lambda: sum(numbers),
        "neg": lambda: -first,
        "min": lambda: min(numbers),
        "max": lambda: max(numbers),
        "//": lambda: first // second,
        "%": lambda: first % second,
        "<=": lambda: int(first <= second),
        "<": lambda: int(first < second),
        ">=": lambda: int(first >= second),
        ">": lambda: int(first > second),
        "not": lambda: 1 - first,
        "implies": lambda: int(not first or bool(second)),
    }[operator]()
