"""Push negations down to relations, so that a rule is built of 'and', 'or' and relations only."""

from __future__ import annotations

from cosmic_opt.psa.fold import fold
from cosmic_opt.psa.term import NEGATED, Apply, Constant, Term


def negate(term: Term) -> Term:
    """Return the negation of a condition, in normal form."""
    if isinstance(term, Constant):
        return Constant(int(not term.value))
    if isinstance(term, Apply):
        operator, operands = term.operator, term.operands
        if operator in NEGATED:
            return Apply(NEGATED[operator], operands)
        if operator == "not":
            return normalise(operands[0])
        if operator == "implies":
            return fold(Apply("and", (normalise(operands[0]), negate(operands[1]))))
        assert operator in ("and", "or"), operator
        return _flat("or" if operator == "and" else "and", tuple(negate(operand) for operand in operands))
    return Apply("==", (term, Constant(0)))


def normalise(term: Term) -> Term:
    """Return an equal condition built of 'and', 'or' and relations."""
    if isinstance(term, Apply):
        operator, operands = term.operator, term.operands
        if operator == "not":
            return negate(operands[0])
        if operator == "implies":
            return _flat("or", (negate(operands[0]), normalise(operands[1])))
        if operator in ("and", "or"):
            return _flat(operator, tuple(normalise(operand) for operand in operands))
        return term
    if isinstance(term, Constant):
        return term
    return Apply("==", (term, Constant(1)))


def _flat(operator: str, operands: tuple[Term, ...]) -> Term:
    flat: list[Term] = []
    for operand in operands:
        nested = isinstance(operand, Apply) and operand.operator == operator
        flat.extend(operand.operands if nested and isinstance(operand, Apply) else (operand,))
    return fold(Apply(operator, tuple(flat)))
