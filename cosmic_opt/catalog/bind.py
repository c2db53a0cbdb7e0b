"""Bind an instance: give the model its numbers, choose free and fixed parameters, resolve every rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cosmic_opt.catalog.calibrated import Calibrated, calibrated_of
from cosmic_opt.catalog.columns import FROM_DIMENSION, BoundColumns, bind_columns
from cosmic_opt.catalog.data import DEFAULTS, JOB, SHAPE, SYSTEM, WORKLOAD, job_data, read_datum, read_setting
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.job_kinds import INFERENCE, SIMULATED
from cosmic_opt.catalog.network_quantities import NETWORK_QUANTITIES, priced_network, total_bandwidth
from cosmic_opt.catalog.parts import HOST_UNITS
from cosmic_opt.catalog.served import Serving, serving_of
from cosmic_opt.catalog.system_quantities import (
    COSTS_OF_NETWORKS,
    NETWORK_COST,
    SYSTEM_QUANTITIES,
    system_data,
    system_quantities,
    why_absent,
)
from cosmic_opt.catalog.system_size import check_npus
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.bind import Names, bind_rule
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import Family, family_of, numbered
from cosmic_opt.psa.model_file import Rule
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.quantity import Quantity, SimulatedQuantity
from cosmic_opt.system.npu import Npu
from cosmic_opt.units import Unit
from cosmic_opt.workloads.framework_memory import framework_memory_quantity
from cosmic_opt.workloads.placement import ORDER_REPEATS, order_repeats
from cosmic_opt.workloads.quantities import HOST_MEMORY, QUANTITIES, build_host_memory
from cosmic_opt.workloads.serving_quantities import serving_quantities
from cosmic_opt.workloads.training import OFFLOADS
from cosmic_opt.workloads.transformer import Transformer, from_mapping

PRICED = "priced"
NEEDED = {
    "unpriced_blocks": "give the system prices, and every dimension a tier",
    "total_bandwidth": "give every dimension a bandwidth",
    HOST_MEMORY: "it needs a model with offloading knobs, such as weight_offload",
    ORDER_REPEATS: "it needs the parameter 'order', free or given, and npus_per_dim",
}
"""What quantities need that not every problem has; `why_absent` says it of those of a system."""
_DATA_CATEGORIES = {name: frozenset(datum.choices) for name, datum in {**JOB, **SYSTEM}.items() if datum.choices}


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
    families: Mapping[str, Family]
    """Every parameter of the model that has an index."""
    edits: Edits
    calibrated: Calibrated | Serving | None = None
    """What the calibrated model scores with, where the instance names a software stack or an engine."""

    @property
    def data(self) -> Mapping[str, Value]:
        """The instance's numbers by name."""
        return self.parameter_set.data

    @property
    def undecided(self) -> tuple[str, ...]:
        """The columns with several values, none of which the instance gives: with any, it has no design of its own."""
        columns = self.parameter_set.columns
        return tuple(c.name for c in columns if len(c.values) > 1 and self.baseline.get(c.name) not in c.values)

    @property
    def job(self) -> dict[str, Value]:
        """The numbers of the training job, by the simulator's names."""
        job = {name: self.data[name] for name in JOB if name in self.data}
        return {**job, "sequence": self.data["seq"]}


def bind(spec: InstanceSpec, edits: Edits = Edits()) -> BoundInstance:  # noqa: B008 - a frozen value
    """Return the bound instance.

    Raises:
        SpecError: an unknown name, a value outside a domain, a rule that does not bind.
    """
    return _Binding(spec, edits).run()


def _absent(quantities: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Return, of each quantity a problem does without, that it does and what it would need."""
    return {name: ("this problem is without it", how) for name, how in NEEDED.items() if name not in quantities}


@dataclass
class _Binding:
    spec: InstanceSpec
    edits: Edits
    data: dict[str, Value] = field(default_factory=dict)

    def run(self) -> BoundInstance:
        self.objective = self.edits.objective or self.spec.objective
        objectives = self.spec.kind.objectives
        if " ".join(self.objective.split()) not in objectives:
            known = f"known: {'; '.join(objectives)}"
            raise SpecError(f"unknown objective {self.objective!r}", where=self.place_of_objective, hint=known)
        self.scope = self.edits.scope or self.spec.scope or ""
        if self.scope and self.scope not in self.spec.model.scopes:
            scope = nearest(self.scope, self.spec.model.scopes)
            raise SpecError(f"unknown scope {self.scope!r}", where=Where("--scope"), hint=scope)
        self.workload = self.read_data()
        own = serving_of if self.spec.kind is INFERENCE else calibrated_of
        self.calibrated = own(self.spec, self.workload, self.data, [name for name, _ in self.edits.set])
        check_npus(self.data, self.spec.system.name, self.place_of_npus, grows=self.calibrated is not None)
        self.check_names()
        bound = bind_columns(self.spec, self.edits, self.scope, self.data)
        constraints, quantities = self.constraints(bound)
        for name in self.objective.replace(" ", "").split("*"):
            if name not in quantities:
                why, hint = why_absent(self.spec.system, quantities).get(name, ("it is not known", None))
                raise SpecError(f"the objective needs {name}: {why}", where=self.place_of_objective, hint=hint)
        parameter_set = ParameterSet(bound.columns, constraints, self.data, quantities)
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
            {name: bound.baseline[name] for name in parameter_set.positions if name in bound.baseline},
            bound.families,
            self.edits,
            self.calibrated,
        )

    @property
    def place_of_objective(self) -> Where:
        return Where("--objective") if self.edits.objective else self.spec.root.below("objective")

    @property
    def place_of_npus(self) -> Where:
        if any(name == "npus" for name, _ in self.edits.set):
            return Where("--set npus")
        return self.spec.data["npus"].where if "npus" in self.spec.data else self.spec.where

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
        workload = self.read_shape({name: changes[name] for name in SHAPE if name in changes})
        self.data |= {name: getattr(workload, name) for name in WORKLOAD}
        self.data |= {"npus": system.npus, "dims": self.dimensions, "seq": workload.sequence}
        self.data |= {name: getattr(system.device, name) for name in ("peak", "memory_bandwidth", "memory_capacity")}
        if system.prices.tiers:
            self.data["price_rule"] = "libra"
        self.data |= system_data(system)
        self.read_dimensions()
        if self.offloads:
            given = {**dict.fromkeys(HOST_UNITS, 0), **system.host}
            self.data |= {f"host_{name}": value for name, value in given.items()}
        known = {**job_data(self.spec.kind), **SYSTEM}
        for name, entry in self.spec.data.items():
            if name in self.spec.model.parameters:
                raise entry.fail(f"{name!r} is a parameter of this model", "give its value under 'design:'")
            if name not in known:
                raise entry.fail(f"unknown datum {name!r}", nearest(name, known))
            if not isinstance(entry.value, str | int | float):
                raise entry.fail("expected a number, with a unit, or a name")
            self.data |= read_datum(self.spec.kind, name, entry.value, entry.where)
        self.data |= {**self.spec.software, **changes}
        if not self.spec.software:
            parameters = self.spec.model.parameters
            self.data |= {name: value for name, value in DEFAULTS.items() if name not in {*self.data, *parameters}}
        if self.spec.kind is not INFERENCE and "global_batch" not in self.data:
            where = self.spec.root.below("job")
            raise SpecError("the job gives no global_batch", where=where, hint="job: {global_batch: 2048}")
        return workload

    def read_shape(self, changes: Mapping[str, Value]) -> Transformer:
        """Return the workload with the sizes that `--set` gives; an error stands where the key does."""
        try:
            return from_mapping({**self.spec.workload, **changes}, self.spec.workload_entry.where)
        except SpecError as error:
            key = error.where.key if error.where is not None else None
            place = Where(f"--set {key}") if key in changes else self.spec.workload_entry.below(key) if key else None
            raise SpecError(error.message, where=place or error.where, hint=error.hint) from None

    def read_dimensions(self) -> None:
        """Collect what the system gives per dimension, or once, and is no parameter of the model."""
        system, parameters = self.spec.system, self.spec.model.parameters
        self.data |= {name: value for name, value in system.collectives.items() if name not in parameters}
        for d, dimension in enumerate(system.dimensions):
            given = {name: dimension[key] for name, key in FROM_DIMENSION.items() if key in dimension}
            self.data |= {f"{name}[{d}]": value for name, value in given.items() if name not in parameters}
            if "tier" in dimension:
                self.data[f"tier[{d}]"] = dimension["tier"]

    @cached_property
    def offloads(self) -> bool:
        """Whether the model has knobs of what lies in host memory."""
        return not self.spec.model.parameters.keys().isdisjoint(OFFLOADS)

    @cached_property
    def units(self) -> dict[str, Unit]:
        units = {name: datum.unit for name, datum in {**JOB, **SYSTEM}.items()}
        return {**units, "latency": Unit.TIME, "bandwidth": Unit.BYTES_PER_S}

    def check_names(self) -> None:
        """Refuse a parameter with the name of a datum or a quantity: a rule could mean either."""
        taken = {family_of(name) for name in self.data} | {
            *SIMULATED,
            *QUANTITIES,
            HOST_MEMORY,
            *NETWORK_QUANTITIES,
            *SYSTEM_QUANTITIES,
        }
        for name, parameter in self.spec.model.parameters.items():
            if name in {*taken, ORDER_REPEATS}:
                raise SpecError(
                    f"{name!r} already names a number of the instance", where=parameter.where, hint="call it otherwise"
                )

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
        texts = (self.objective, *(rule.text for rule in kept))
        uses_cost = any(cost in text for cost in COSTS_OF_NETWORKS for text in texts)
        if uses_cost and PRICED not in rules and self.spec.system.prices.tiers:
            text, why = "unpriced_blocks == 0", "a block without a price in its tier has no cost"
            rules[PRICED] = Rule(PRICED, text, parse_rule(text), why, self.spec.where)
        for name in self.edits.without:
            if name not in rules:
                raise SpecError(f"there is no rule {name!r}", where=Where("--without"), hint=nearest(name, rules))
            del rules[name]
        return rules

    def constraints(
        self, bound: BoundColumns
    ) -> tuple[tuple[Constraint, ...], dict[str, Quantity | SimulatedQuantity]]:
        quantities = self.quantities(bound.columns)
        present = {column.parameter for column in bound.columns}
        families = {name: family for name, family in bound.families.items() if name in present}
        names = Names(
            columns={column.name: column.term for column in bound.columns},
            data=self.data,
            units=self.units,
            families={**self.data_families(), **families},
            quantities=quantities,
            indices=bound.indices,
            categories={**_DATA_CATEGORIES, **bound.categories},
            left_out=frozenset(self.spec.model.parameters.keys() - present),
            absent=why_absent(self.spec.system, quantities) | _absent(quantities),
        )
        rules = [rule for rule in self.rules().values() if present.issuperset(rule.when)]
        constraints = [
            Constraint(rule.name, rule.text, bind_rule(rule.syntax, rule.text, names, rule.where), rule.why, rule.where)
            for rule in rules
        ]
        return tuple(constraints), quantities

    def data_families(self) -> dict[str, Family]:
        """Return the data with one member per network dimension."""
        axis = numbered("dim", self.dimensions)
        return {name[:-3]: Family(name[:-3], (axis,)) for name in self.data if name.endswith("[0]")}

    def quantities(self, columns: tuple[Column, ...]) -> dict[str, Quantity | SimulatedQuantity]:
        quantities: dict[str, Quantity | SimulatedQuantity] = dict(self.spec.kind.simulated)
        names = {column.name for column in columns}
        known = {*names, *self.data}
        priced = priced_network(self.spec.system.prices.tiers, self.data, known, self.dimensions)
        quantities |= {**priced, **system_quantities(self.data, priced.get(NETWORK_COST))}
        if isinstance(self.calibrated, Serving):
            return {**quantities, **serving_quantities(self.calibrated.in_memory, self.data, names)}
        job = {**self.data, "sequence": self.data["seq"]}
        if self.calibrated is not None:
            own = self.calibrated.memory_job(int(self.data["seq"]), int(self.data["global_batch"]))
            quantities["memory_per_npu"] = framework_memory_quantity(own, job, names)
        for name in QUANTITIES if self.calibrated is None else ():
            quantities[name] = QUANTITIES.get(name)(self.workload, job, names)
        if self.offloads:
            quantities[HOST_MEMORY] = build_host_memory(self.workload, job, names)
        if "bandwidth[0]" in known:
            quantities["total_bandwidth"] = total_bandwidth(self.dimensions)
        if "order" in names and "npus_per_dim[0]" in names:
            quantities[ORDER_REPEATS] = order_repeats(self.dimensions)
        return quantities
