"""The numbers of a rule that could be changed: literals and instance data that a relation compares with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.expr import Name, Number, Operation, Syntax, children
from cosmic_opt.psa.fold import fold
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.psa.term import ARITHMETIC, RELATIONS, Apply, Constant, Term
from cosmic_opt.units import Unit

LARGEST = 10**18
"""Numbers beyond this stay as they are."""
_LITERAL = re.compile(r"\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?")
_UNIT = re.compile(r"\s*(?:[A-Za-z]+(?:/s)?|\$)")


@dataclass(frozen=True, slots=True)
class RuleNumber:
    """A number that rules compare with: a datum, or the literal at [`start`, `stop`) of one rule's text.

    `value` is in base units of `unit`; `rule` is empty for a datum, and `datum` for a literal.
    """

    value: int
    unit: Unit
    datum: str = ""
    rule: str = ""
    start: int = -1
    stop: int = -1


@dataclass(frozen=True, slots=True)
class NumberSide:
    """A side of a relation that is `coefficient` times a number; the coefficient is not 0."""

    number: RuleNumber
    coefficient: int


@dataclass(frozen=True)
class Atom:
    """A condition that a rule needs: a bound term, and what may be changed in it.

    A side is the bound operand, or a number when it could be another one.
    """

    operator: str
    sides: tuple[Term | NumberSide, Term | NumberSide]


def changeable_atoms(rule: Constraint, data: Mapping[str, Value], adjustable: Mapping[str, Unit]) -> tuple[Atom, ...]:
    """Return the relations whose conjunction the rule is; none when the rule has another form.

    `data` are the numbers that no parameter moves (`settled_numbers`). A number is changeable where a whole side of a
    relation is that number, or a constant times it. `adjustable` gives the data that may change, with their units. A
    number that is 0 has no relative change and stays; so does one that `!=` excludes, or beyond 10^18.
    """
    conjuncts = _conjuncts(parse_rule(rule.text, rule.where))
    if not all(isinstance(part, Operation) and part.operator in RELATIONS for part in conjuncts):
        return ()
    terms: Sequence[Term | None] = [rule.term]
    if isinstance(rule.term, Apply) and rule.term.operator == "and":
        terms = rule.term.operands
    elif isinstance(rule.term, Constant):
        terms = [None] * len(conjuncts)
    if len(terms) != len(conjuncts):
        return ()  # some part was settled while binding: what is left cannot be told apart
    found = [_atom(part, term, rule, data, adjustable) for part, term in zip(conjuncts, terms, strict=True)]
    atoms = tuple(atom for atom in found if atom is not None)
    return atoms if len(atoms) == len(found) else ()


def keeps_its_numbers(rule: Constraint) -> bool:
    """Return whether a rule compares with a number that stays as it is, since it is no conjunction of relations.

    Whether `bandwidth[0] >= 400 GB/s or pp == 1` or `any(...)` holds, and which number would do, is decided design by
    design: no change of one is looked at.
    """
    whole = _conjuncts(parse_rule(rule.text, rule.where))
    parts = [part for part in whole if not (isinstance(part, Operation) and part.operator in RELATIONS)]
    return any(map(_compares_with_a_number, parts))


def _compares_with_a_number(syntax: Syntax) -> bool:
    if isinstance(syntax, Operation) and syntax.operator in RELATIONS - {"!="}:
        return any(isinstance(side, Number) and side.value > 0 for side in syntax.operands)
    return any(map(_compares_with_a_number, children(syntax)))


def adjustable_data(
    rules: Sequence[Constraint], data: Mapping[str, Value], units: Mapping[str, Unit]
) -> dict[str, Unit]:
    """Return those data of `units` that every rule uses as a whole side only, so that a change is fully understood."""
    kept = {}
    for name, unit in units.items():
        uses = sum(_uses(parse_rule(rule.text, rule.where), name) for rule in rules)
        sides = [
            side
            for rule in rules
            for atom in changeable_atoms(rule, data, {name: unit})
            for side in atom.sides
            if isinstance(side, NumberSide) and side.number.datum == name
        ]
        if 0 < uses == len(sides):
            kept[name] = unit
    return kept


def _uses(syntax: Syntax, name: str) -> int:
    own = int(isinstance(syntax, Name) and syntax.name == name)
    return own + sum(_uses(child, name) for child in children(syntax))


def _conjuncts(syntax: Syntax) -> list[Syntax]:
    if isinstance(syntax, Operation) and syntax.operator == "and":
        return [part for operand in syntax.operands for part in _conjuncts(operand)]
    return [syntax]


def _atom(
    syntax: Syntax, term: Term | None, rule: Constraint, data: Mapping[str, Value], adjustable: Mapping[str, Unit]
) -> Atom | None:
    """Return the relation with its changeable sides; None when a side settled while binding cannot be read again."""
    assert isinstance(syntax, Operation), syntax
    bound = term.operands if isinstance(term, Apply) else (None, None)
    sides: list[Term | NumberSide] = []
    for part, operand in zip(syntax.operands, bound, strict=True):
        number = None if syntax.operator == "!=" else next(_number_sides(part, rule, data, adjustable), None)
        side = number or operand or _settled(part, data)
        if side is None:
            return None
        sides.append(side)
    return Atom(syntax.operator, (sides[0], sides[1]))


def _settled(syntax: Syntax, data: Mapping[str, Value]) -> Constant | None:
    """Return the number, or the category, that a side without a parameter is; None where it is not known here."""
    match syntax:
        case Number(value, unit, _):
            return Constant(value, unit)
        case Name(name, _) if name in data:
            return Constant(data[name])
        case Operation(operator, operands, _) if operator in ARITHMETIC:
            parts = [_settled(operand, data) for operand in operands]
            numbers = tuple(part for part in parts if part is not None and isinstance(part.value, int))
            folded = fold(Apply(operator, numbers)) if len(numbers) == len(parts) else None
            return folded if isinstance(folded, Constant) else None
        case _:
            return None


def settled_numbers(parameter_set: ParameterSet) -> dict[str, Value]:
    """Return the instance's numbers by name, with the quantities that no parameter moves."""
    data = dict(parameter_set.data)
    for name, quantity in parameter_set.quantities.items():
        if isinstance(quantity, Quantity) and all(data.keys() >= set(term.names) for term in quantity.terms):
            given = [{each: np.array([data[each]]) for each in term.names} for term in quantity.terms]
            parts = (term.evaluate(values)[0] for term, values in zip(quantity.terms, given, strict=True))
            data[name] = sum(map(int, parts))
    return data


def _number_sides(
    syntax: Syntax, rule: Constraint, data: Mapping[str, Value], adjustable: Mapping[str, Unit], coefficient: int = 1
) -> Iterator[NumberSide]:
    """Yield the number that `syntax` is `coefficient` times of, if it is one."""
    match syntax:
        case Number(value, unit, at) if 0 < value <= LARGEST and coefficient and rule.text[at].isdigit():
            stop = _end_of_literal(rule.text, syntax)
            yield NumberSide(RuleNumber(value, unit, rule=rule.name, start=at, stop=stop), coefficient)
        case Name(name, _) if name in adjustable and coefficient:
            yield NumberSide(RuleNumber(int(data[name]), adjustable[name], datum=name), coefficient)
        case Operation("neg", (operand,), _):
            yield from _number_sides(operand, rule, data, adjustable, -coefficient)
        case Operation("*", operands, _):
            others = [operand for operand in operands if not isinstance(operand, Number)]
            if len(others) == 1:
                for operand in operands:
                    coefficient *= operand.value if isinstance(operand, Number) else 1
                yield from _number_sides(others[0], rule, data, adjustable, coefficient)


def _end_of_literal(text: str, number: Number) -> int:
    """Return where a literal ends, its unit included."""
    digits = _LITERAL.match(text, number.at)
    assert digits is not None, text
    unit = _UNIT.match(text, digits.end()) if number.unit is not Unit.NONE else None
    return unit.end() if unit else digits.end()
