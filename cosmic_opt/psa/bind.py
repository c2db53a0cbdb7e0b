"""Resolve the names of a parsed rule, unroll its aggregates, check units, fold constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.expr import Aggregate, Index, Member, Name, Number, Operation, Syntax, Text
from cosmic_opt.psa.family import Family, IndexSet
from cosmic_opt.psa.fold import fold
from cosmic_opt.psa.parse import error_at
from cosmic_opt.psa.quantity import Quantity, SimulatedQuantity
from cosmic_opt.psa.term import (
    ARITHMETIC,
    LOGIC,
    RELATIONS,
    Apply,
    ColumnTerm,
    Constant,
    QuantityPart,
    Simulated,
    Term,
    interval,
    is_category,
    is_simulated,
)
from cosmic_opt.units import NEEDED, Unit, missing_unit

MAX_TERMS = 20_000
MAX_BITS = 1024
"""A constant of more bits is refused."""


class Looped(NamedTuple):
    """What a bound index stands for: a position in an index."""

    axis: IndexSet
    position: int


Loop = Mapping[str, Looped]
"""The indices in scope, by the variable that runs over them."""


@dataclass(frozen=True)
class Names:
    """What a rule may name.

    `families` holds the parameters and data with one member per index, `indices` the indices ("dim", "group").
    `categories` gives every category a column could have had before it was fixed, and a datum before it was given,
    so that a rule reads the same whatever is fixed. `left_out` names optional parameters this problem does without,
    `absent` quantities it does not have: what is missing for each, and how to give it.
    """

    columns: Mapping[str, ColumnTerm]
    data: Mapping[str, Value]
    units: Mapping[str, Unit]
    families: Mapping[str, Family]
    quantities: Mapping[str, Quantity | SimulatedQuantity]
    indices: Mapping[str, IndexSet]
    categories: Mapping[str, frozenset[str]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    absent: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def all(self) -> frozenset[str]:
        """Return every name, for a hint."""
        return frozenset().union(self.columns, self.data, self.families, self.quantities)


def bind_rule(syntax: Syntax, text: str, names: Names, where: Where | None = None) -> Term:
    """Return the bound form of a rule.

    Raises:
        SpecError: an unknown name, a wrong unit, a category where a number is meant, a possible division by zero,
            or an expression that is not a condition.
    """
    binder = _Binder(text, names, where)
    term = binder.bind(syntax, {}, None)
    if not _is_condition(term):
        raise error_at(text, 0, "this is a number, not a condition", where, "compare it, for example with '<= 8'")
    return term


def _is_condition(term: Term) -> bool:
    if isinstance(term, Constant):
        return term.value in (0, 1)
    if isinstance(term, ColumnTerm):
        return set(term.values) <= {0, 1}
    return isinstance(term, Apply) and (term.operator in RELATIONS or term.operator in LOGIC)


class _Binder:
    def __init__(self, text: str, names: Names, where: Where | None) -> None:
        self.text = text
        self.names = names
        self.where = where
        self.made = 0

    def fail(self, at: int, message: str, hint: str | None = None) -> SpecError:
        return error_at(self.text, at, message, self.where, hint)

    def bind(self, syntax: Syntax, loop: Loop, categories: frozenset[str] | None) -> Term:
        """Bind `syntax`; `loop` gives the indices in scope, `categories` what a bare name may mean here."""
        self.made += 1
        if self.made > MAX_TERMS:
            raise self.fail(syntax.at, "the rule unrolls to too many terms", f"at most {MAX_TERMS:,}")
        match syntax:
            case Number(value, unit, _):
                return Constant(value, unit)
            case Text(value, _):
                return self.category(value, syntax.at, categories)
            case Name(name, at):
                return self.name(name, at, loop, categories)
            case Index(name, indices, at):
                return self.indexed(name, indices, at, loop)
            case Operation(operator, operands, at):
                return self.operation(operator, operands, at, loop)
            case Member(item, options, at):
                equal = [Operation("==", (item, option), at) for option in options]
                return self.operation("or", tuple(equal), at, loop)
            case Aggregate():
                return self.aggregate(syntax, loop)

    def name(self, name: str, at: int, loop: Loop, categories: frozenset[str] | None) -> Term:
        names = self.names
        known = name in names.columns or name in names.data or name in names.families or name in names.quantities
        if categories is not None and name in categories:
            if known:
                raise self.fail(
                    at,
                    f"{name!r} is both a category and a name",
                    f"write '{name}' in quotes for the category",
                )
            return Constant(name)
        if name in loop:
            return Constant(loop[name].position)
        if name in names.columns:
            return names.columns[name]
        if name in names.data:
            return Constant(names.data[name], names.units.get(name, Unit.NONE))
        if name in names.quantities:
            return self.quantity(names.quantities[name])
        if name in names.families:
            raise self.fail(at, f"{name!r} has one value per index", f"write {name}[0] or sum({name})")
        if categories is not None:
            raise self.fail(at, f"{name!r} is not a value here", nearest(name, categories))
        self.refuse_left_out(name, at)
        if name in names.absent:
            why, hint = names.absent[name]
            raise self.fail(at, f"{name!r} is not known: {why}", hint)
        raise self.fail(
            at, f"unknown name {name!r}", nearest(name, names.all() | names.absent.keys() | frozenset(loop))
        )

    def category(self, value: str, at: int, categories: frozenset[str] | None) -> Term:
        if categories is None:
            raise self.fail(at, f"the text {value!r} can only be compared with a parameter that has categories")
        if value not in categories:
            raise self.fail(at, f"{value!r} is not a value here", nearest(value, categories))
        return Constant(value)

    def quantity(self, quantity: Quantity | SimulatedQuantity) -> Term:
        if isinstance(quantity, SimulatedQuantity):
            return Simulated(quantity)
        parts: list[Term] = []
        for term in quantity.terms:
            given = tuple((name, self.names.data[name]) for name in term.names if name not in self.names.columns)
            part = QuantityPart(quantity.name, term, quantity.unit, given)
            parts.append(part if part.columns else _settled(part))
        return _sum(parts, quantity.unit)

    def indexed(self, name: str, indices: tuple[Syntax, ...], at: int, loop: Loop) -> Term:
        self.refuse_left_out(name, at)
        if name not in self.names.families:
            known = name in self.names.columns or name in self.names.data
            hint = f"write {name} without an index" if known else nearest(name, self.names.families)
            raise self.fail(at, f"{name!r} has no index" if known else f"unknown family {name!r}", hint)
        family = self.names.families[name]
        if len(indices) != len(family.axes):
            raise self.fail(at, f"{name!r} has {len(family.axes)} indices, not {len(indices)}", family.describe())
        pairs = zip(indices, family.axes, strict=True)
        return self.member(family, tuple(self.index_on(axis, index, family, at, loop) for index, axis in pairs))

    def refuse_left_out(self, name: str, at: int) -> None:
        if name in self.names.left_out:
            raise self.fail(at, f"{name!r} is left out of this problem", f"open it with --free {name}")

    def index_on(self, axis: IndexSet, index: Syntax, family: Family, at: int, loop: Loop) -> int:
        """Return the position on an axis that an index denotes: a member's name, or a number from 0."""
        if isinstance(index, Name) and index.name not in loop and axis.named:
            if index.name not in axis.members:
                raise self.fail(index.at, f"{index.name!r} is no {axis.name}", nearest(index.name, axis.members))
            return axis.members.index(index.name)
        if isinstance(index, Name) and index.name in loop and (axis.named or loop[index.name].axis.named):
            looped = loop[index.name]
            if looped.axis.name != axis.name:
                message = f"{index.name!r} runs over {looped.axis.name}, this index of {family.name!r} is a {axis.name}"
                raise self.fail(index.at, message, family.describe())
            return looped.position
        bound = self.bind(index, loop, None)
        if not isinstance(bound, Constant) or not isinstance(bound.value, int):
            raise self.fail(at, "an index must be a constant or a bound index")
        if not 0 <= bound.value < len(axis.members):
            raise self.fail(at, f"{family.name}[{bound.value}] does not exist", family.describe())
        return bound.value

    def member(self, family: Family, positions: tuple[int, ...]) -> Term:
        member = family.member(positions)
        if member in self.names.columns:
            return self.names.columns[member]
        return Constant(self.names.data[member], self.names.units.get(family.name, Unit.NONE))

    def aggregate(self, syntax: Aggregate, loop: Loop) -> Term:
        parts = self._unroll(syntax, loop)
        kind = syntax.kind
        if kind in ("all", "any", "count"):
            for part in parts:
                if not _is_condition(part):
                    raise self.fail(syntax.at, f"{kind}(…) takes conditions")
            if kind == "count":
                return _sum(parts, Unit.NONE)
            return self.apply("and" if kind == "all" else "or", parts, syntax.at)
        if not parts and kind in ("min", "max"):
            raise self.fail(syntax.at, f"{kind}(…) of nothing")
        if kind == "sum":
            return self.apply("+", parts, syntax.at) if parts else Constant(0)
        if kind == "product":
            return self.apply("*", parts, syntax.at) if parts else Constant(1)
        return self.apply(kind, parts, syntax.at)

    def _unroll(self, syntax: Aggregate, loop: Loop) -> list[Term]:
        """Return one bound term per member of the aggregate."""
        if syntax.variable is None:
            return [part for body in syntax.body for part in self._family_or_term(body, loop)]
        if syntax.index not in self.names.indices:
            raise self.fail(
                syntax.at, f"unknown index {syntax.index!r}", nearest(str(syntax.index), self.names.indices)
            )
        if syntax.variable in self.names.all():
            raise self.fail(syntax.at, f"the index {syntax.variable!r} is also a name", "call it d")
        parts: list[Term] = []
        axis = self.names.indices[str(syntax.index)]
        for position in range(len(axis.members)):
            inner = {**loop, syntax.variable: Looped(axis, position)}
            if syntax.condition is not None:
                condition = self.bind(syntax.condition, inner, None)
                if not isinstance(condition, Constant):
                    raise self.fail(syntax.condition.at, "the 'if' of an aggregate may only use the index and data")
                if not condition.value:
                    continue
            parts.append(self.bind(syntax.body[0], inner, None))
        return parts

    def _family_or_term(self, body: Syntax, loop: Loop) -> list[Term]:
        if isinstance(body, Name) and body.name in self.names.families and body.name not in loop:
            family = self.names.families[body.name]
            return [self.member(family, positions) for positions in family.indices]
        return [self.bind(body, loop, None)]

    def operation(self, operator: str, operands: tuple[Syntax, ...], at: int, loop: Loop) -> Term:
        if operator in RELATIONS:
            return self.relation(operator, operands, at, loop)
        bound = [self.bind(operand, loop, None) for operand in operands]
        if operator in LOGIC:
            for operand, term in zip(operands, bound, strict=True):
                if not _is_condition(term):
                    raise self.fail(operand.at, f"'{operator}' takes conditions", "compare it, for example with '== 1'")
        return self.apply(operator, bound, at)

    def relation(self, operator: str, operands: tuple[Syntax, ...], at: int, loop: Loop) -> Term:
        left_categories = self._categories(operands[0], loop)
        right_categories = self._categories(operands[1], loop)
        left = self.bind(operands[0], loop, right_categories)
        right = self.bind(operands[1], loop, left_categories)
        if is_category(left) != is_category(right):
            raise self.fail(at, "a category and a number cannot be compared")
        if is_category(left) and operator not in ("==", "!="):
            raise self.fail(at, f"categories have no order: {operator!r}", "use == or !=")
        self._check_units(operator, [left, right], at)
        return self.apply(operator, [left, right], at)

    def _categories(self, syntax: Syntax, loop: Loop) -> frozenset[str] | None:
        """Return the categories `syntax` may take, when it is a categorical column or datum, or a family of them."""
        members: tuple[str, ...] = ()
        if isinstance(syntax, Name) and syntax.name not in loop:
            members = (syntax.name,)
        elif isinstance(syntax, Index):
            family = self.names.families.get(syntax.name)
            members = family.members if family else ()
        names, texts = self.names, set[str]()
        for member in members:
            values = names.columns[member].values if member in names.columns else (names.data.get(member),)
            texts.update(value for value in values if isinstance(value, str))
            texts |= names.categories.get(member, frozenset())
        return frozenset(texts) or None

    def _check_units(self, operator: str, terms: list[Term], at: int) -> None:
        """Refuse a sum or comparison of different units; a bare number stands for base units except for time.

        In a rule that a person typed, a bare number of bytes that is too small to be meant is refused, too.
        """
        units = {term.unit for term in terms if term.unit is not Unit.NONE}
        if len(units) > 1:
            shown = " and ".join(sorted(unit.kind for unit in units))
            raise self.fail(at, f"{operator!r} mixes {shown}", "compare numbers of one unit")
        if units and any(not _is_measured(term) for term in terms):
            shown = units.pop().kind
            hint = "give the parameter a unit, or compare it with a bare number"
            raise self.fail(at, f"{operator!r} mixes {shown} and a number without a unit", hint)
        bare = [term for term in terms if isinstance(term, Constant) and term.unit is Unit.NONE and term.value != 0]
        needed = next((unit for unit in units if unit in NEEDED), None)
        if needed is not None and bare:
            what, symbol = NEEDED[needed][0], {Unit.TIME: "s"}.get(needed, NEEDED[needed][1])
            hint = f"write for example {bare[0].value} {symbol}"
            raise self.fail(at, f"{bare[0].value} needs a unit of {what}", hint)
        if units and self.where is not None and (self.where.file or "").startswith("--"):
            self._check_typed(bare, next(iter(units)), at)

    def _check_typed(self, bare: list[Constant], unit: Unit, at: int) -> None:
        for term in bare:
            size = abs(int(term.value))
            hint = missing_unit(size, unit)
            if hint is not None:
                raise self.fail(at, f"{size} what?", hint)

    def apply(self, operator: str, operands: list[Term], at: int) -> Term:
        """Return the operator applied, checked and folded."""
        if operator in ARITHMETIC and any(is_category(operand) for operand in operands):
            shown = "-" if operator == "neg" else operator
            raise self.fail(at, f"{shown!r} takes numbers, not categories")
        if operator in ARITHMETIC and any(map(is_simulated, operands)):
            raise self.fail(at, "a simulated quantity can only be compared", "write for example step_time <= 2 s")
        if operator in ("+", "min", "max"):
            self._check_units(operator, operands, at)
        if operator in ("//", "%") and _may_be_zero(operands[1]):
            raise self.fail(at, f"{operator!r} may divide by zero", "the divisor must exclude 0")
        term = fold(Apply(operator, tuple(_flatten(operator, operands)), _unit_of(operator, operands)))
        if isinstance(term, Constant) and isinstance(term.value, int) and term.value.bit_length() > MAX_BITS:
            raise self.fail(at, f"the number is beyond 2^{MAX_BITS}")
        return term


def _may_be_zero(term: Term) -> bool:
    """Tell whether a number may be zero: exactly for a column, by its bounds otherwise."""
    if isinstance(term, ColumnTerm):
        return 0 in term.values
    low, high = interval(term)
    return low <= 0 <= high


def _is_measured(term: Term) -> bool:
    """Tell whether a term has a unit, or may have: a constant, or something made of terms with units."""
    if isinstance(term, Constant) or term.unit is not Unit.NONE:
        return True
    return isinstance(term, Apply) and any(
        part.unit is not Unit.NONE or (isinstance(part, Apply) and _is_measured(part)) for part in term.operands
    )


def _unit_of(operator: str, operands: list[Term]) -> Unit:
    """Return the unit of a result: a ratio of one unit has none, and neither has a product of two units."""
    if operator in RELATIONS or operator in LOGIC:
        return Unit.NONE
    units = [operand.unit for operand in operands if operand.unit is not Unit.NONE]
    if operator == "//":
        return operands[0].unit if operands[1].unit is Unit.NONE else Unit.NONE
    if operator == "%":
        return operands[0].unit
    if operator == "*" and len(units) > 1:
        return Unit.NONE
    return units[0] if units else Unit.NONE


def _flatten(operator: str, operands: list[Term]) -> list[Term]:
    if operator not in ("+", "*", "and", "or"):
        return operands
    flat: list[Term] = []
    for operand in operands:
        inner = isinstance(operand, Apply) and operand.operator == operator
        flat.extend(operand.operands if inner and isinstance(operand, Apply) else (operand,))
    return flat


def _settled(part: QuantityPart) -> Constant:
    """Return the value of a part that reads instance data only."""
    values = part.term.evaluate({name: np.array([value]) for name, value in part.given})
    return Constant(int(values[0]), part.unit)


def _sum(parts: list[Term], unit: Unit) -> Term:
    if len(parts) == 1:
        return parts[0]
    return fold(Apply("+", tuple(parts), unit)) if parts else Constant(0, unit)
