"""What a simulator asks of every design, whether a rule declares it or not: no relaxation can do without.

A rule that says the same may be dropped on paper, but no design runs that breaks it. What is asked depends on who
scores: the analytical simulator wants degrees that fill the network (and extents that place them), a served model one
sequence beside the weights, the calibrated training model groups of experts inside a pipeline stage. A declared rule
that equates degrees and `npus` stands, too (`cluster_ties`).
"""

from __future__ import annotations

from collections.abc import Iterator

from cosmic_opt.analysis.design_terms import DesignTerms, product_of
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.psa.term import Apply, Constant, QuantityPart, Term
from cosmic_opt.units import Unit
from cosmic_opt.workloads.knobs import knob_names
from cosmic_opt.workloads.placement import GROUPS
from cosmic_opt.workloads.serving_quantities import holds_a_sequence

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


def _experts_inside(parameter_set: ParameterSet) -> Iterator[Constraint]:
    """Yield that the ranks of a stage are whole groups of ep; nothing where experts are not split."""
    columns = {column.name: column.term for column in parameter_set.columns}
    value, names = DesignTerms(columns, parameter_set.data), knob_names(columns)
    groups = value.of(names.get("ep", "ep"))
    if not groups.columns:
        return
    ranks = product_of([value.of(names.get(degree, degree)) for degree in ("dp", "cp", "tp")])
    yield Constraint(f"{_PREFIX}groups of experts", "", Apply("==", (Apply("%", (ranks, groups)), Constant(0))))


def _filled(parameter_set: ParameterSet, dimensions: int) -> Iterator[Constraint]:
    """Yield that the degrees multiply to the NPUs of the dimensions; where extents are given, that these place them."""
    value = DesignTerms({column.name: column.term for column in parameter_set.columns}, parameter_set.data)
    npus = [value.of(f"npus_per_dim[{dim}]") for dim in range(dimensions)]
    yield _equal("world size", product_of([value.of(group) for group in GROUPS]), product_of(npus))
    extents = {(group, dim): f"extent[{group},{dim}]" for group in GROUPS for dim in range(dimensions)}
    if not any(value.knows(name) for name in extents.values()):
        return
    for group in GROUPS:
        reach = [value.of(extents[group, dim]) for dim in range(dimensions)]
        yield _equal(f"placement of {group}", product_of(reach), value.of(group))
    for dim in range(dimensions):
        share = [value.of(extents[group, dim]) for group in GROUPS]
        yield _equal(f"filling of dimension {dim}", product_of(share), npus[dim])


def _equal(name: str, left: Term, right: Term) -> Constraint:
    return Constraint(f"{_PREFIX}{name}", "", Apply("==", (left, right)))


def _one_sequence(serving: Serving, parameter_set: ParameterSet) -> Constraint:
    """Return that the pool which writes answers holds one sequence beside the weights."""
    names = {column.name for column in parameter_set.columns}
    term = holds_a_sequence(serving.in_memory, parameter_set.data, names)
    held: Term = QuantityPart("sequences", term, Unit.NONE, ())
    if not term.names:
        held = Constant(int(term.evaluate({})[0]))
    return Constraint(f"{_PREFIX}one sequence", "", Apply(">=", (held, Constant(1))))
