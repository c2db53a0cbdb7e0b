"""Which rules one design breaks, and by how much: both sides of every relation that fails, in base units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.ir.passes.normal_form import negate
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.expr import Operation
from cosmic_opt.psa.parameter_set import Column, Constraint, DesignBatch, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.term import RELATIONS, Apply, Constant, QuantityPart, Term, show
from cosmic_opt.units import Unit

SHOWN_VALUES = 12


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a relation: what the rule says there, and its value in base units of `unit`."""

    text: str
    value: Value | float
    unit: Unit


@dataclass(frozen=True, slots=True)
class Violation:
    """A relation that the design breaks: `left operator right` is false.

    A rule joined by 'or' has one for each of its parts, all of which fail. A value outside the domain of its
    parameter is one as well, with the operator 'in'.
    """

    constraint: str
    rule: str
    where: Where
    why: str
    left: Side
    operator: str
    right: Side


def violations(parameter_set: ParameterSet, values: Mapping[str, Value]) -> list[Violation]:
    """Return what one design breaks: domains first, then structural rules in order.

    `values` holds a value per column. A rule that reads a value outside its domain is not judged: quantities are
    defined on the domains only.

    Raises:
        SpecError: a column without a value.
    """
    missing = [column.name for column in parameter_set.columns if column.name not in values]
    if missing:
        raise SpecError(f"the design gives no value for {missing[0]!r}", hint=f"missing: {', '.join(missing)}")
    outside = {column.name: column for column in parameter_set.columns if values[column.name] not in column.codes}
    found = [_outside(column, values[name]) for name, column in outside.items()]
    design = parameter_set.design({**values, **{name: column.values[0] for name, column in outside.items()}})
    for rule in parameter_set.constraints:
        if not rule.simulated and not rule.term.columns & set(outside):
            found.extend(_broken(rule, design))
    return found


def _outside(column: Column, value: Value) -> Violation:
    shown = [column.show(allowed) for allowed in column.values]
    if len(shown) > SHOWN_VALUES:
        shown = [*shown[: SHOWN_VALUES - 1], "...", shown[-1]]
    domain = Side("its domain", ", ".join(shown), Unit.NONE)
    name = f"domain of {column.name}"
    why = "a parameter takes the values of its domain only"
    left = Side(column.name, value, column.unit)
    return Violation(name, f"{column.name} in {{{domain.value}}}", Where(), why, left, "in", domain)


def _broken(rule: Constraint, design: DesignBatch) -> Iterator[Violation]:
    """Yield the relations of the rule that fail, when the rule does."""
    if _value(rule.term, design):
        return
    texts = _written_sides(rule.text)
    for atom in _failing(rule.term, design):
        assert isinstance(atom, Apply), atom
        left, right = atom.operands
        unit = left.unit if left.unit is not Unit.NONE else right.unit
        written = texts if atom is rule.term and texts else (show(_whole(left)), show(_whole(right)))
        sides = [
            Side(text, _value(operand, design), unit) for text, operand in zip(written, atom.operands, strict=True)
        ]
        yield Violation(rule.name, rule.text, rule.where, rule.why, sides[0], atom.operator, sides[1])


def _failing(term: Term, design: DesignBatch) -> Iterator[Term]:
    """Yield the relations that make a false condition false."""
    if isinstance(term, Apply) and term.operator in RELATIONS:
        yield term
    elif isinstance(term, Apply) and term.operator in ("and", "or"):
        for operand in term.operands:
            if not _value(operand, design):
                yield from _failing(operand, design)
    elif isinstance(term, Apply) and term.operator == "implies":
        yield from _failing(term.operands[1], design)
    elif isinstance(term, Apply):
        assert term.operator == "not", term
        yield from _failing(negate(term.operands[0]), design)
    else:
        yield Apply("==", (term, Constant(1)))


def _value(term: Term, design: DesignBatch) -> Value:
    value = evaluate(term, design.value_columns(term.columns), 1)[0]
    return str(value) if isinstance(value, str) else int(value)


def _written_sides(rule: str) -> tuple[str, str] | None:
    """Return both sides of a rule that is one relation, as written; None for another form."""
    syntax = parse_rule(rule)
    if not isinstance(syntax, Operation) or syntax.operator not in RELATIONS:
        return None
    return rule[: syntax.at].strip(), rule[syntax.at + len(syntax.operator) :].strip()


def _whole(term: Term) -> Term:
    """Return the term with each quantity's terms as one, since a person knows the quantity only."""
    if not isinstance(term, Apply):
        return term
    kept: list[Term] = []
    names: set[str] = set()
    for operand in map(_whole, term.operands):
        if term.operator == "+" and isinstance(operand, QuantityPart):
            if operand.name in names:
                continue
            names.add(operand.name)
        kept.append(operand)
    return kept[0] if term.operator == "+" and len(kept) == 1 else Apply(term.operator, tuple(kept), term.unit)
