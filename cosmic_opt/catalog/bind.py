"""Bind an instance: give the model its numbers, choose free and fixed parameters, resolve every rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cosmic_opt.catalog.data import JOB, SYSTEM, WORKLOAD, check_knob, read_setting
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import OBJECTIVES, InstanceSpec
from cosmic_opt.catalog.network_quantities import (
    NETWORK_QUANTITIES,
    network_cost,
    total_bandwidth,
    unpriced_blocks,
)
from cosmic_opt.errors import LimitError, SpecError, Where, nearest
from cosmic_opt.psa.bind import Names, bind_rule
from cosmic_opt.psa.document import Entry
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.model_file import ParameterSpec, Rule, read_value
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.quantity import Quantity, SimulatedQuantity
from cosmic_opt.system.npu import Npu
from cosmic_opt.units import Unit
from cosmic_opt.workloads.quantities import QUANTITIES
from cosmic_opt.workloads.transformer import Transformer, from_mapping

SIMULATED = {
    "step_time": SimulatedQuantity("step_time", Unit.TIME, "time of one optimizer step"),
    "throughput": SimulatedQuantity("throughput", Unit.NONE, "sequences per second"),
}
PRICED = "priced"
MAX_MEMBERS = 4096
"""An index with more members is refused: each member of a family is a column."""
_FROM_DIMENSION = {
    "topology": "topology",
    "npus_per_dim": "npus",
    "bandwidth": "bandwidth",
    "latency": "latency",
    "algorithm": "algorithm",
}
"""Families a system's dimensions give: values of a parameter where the model has one, data where it has none."""
_DATA_CATEGORIES = {name: frozenset(datum.choices) for name, datum in {**JOB, **SYSTEM}.items() if datum.choices}
_MEMBER = re.compile(r"([A-Za-z_]\w*)\[(\d+)\]")


@dataclass(frozen=True)
class BoundInstance:
    """An instance with every number known: what solvers and simulators are built from."""

    name: str
    parameter_set: ParameterSet
    workload: Transformer
    npu: Npu
    dimensions: int
    objective: str
    scope: str
    baseline: Mapping[str, Value]
    """The value of every column that has one: what a column is fixed to when it is not free."""
    edits: Edits

    @property
    def data(self) -> Mapping[str, Value]:
        """The instance's numbers by name."""
        return self.parameter_set.data

    @property
    def job(self) -> dict[str, Value]:
        """The numbers of the job, by the simulator's names."""
        job = {name: self.data[name] for name in JOB if name in self.data}
        return {**job, "sequence": self.data["seq"]}


def bind(spec: InstanceSpec, edits: Edits = Edits()) -> BoundInstance:  # noqa: B008 - a frozen value
    """Return the bound instance.

    Raises:
        SpecError: an unknown name, a value outside a domain, a rule that does not bind.
    """
    return _Binding(spec, edits).run()


@dataclass
class _Binding:
    spec: InstanceSpec
    edits: Edits
    data: dict[str, Value] = field(default_factory=dict)
    baseline: dict[str, Value] = field(default_factory=dict)
    categories: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[str, Where] = field(default_factory=dict)

    def run(self) -> BoundInstance:
        self.objective = self.edits.objective or self.spec.objective
        if " ".join(self.objective.split()) not in OBJECTIVES:
            where = Where("--objective") if self.edits.objective else self.spec.where
            raise SpecError(
                f"unknown objective {self.objective!r}", where=where, hint=f"known: {'; '.join(OBJECTIVES)}"
            )
        self.scope = self.edits.scope or self.spec.scope or ""
        if self.scope and self.scope not in self.spec.model.scopes:
            hint = nearest(self.scope, self.spec.model.scopes)
            raise SpecError(f"unknown scope {self.scope!r}", where=Where("--scope"), hint=hint)
        self.workload = self.read_data()
        columns = self.columns()
        constraints, quantities = self.constraints(columns)
        missing = [name for name in NETWORK_QUANTITIES if name in self.objective and name not in quantities]
        if missing:
            hint = "give the system prices, and every dimension a tier" if missing == ["network_cost"] else None
            raise SpecError(f"the objective needs {missing[0]}, which is not known", where=self.spec.where, hint=hint)
        parameter_set = ParameterSet(columns, constraints, self.data, quantities)
        numbers = {name: int(self.data[name]) for name in ("peak", "memory_bandwidth", "memory_capacity")}
        npu = Npu(self.spec.system.device.name, *numbers.values())
        return BoundInstance(
            self.spec.name,
            parameter_set,
            self.workload,
            npu,
            self.dimensions,
            " ".join(self.objective.split()),
            self.scope,
            {name: self.baseline[name] for name in parameter_set.positions if name in self.baseline},
            self.edits,
        )

    @property
    def dimensions(self) -> int:
        return len(self.spec.system.dimensions)

    # --- data -------------------------------------------------------------------------------------------------

    def read_data(self) -> Transformer:
        """Collect the data: workload shape, system, job, then the edits."""
        system = self.spec.system
        changes: dict[str, Value] = {}
        for name, text in self.edits.set:
            changes |= read_setting(name, text, self.spec)
        shape = {**self.spec.workload, **{name: changes[name] for name in WORKLOAD if name in changes}}
        workload = from_mapping(shape, self.spec.workload_where)
        self.data |= {name: getattr(workload, name) for name in WORKLOAD}
        self.data |= {"npus": system.npus, "dims": self.dimensions, "seq": workload.sequence}
        self.data |= {name: getattr(system.device, name) for name in ("peak", "memory_bandwidth", "memory_capacity")}
        if system.prices:
            self.data["price_rule"] = "libra"
        self.read_dimensions()
        known = {**JOB, **SYSTEM}
        for name, entry in self.spec.data.items():
            if name in self.spec.model.parameters:
                raise entry.fail(f"{name!r} is a parameter of this model", "give its value under 'design:'")
            if name not in known:
                raise entry.fail(f"unknown datum {name!r}", nearest(name, known))
            if not isinstance(entry.value, str | int | float):
                raise entry.fail("expected a number, with a unit, or a name")
            self.data[name] = known[name].read(name, entry.value, entry.where)
        self.data |= changes
        if "global_batch" not in self.data:
            raise SpecError("the job gives no global_batch", where=self.spec.where, hint="job: {global_batch: 2048}")
        return workload

    def read_dimensions(self) -> None:
        """Collect what the system gives per dimension, or once, and is no parameter of the model."""
        system, parameters = self.spec.system, self.spec.model.parameters
        self.data |= {name: value for name, value in system.collectives.items() if name not in parameters}
        for d, dimension in enumerate(system.dimensions):
            given = {name: dimension[key] for name, key in _FROM_DIMENSION.items() if key in dimension}
            self.data |= {f"{name}[{d}]": value for name, value in given.items() if name not in parameters}
            if "tier" in dimension:
                self.data[f"tier[{d}]"] = dimension["tier"]

    @cached_property
    def units(self) -> dict[str, Unit]:
        units = {name: datum.unit for name, datum in {**JOB, **SYSTEM}.items()}
        return {**units, "latency": Unit.TIME, "bandwidth": Unit.BYTES_PER_S}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each index of the model."""
        sizes = {}
        for index, datum in self.spec.model.indices.items():
            size, where = self.data.get(datum), replace(self.spec.model.where, key=f"indices.{index}")
            if not isinstance(size, int):
                numbers = [name for name, value in self.data.items() if isinstance(value, int)]
                hint = nearest(datum, numbers)
                raise SpecError(f"the index {index!r} needs the number {datum!r}", where=where, hint=hint)
            if size > MAX_MEMBERS:
                raise LimitError(
                    f"the index {index!r} has {size:,} members", where=where, hint=f"at most {MAX_MEMBERS:,}"
                )
            sizes[index] = size
        return sizes

    # --- columns ----------------------------------------------------------------------------------------------

    def free_names(self) -> set[str]:
        """Return the columns that are free: those of the scope and of `--free`, less those of `--fix`."""
        parameters = self.spec.model.parameters
        names = list(self.spec.model.scopes[self.scope].free) if self.scope else list(parameters)
        for name in self.edits.free:
            parameter = name.partition("[")[0]
            if parameter not in parameters:
                raise SpecError(f"unknown parameter {name!r}", where=Where("--free"), hint=nearest(name, parameters))
            names.append(name)
        free = {member for name in names for member in self.members(name, "--free")}
        for name, _ in self.edits.fix:
            free -= set(self.members(name, "--fix"))
        return free

    def members(self, name: str, option: str) -> list[str]:
        """Return the columns that a parameter, or one member of a family, names."""
        parameters = self.spec.model.parameters
        match = _MEMBER.fullmatch(name)
        base = match.group(1) if match else name
        if base not in parameters:
            raise SpecError(f"unknown parameter {name!r}", where=Where(option), hint=nearest(base, parameters))
        size = self.size_of(parameters[base])
        if size is None:
            if match:
                raise SpecError(f"{base!r} has no index", where=Where(option), hint=f"write {base}")
            return [base]
        family = [f"{base}[{index}]" for index in range(size)]
        if match and name not in family:
            raise SpecError(f"{name} does not exist", where=Where(option), hint=f"indices run from 0 to {size - 1}")
        return [name] if match else family

    def size_of(self, parameter: ParameterSpec) -> int | None:
        """Return how many members a family has; None for a scalar parameter."""
        return None if parameter.per is None else self.sizes[parameter.per]

    def columns(self) -> tuple[Column, ...]:
        """Return every column with its values: one value when fixed, the domain and the system's own when free."""
        self.check_names()
        self.read_baseline()
        free = self.free_names()
        fixed = self.read_fixes()
        columns = []
        for parameter in self.spec.model.parameters.values():
            size = self.size_of(parameter)
            for index in range(1 if size is None else size):
                name = parameter.name if size is None else f"{parameter.name}[{index}]"
                values = self.values_of(parameter, name)
                check_knob(parameter.name, values, parameter.where)
                self.categories[name] = frozenset(value for value in values if isinstance(value, str))
                if name in fixed:
                    if fixed[name] not in values:
                        raise _outside(fixed[name], values, parameter, name, Where("--fix"))
                    values = (fixed[name],)
                elif name not in free:
                    if name not in self.baseline:
                        raise SpecError(
                            f"the instance fixes {name!r} but gives it no value",
                            where=self.spec.where,
                            hint=f"add it under 'design:', or free it with --free {parameter.name}",
                        )
                    values = (self.baseline[name],)
                position = None if size is None else index
                columns.append(
                    Column(name, parameter.name, position, parameter.stack, parameter.unit, values, name in free)
                )
        return tuple(columns)

    def check_names(self) -> None:
        """Refuse a parameter with the name of a datum or a quantity: a rule could mean either."""
        taken = {name.partition("[")[0] for name in self.data} | {*SIMULATED, *QUANTITIES, *NETWORK_QUANTITIES}
        for name, parameter in self.spec.model.parameters.items():
            if name in taken:
                raise SpecError(
                    f"{name!r} already names a number of the instance", where=parameter.where, hint="call it otherwise"
                )

    def values_of(self, parameter: ParameterSpec, name: str) -> tuple[Value, ...]:
        """Return the model's values and the instance's own (DESIGN: full stack holds every single-stack space)."""
        values = parameter.domain.resolve(self.data, parameter.where)
        own = self.baseline.get(name)
        if own is None or own in values:
            return values
        numbers = [value for value in values if isinstance(value, int)]
        if isinstance(own, str) and not numbers and name not in self.places:
            return (*values, own)
        if isinstance(own, str) or not numbers or (own < 1 <= min(numbers)):
            where = self.places.get(name, replace(self.spec.where, key="system"))
            raise _outside(own, values, parameter, name, where)
        return tuple(sorted([*numbers, own]))

    def read_baseline(self) -> None:
        """Collect the value each column has when it is not free: from the system, then from `design:`."""
        parameters = self.spec.model.parameters
        for name, parameter in parameters.items():
            if name in _FROM_DIMENSION and parameter.per is not None:
                for index, dimension in enumerate(self.spec.system.dimensions):
                    if _FROM_DIMENSION[name] in dimension:
                        self.baseline[f"{name}[{index}]"] = dimension[_FROM_DIMENSION[name]]
            elif name in self.spec.system.collectives:
                self.baseline[name] = self.spec.system.collectives[name]
        for name, entry in self.spec.design.items():
            if name not in parameters:
                raise entry.fail(f"unknown parameter {name!r}", nearest(name, parameters))
            own = self.read_design(parameters[name], entry)
            self.baseline |= own
            self.places |= dict.fromkeys(own, entry.where)

    def read_design(self, parameter: ParameterSpec, entry: Entry) -> dict[str, Value]:
        size = self.size_of(parameter)
        if size is None:
            return {parameter.name: read_value(entry, parameter.unit)}
        items = entry.items()
        if len(items) != size:
            raise entry.fail(f"{len(items)} values for {size} dimensions", "give one value per dimension")
        return {f"{parameter.name}[{i}]": read_value(item, parameter.unit) for i, item in enumerate(items)}

    def read_fixes(self) -> dict[str, Value]:
        fixed: dict[str, Value] = {}
        for name, text in self.edits.fix:
            parameter = self.spec.model.parameters.get(name.partition("[")[0])
            members = self.members(name, "--fix")
            assert parameter is not None
            value = read_value(Entry(text, Where("--fix", key=name), {}), parameter.unit)
            fixed |= dict.fromkeys(members, value)
        return fixed

    # --- rules ------------------------------------------------------------------------------------------------

    def rules(self) -> dict[str, Rule]:
        """Return the rules in force, by name: the model's, the scope's, the instance's, those required."""
        rules = dict(self.spec.model.rules)
        if self.scope:
            rules |= self.spec.model.scopes[self.scope].rules
        for name, rule in self.spec.rules.items():
            if name in rules:
                raise SpecError(f"the rule {name!r} is declared twice", where=rule.where, hint="give it another name")
            rules[name] = rule
        for number, text in enumerate(self.edits.require, 1):
            where = Where("--require")
            name = "required" if len(self.edits.require) == 1 else f"required_{number}"
            rules[name] = Rule(name, text, parse_rule(text, where), "asked for on the command line", where)
        kept = (rule for name, rule in rules.items() if name not in self.edits.without)
        uses_cost = "network_cost" in self.objective or any("network_cost" in rule.text for rule in kept)
        if uses_cost and PRICED not in rules and self.spec.system.prices:
            text, why = "unpriced_blocks == 0", "a block without a price in its tier has no cost"
            rules[PRICED] = Rule(PRICED, text, parse_rule(text), why, self.spec.where)
        for name in self.edits.without:
            if name not in rules:
                raise SpecError(f"there is no rule {name!r}", where=Where("--without"), hint=nearest(name, rules))
            del rules[name]
        return rules

    def constraints(
        self, columns: tuple[Column, ...]
    ) -> tuple[tuple[Constraint, ...], dict[str, Quantity | SimulatedQuantity]]:
        quantities = self.quantities(columns)
        families: dict[str, list[str]] = {}
        for name in [column.name for column in columns] + list(self.data):
            match = _MEMBER.fullmatch(name)
            if match:
                families.setdefault(match.group(1), []).append(name)
        names = Names(
            columns={column.name: column.term for column in columns},
            data=self.data,
            units=self.units,
            families={name: tuple(members) for name, members in families.items()},
            quantities=quantities,
            indices=self.sizes,
            categories={**_DATA_CATEGORIES, **self.categories},
        )
        bound = [
            Constraint(rule.name, rule.text, bind_rule(rule.syntax, rule.text, names, rule.where), rule.why, rule.where)
            for rule in self.rules().values()
        ]
        return tuple(bound), quantities

    def quantities(self, columns: tuple[Column, ...]) -> dict[str, Quantity | SimulatedQuantity]:
        quantities: dict[str, Quantity | SimulatedQuantity] = dict(SIMULATED)
        names = {column.name for column in columns}
        job = {**self.data, "sequence": self.data["seq"]}
        for name in QUANTITIES:
            quantities[name] = QUANTITIES.get(name)(self.workload, job, names)
        known = {*names, *self.data}
        if "bandwidth[0]" in known:
            quantities["total_bandwidth"] = total_bandwidth(self.dimensions)
        tiers = [self.data.get(f"tier[{d}]") for d in range(self.dimensions)]
        if (
            self.spec.system.prices
            and {"topology[0]", "bandwidth[0]"} <= known
            and all(isinstance(tier, str) for tier in tiers)
        ):
            prices, rule = self.spec.system.prices, str(self.data["price_rule"])
            placed = [str(tier) for tier in tiers]
            quantities["network_cost"] = network_cost(prices, rule, placed, int(self.data["npus"]))
            quantities["unpriced_blocks"] = unpriced_blocks(prices, rule, placed)
        return quantities


def _outside(value: Value, values: tuple[Value, ...], parameter: ParameterSpec, name: str, where: Where) -> SpecError:
    """Return the error of a value that a parameter cannot take."""
    column = Column(name, parameter.name, None, parameter.stack, parameter.unit, values, True)
    shown = ", ".join(column.show(allowed) for allowed in values[:30])
    return SpecError(f"{column.show(value)} is not in the domain of {name!r}", where=where, hint=f"allowed: {shown}")
