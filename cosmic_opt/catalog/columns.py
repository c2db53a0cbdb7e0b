"""Bind the parameters of a model: which columns a problem has, what values each may take, which are left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cosmic_opt.catalog.data import PLACEMENT_KNOBS, check_knob
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.errors import LimitError, SpecError, Where, nearest
from cosmic_opt.psa.document import Entry
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import Family, IndexSet, member_name, numbered, split_member
from cosmic_opt.psa.model_file import ParameterSpec, read_value
from cosmic_opt.psa.parameter_set import Column
from cosmic_opt.workloads.placement import GROUPS, nested_placement

MAX_MEMBERS = 4096
"""An index with more members is refused: each member of a family is a column."""
FROM_DIMENSION = {
    "topology": "topology",
    "npus_per_dim": "npus",
    "bandwidth": "bandwidth",
    "latency": "latency",
    "algorithm": "algorithm",
}
"""Families a system's dimensions give: values of a parameter where the model has one, data where it has none."""


@dataclass(frozen=True)
class BoundColumns:
    """The columns of a problem, in declared order.

    `baseline` gives the value of every member that has one: what a column is fixed to when it is not free.
    `categories` gives each column's categories before it was fixed, `families` every parameter of the model that
    has an index, also one left out.
    """

    columns: tuple[Column, ...]
    baseline: Mapping[str, Value]
    categories: Mapping[str, frozenset[str]]
    indices: Mapping[str, IndexSet]
    families: Mapping[str, Family]


def bind_columns(spec: InstanceSpec, edits: Edits, scope: str, data: Mapping[str, Value]) -> BoundColumns:
    """Return the columns: one value when fixed, the domain and the system's own when free.

    Raises:
        SpecError: an unknown name, a value outside a domain, a fixed parameter without a value, or both a filling
            order and free extents.
    """
    return _Columns(spec, edits, scope, data).run()


@dataclass
class _Columns:
    spec: InstanceSpec
    edits: Edits
    scope: str
    data: Mapping[str, Value]
    baseline: dict[str, Value] = field(default_factory=dict)
    categories: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[str, Where] = field(default_factory=dict)

    def run(self) -> BoundColumns:
        self.read_baseline()
        free, fixed = self.free_names(), self.read_fixes()
        self.place_baseline(free)
        columns = tuple(
            column
            for parameter in self.spec.model.parameters.values()
            if not self.is_left_out(parameter, free, fixed)
            for column in self.columns_of(parameter, free, fixed)
        )
        present = {column.parameter for column in columns}
        if set(PLACEMENT_KNOBS) <= present:
            hint = f"free one of the two: {' or '.join(PLACEMENT_KNOBS)}"
            raise SpecError(
                "a filling order and free extents both say where groups lie", where=self.spec.where, hint=hint
            )
        return BoundColumns(columns, self.baseline, self.categories, self.indices, self.families)

    # --- indices and members ----------------------------------------------------------------------------------

    @cached_property
    def indices(self) -> dict[str, IndexSet]:
        """The indices of the model and their members."""
        model, found = self.spec.model, {}
        for index, given in model.indices.items():
            if isinstance(given, tuple):
                found[index] = IndexSet(index, given)
                continue
            size, where = self.data.get(given), replace(model.where, key=f"indices.{index}")
            if not isinstance(size, int):
                numbers = [name for name, value in self.data.items() if isinstance(value, int)]
                raise SpecError(
                    f"the index {index!r} needs the number {given!r}", where=where, hint=nearest(given, numbers)
                )
            if size > MAX_MEMBERS:
                raise LimitError(
                    f"the index {index!r} has {size:,} members", where=where, hint=f"at most {MAX_MEMBERS:,}"
                )
            found[index] = numbered(index, size)
        return found

    @cached_property
    def families(self) -> dict[str, Family]:
        """The parameters that have an index."""
        parameters = self.spec.model.parameters.values()
        return {p.name: Family(p.name, tuple(self.indices[index] for index in p.per)) for p in parameters if p.per}

    def members(self, name: str, option: str) -> list[str]:
        """Return the columns that a parameter, or one member of a family, names."""
        parameters = self.spec.model.parameters
        base, labels = split_member(name)
        if base not in parameters:
            raise SpecError(f"unknown parameter {name!r}", where=Where(option), hint=nearest(base, parameters))
        if base not in self.families:
            if labels is not None:
                raise SpecError(f"{base!r} has no index", where=Where(option), hint=f"write {base}")
            return [base]
        family = self.families[base]
        if labels is None:
            return list(family.members)
        member = member_name(base, labels)
        if member not in family.members:
            raise SpecError(f"{name} does not exist", where=Where(option), hint=family.describe())
        return [member]

    # --- what is free, fixed, left out ------------------------------------------------------------------------

    def free_names(self) -> set[str]:
        """Return the columns that are free: those of the scope and of `--free`, less those of `--fix`."""
        parameters = self.spec.model.parameters
        names = [name for name, parameter in parameters.items() if not parameter.optional]
        if self.scope:
            names = list(self.spec.model.scopes[self.scope].free)
        free = {member for name in (*names, *self.edits.free) for member in self.members(name, "--free")}
        for name, _ in self.edits.fix:
            free -= set(self.members(name, "--fix"))
        return free

    def is_left_out(self, parameter: ParameterSpec, free: set[str], fixed: Mapping[str, Value]) -> bool:
        """Tell whether an optional parameter is neither free nor given."""
        if not parameter.optional:
            return False
        members = self.members(parameter.name, "--free")
        return not any(name in free or name in fixed or name in self.baseline for name in members)

    def read_fixes(self) -> dict[str, Value]:
        fixed: dict[str, Value] = {}
        for name, text in self.edits.fix:
            members = self.members(name, "--fix")
            parameter = self.spec.model.parameters[split_member(name)[0]]
            value = read_value(Entry(text, Where("--fix", key=name), {}), parameter.unit)
            fixed |= dict.fromkeys(members, value)
        return fixed

    # --- values -----------------------------------------------------------------------------------------------

    def columns_of(self, parameter: ParameterSpec, free: set[str], fixed: Mapping[str, Value]) -> list[Column]:
        """Return the column of a scalar parameter, or one for every member of a family."""
        family = self.families.get(parameter.name)
        names = family.members if family else (parameter.name,)
        indices = family.indices if family else ((),)
        domain = parameter.domain.resolve(self.data, parameter.where)
        columns = []
        for name, index in zip(names, indices, strict=True):
            values = self.values_of(parameter, name, domain)
            self.categories[name] = frozenset(value for value in values if isinstance(value, str))
            if name in fixed:
                if fixed[name] not in values:
                    own = () if len(values) == len(domain) else (self.baseline[name],)
                    raise _outside(fixed[name], values, parameter, name, Where("--fix"), own)
                values = (fixed[name],)
            elif name not in free:
                values = (self.own_value(parameter, name),)
            columns.append(Column(name, parameter.name, index, parameter.stack, parameter.unit, values, name in free))
        return columns

    def values_of(self, parameter: ParameterSpec, name: str, domain: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the model's values and the instance's own (DESIGN: full stack holds every single-stack space)."""
        values = self._with_own(parameter, name, domain)
        check_knob(parameter.name, values, parameter.where, calibrated="stack" in self.data)
        return values

    def _with_own(self, parameter: ParameterSpec, name: str, domain: tuple[Value, ...]) -> tuple[Value, ...]:
        own = self.baseline.get(name)
        if own is None or own in domain:
            return domain
        numbers = [value for value in domain if isinstance(value, int)]
        if isinstance(own, str) and not numbers and name not in self.places:
            return (*domain, own)
        if isinstance(own, str) or not numbers or (own < 1 <= min(numbers)):
            where = self.places.get(name, replace(self.spec.where, key="system"))
            raise _outside(own, domain, parameter, name, where)
        return tuple(sorted([*numbers, own]))

    def own_value(self, parameter: ParameterSpec, name: str) -> Value:
        if name in self.baseline:
            return self.baseline[name]
        raise SpecError(
            f"the instance fixes {name!r} but gives it no value",
            where=self.spec.where,
            hint=f"add it under 'design:', or free it with --free {parameter.name}",
        )

    def read_baseline(self) -> None:
        """Collect the value each column has when it is not free: from the system, then from `design:`."""
        parameters = self.spec.model.parameters
        for name in parameters:
            if name in FROM_DIMENSION and name in self.families:
                for index, dimension in enumerate(self.spec.system.dimensions):
                    if FROM_DIMENSION[name] in dimension:
                        self.baseline[f"{name}[{index}]"] = dimension[FROM_DIMENSION[name]]
            elif name in self.spec.system.collectives:
                self.baseline[name] = self.spec.system.collectives[name]
        for name, entry in self.spec.design.items():
            if name not in parameters:
                raise entry.fail(f"unknown parameter {name!r}", nearest(name, parameters))
            own = read_members(parameters[name], self.families.get(name), entry)
            self.baseline |= own
            self.places |= dict.fromkeys(own, entry.where)

    def place_baseline(self, free: set[str]) -> None:
        """Give free placement knobs the nested placement of the instance's own degrees and dimensions, if they fit."""
        for name in PLACEMENT_KNOBS:
            if name in self.spec.model.parameters and self.baseline.keys().isdisjoint(self.members(name, "--free")):
                self.baseline |= {key: value for key, value in self.nested(name).items() if key in free}

    def nested(self, name: str) -> dict[str, Value]:
        """Return the values of a placement knob that mean the nested placement; a group of one member fills last."""
        degrees = [self.baseline.get(group) for group in GROUPS]
        if name == "order":
            return {name: "_".join(sorted(GROUPS, key=lambda group: self.baseline.get(group) == 1))}
        npus = [self.baseline.get(f"npus_per_dim[{d}]") for d in range(len(self.spec.system.dimensions))]
        numbers = [value for value in (*degrees, *npus) if isinstance(value, int) and value > 0]
        if len(numbers) < len(degrees) + len(npus) or math.prod(numbers[: len(GROUPS)]) != math.prod(
            numbers[len(GROUPS) :]
        ):
            return {}
        extents = nested_placement(numbers[: len(GROUPS)], numbers[len(GROUPS) :])
        return {
            member_name(name, (g, str(d))): extent
            for g, row in zip(GROUPS, extents, strict=True)
            for d, extent in enumerate(row)
        }


def read_members(
    parameter: ParameterSpec, family: Family | None, entry: Entry, *, in_base_units: bool = False
) -> dict[str, Value]:
    """Return the value of every member that `entry` gives for a whole parameter.

    A family is a list along each index, or a mapping where the members of an index have names. Bare numbers as in
    `read_value`.
    """
    if family is None:
        return {parameter.name: read_value(entry, parameter.unit, in_base_units=in_base_units)}
    found: list[tuple[tuple[str, ...], Entry]] = [((), entry)]
    for axis in family.axes:
        found = [
            ((*labels, label), child) for labels, item in found for label, child in _along(axis, item, family).items()
        ]
    return {
        member_name(family.name, labels): read_value(item, parameter.unit, in_base_units=in_base_units)
        for labels, item in found
    }


def _along(axis: IndexSet, entry: Entry, family: Family) -> dict[str, Entry]:
    """Return the part of `entry` that each member of an index has."""
    if axis.named:
        return entry.fields(required=axis.members)
    items = entry.items()
    if len(items) != len(axis.members):
        message = f"{len(items)} values of {family.name!r} for {len(axis.members)} dimensions"
        raise entry.fail(message, "give one value per dimension")
    return dict(zip(axis.members, items, strict=True))


def values_added(spec: InstanceSpec, columns: Sequence[Column], data: Mapping[str, Value]) -> dict[str, Value]:
    """Return, of free columns, the value that is the instance's own and none of the model's."""
    used = {column.parameter: spec.model.parameters[column.parameter] for column in columns if column.free}
    domains = {name: set(parameter.domain.resolve(data, parameter.where)) for name, parameter in used.items()}
    free = [column for column in columns if column.free]
    return {column.name: value for column in free for value in column.values if value not in domains[column.parameter]}


def _outside(
    value: Value,
    values: tuple[Value, ...],
    parameter: ParameterSpec,
    name: str,
    where: Where,
    own: tuple[Value, ...] = (),
) -> SpecError:
    """Return the error of a value that a parameter cannot take; `own` are those values that the instance adds."""
    column = Column(name, parameter.name, (), parameter.stack, parameter.unit, values, True)
    hint = column.allowed_near(value) + "".join(f" ({column.show(one)} is the instance's own)" for one in own)
    return SpecError(f"{column.show(value)} is not in the domain of {name!r}", where=where, hint=hint)
