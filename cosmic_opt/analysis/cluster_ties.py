"""Rules that tie designs to the NPUs there are: without such a rule, a design is one of another cluster.

What counts is the bound relation, not how it is spelled: both sides are polynomials in the columns, and their
difference is compared with that of the NPUs that a design uses and those there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import reduce
from itertools import product

from cosmic_opt.analysis.design_terms import DesignTerms, product_of
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.expr import Name, Syntax, children
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant, QuantityPart, Term
from cosmic_opt.workloads.knobs import WORLD, knob_names
from cosmic_opt.workloads.placement import GROUPS

Monomial = tuple[str, ...]
"""The names that are multiplied, sorted; none for a number."""
SERVED = ("dp", "tp", "pp", "ep")
"""Degrees that multiply to the NPUs of a served model."""
TURNED = {"==": "==", "<=": ">=", ">=": "<=", "<": ">", ">": "<"}


def reads_npus(rule: Constraint) -> bool:
    """Tell whether a declared rule reads how many NPUs there are, so that another number may make it true."""
    asked_for = (rule.where.file or "").startswith("--")
    return not asked_for and _names_npus(parse_rule(rule.text, rule.where))


def _names_npus(syntax: Syntax) -> bool:
    return (isinstance(syntax, Name) and syntax.name == "npus") or any(map(_names_npus, children(syntax)))


def ties_of(rule: Constraint, instance: BoundInstance, parameter_set: ParameterSet) -> tuple[int, ...]:
    """Return which conjuncts of a rule say that designs use the NPUs there are, no fewer and no more.

    The NPUs of a design are what its degrees multiply to, or the dimensions of its network; those of a served model,
    of all replicas. Conjuncts are counted in the order of the bound term; none where the rule does not say it.
    """
    parts = rule.term.operands if isinstance(rule.term, Apply) and rule.term.operator == "and" else (rule.term,)
    relations = [_relation(part) for part in parts]
    for used in _uses(instance, parameter_set):
        _, wanted = _less_than_0(used, Constant(int(instance.data["npus"])), "==") or ("", None)
        found = {at: each[0] for at, each in enumerate(relations) if each is not None and each[1] == wanted}
        if "==" in found.values() or {"<=", ">="} <= set(found.values()):
            return tuple(found)
    return ()


def _uses(instance: BoundInstance, parameter_set: ParameterSet) -> Iterator[Term]:
    """Yield what the NPUs of a design are."""
    columns = {column.name: column.term for column in parameter_set.columns}
    value, names = DesignTerms(columns, parameter_set.data), knob_names(columns)
    if isinstance(instance.calibrated, Serving):
        yield product_of([value.of(name) for name in SERVED])
        replicas = parameter_set.quantities.get("npus_used")
        if isinstance(replicas, Quantity):
            yield Apply("+", tuple(QuantityPart(replicas.name, term, replicas.unit, ()) for term in replicas.terms))
    elif instance.calibrated is not None:
        yield product_of([value.of(names.get(degree, degree)) for degree in WORLD])
    else:
        yield product_of([value.of(group) for group in GROUPS])
        yield product_of([value.of(f"npus_per_dim[{dim}]") for dim in range(instance.dimensions)])


def _relation(term: Term) -> tuple[str, Mapping[Monomial, Fraction]] | None:
    if not isinstance(term, Apply) or term.operator not in TURNED:
        return None
    left, right = term.operands
    return _less_than_0(left, right, term.operator)


def _less_than_0(left: Term, right: Term, operator: str) -> tuple[str, Mapping[Monomial, Fraction]] | None:
    """Return a relation as `polynomial operator 0`, the greatest monomial's factor 1; None where it is not one."""
    difference = _polynomial(Apply("+", (left, Apply("neg", (right,)))))
    if not difference or not any(difference):
        return None
    lead = difference[max(difference)]
    scaled = {monomial: Fraction(factor, lead) for monomial, factor in difference.items()}
    return operator if lead > 0 else TURNED[operator], scaled


def _polynomial(term: Term) -> dict[Monomial, int] | None:
    """Return the factor of each monomial, none of them 0; None where the term is no polynomial of columns."""
    match term:
        case Constant(int(value), _):
            return {(): value} if value else {}
        case ColumnTerm(name, (int(value),), _):
            return {(): value} if value else {}
        case ColumnTerm(name, (int(), *_), _) | QuantityPart(name, _, _, _):
            return {(name,): 1}
        case Apply("+" | "*" | "neg" as operator, operands, _):
            parts = [_polynomial(operand) for operand in operands]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            if operator == "neg":
                return {monomial: -factor for monomial, factor in known[0].items()}
            return reduce(_sum if operator == "+" else _product, known)
        case _:
            return None


def _sum(left: Mapping[Monomial, int], right: Mapping[Monomial, int]) -> dict[Monomial, int]:
    total = Counter(left)
    total.update(right)
    return {monomial: factor for monomial, factor in total.items() if factor}


def _product(left: Mapping[Monomial, int], right: Mapping[Monomial, int]) -> dict[Monomial, int]:
    total: Counter[Monomial] = Counter()
    for (first, one), (second, other) in product(left.items(), right.items()):
        total[tuple(sorted((*first, *second)))] += one * other
    return {monomial: factor for monomial, factor in total.items() if factor}
