"""What a simulator asks of every design, whether a rule declares it or not: no relaxation can do without.

A rule that says the same may be dropped on paper, but no design runs that breaks it. What is asked depends on who
scores: the analytical simulator wants degrees that fill the network (and extents that place them), a served model one
sequence beside the weights, the calibrated training model groups of experts inside a pipeline stage. A declared rule
that equates degrees and `npus` stands, too: what it would leave are designs of another cluster.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from math import prod

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant, QuantityPart, Term
from cosmic_opt.units import Unit
from cosmic_opt.workloads.knobs import knob_names
from cosmic_opt.workloads.placement import GROUPS
from cosmic_opt.workloads.serving_quantities import holds_a_sequence

_NPUS = re.compile(r"\bnpus\b")
_PREFIX = "the simulator's "
"""No declared rule has a space in its name."""


def enforced(instance: BoundInstance, parameter_set: ParameterSet) -> tuple[Constraint, ...]:
    """Return what the instance's simulator asks of every design, over the columns of `parameter_set`.

    Left out is what depends on how groups lie: an algorithm that does not exist for a group's extent.
    """
    if isinstance(instance.calibrated, Serving):
        return (_one_sequence(instance.calibrated, parameter_set),)
    if instance.calibrated is not None:
        return tuple(_experts_inside(parameter_set))
    return tuple(_filled(parameter_set, instance.dimensions))


def ties_to_cluster(constraint: Constraint) -> bool:
    """Return whether a declared rule ties the degrees to the NPUs there are: without it, a design is of other NPUs."""
    asked_for = (constraint.where.file or "").startswith("--")
    return not asked_for and _NPUS.search(constraint.text) is not None


def fixes_the_cluster(constraint: Constraint) -> bool:
    """Return whether a declared rule says that the degrees multiply to the NPUs there are, no fewer and no more."""
    return ties_to_cluster(constraint) and "==" in constraint.text


def _experts_inside(parameter_set: ParameterSet) -> Iterator[Constraint]:
    """Yield that the ranks of a stage are whole groups of ep; nothing where experts are not split."""
    columns = {column.name: column.term for column in parameter_set.columns}
    value, names = _Values(columns, parameter_set.data), knob_names(columns)
    groups = value.of(names.get("ep", "ep"))
    if not groups.columns:
        return
    ranks = _product([value.of(names.get(degree, degree)) for degree in ("dp", "cp", "tp")])
    yield Constraint(f"{_PREFIX}groups of experts", "", Apply("==", (Apply("%", (ranks, groups)), Constant(0))))


def _filled(parameter_set: ParameterSet, dimensions: int) -> Iterator[Constraint]:
    """Yield that the degrees multiply to the NPUs of the dimensions; where extents are given, that these place them."""
    value = _Values({column.name: column.term for column in parameter_set.columns}, parameter_set.data)
    npus = [value.of(f"npus_per_dim[{dim}]") for dim in range(dimensions)]
    yield _equal("world size", _product([value.of(group) for group in GROUPS]), _product(npus))
    extents = {(group, dim): f"extent[{group},{dim}]" for group in GROUPS for dim in range(dimensions)}
    if not any(value.knows(name) for name in extents.values()):
        return
    for group in GROUPS:
        reach = [value.of(extents[group, dim]) for dim in range(dimensions)]
        yield _equal(f"placement of {group}", _product(reach), value.of(group))
    for dim in range(dimensions):
        share = [value.of(extents[group, dim]) for group in GROUPS]
        yield _equal(f"filling of dimension {dim}", _product(share), npus[dim])


class _Values:
    """Columns and numbers by name; what neither names is 1, as to the simulator."""

    def __init__(self, columns: Mapping[str, ColumnTerm], data: Mapping[str, Value]) -> None:
        self.columns, self.data = columns, data

    def knows(self, name: str) -> bool:
        """Tell whether a column or a number has this name."""
        return name in self.columns or name in self.data

    def of(self, name: str) -> Term:
        """Return the column or the number."""
        return self.columns[name] if name in self.columns else Constant(int(self.data.get(name, 1)))


def _equal(name: str, left: Term, right: Term) -> Constraint:
    return Constraint(f"{_PREFIX}{name}", "", Apply("==", (left, right)))


def _product(terms: Collection[Term]) -> Term:
    """Return the product; numbers are multiplied at once."""
    number = prod(int(term.value) for term in terms if isinstance(term, Constant))
    others = [term for term in terms if not isinstance(term, Constant)]
    factors: list[Term] = [*others, *([Constant(number)] if number != 1 or not others else [])]
    return factors[0] if len(factors) == 1 else Apply("*", tuple(factors))


def _one_sequence(serving: Serving, parameter_set: ParameterSet) -> Constraint:
    """Return that the pool which writes answers holds one sequence beside the weights."""
    names = {column.name for column in parameter_set.columns}
    term = holds_a_sequence(serving.in_memory, parameter_set.data, names)
    held: Term = QuantityPart("sequences", term, Unit.NONE, ())
    if not term.names:
        held = Constant(int(term.evaluate({})[0]))
    return Constraint(f"{_PREFIX}one sequence", "", Apply(">=", (held, Constant(1))))
