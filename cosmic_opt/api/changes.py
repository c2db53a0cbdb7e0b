"""What can be changed about a problem: every change makes a new one.

What a change says by itself is checked at once: names, units, the grammar of a rule. What depends on others (whether a
value is in a domain that data decide, whether the rule to drop is there) is checked when the problem is first asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from cosmic_opt.api.arguments import of_kind
from cosmic_opt.catalog.data import LATENCY, SYSTEM, Datum, job_data, read_setting
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.job_kinds import INFERENCE
from cosmic_opt.catalog.system_quantities import COSTS_OF_NETWORKS
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.units import NEEDED, Unit


def _text(value: Value, unit: Unit) -> str:
    """Return a value as an option takes it; a bare number counts base units, which a time or an energy must name."""
    bare = isinstance(value, int) and not isinstance(value, bool)
    return f"{value} {unit.value}" if bare and unit in NEEDED else str(value)


@dataclass(frozen=True)
class Changes:
    """An instance and changes to it."""

    spec: InstanceSpec
    edits: Edits = Edits()  # noqa: RUF009 - a frozen value
    source: str = ""
    """The name or path it was loaded from."""

    def edit(self, edits: Edits) -> Self:
        """Return the problem with `edits` applied after those it has."""
        return replace(self, edits=self.edits.then(edits))

    def set(self, **data: Value) -> Self:
        """Change data: `problem.set(memory_capacity="80 GB")`.

        Raises:
            SpecError: an unknown datum, or a value without a meaning for it.
        """
        found = tuple((name, _text(value, self._unit_of(name))) for name, value in data.items())
        for name, text in found:
            read_setting(name, text, self.spec)
        return self.edit(Edits(set=found))

    def fix(self, values: Mapping[str, Value] | None = None, **more: Value) -> Self:
        """Fix parameters: `problem.fix(tp=8)`, `problem.fix({"bandwidth[0]": "100 GB/s"})`.

        Raises:
            SpecError: the model has no such parameter.
        """
        pairs = {**(values or {}), **more}
        self._refuse_unknown(pairs, "--fix")
        return self.edit(Edits(fix=tuple((name, _text(value, self._unit_of(name))) for name, value in pairs.items())))

    def _unit_of(self, name: str) -> Unit:
        """Return the unit of a parameter or datum, `NONE` of a name that is neither."""
        base = family_of(name)
        if base in self.spec.model.parameters:
            return self.spec.model.parameters[base].unit
        return {**job_data(self.spec.kind), **SYSTEM, "latency": LATENCY}.get(base, Datum()).unit

    def free(self, *names: str) -> Self:
        """Free parameters: `problem.free("bandwidth")`.

        Raises:
            SpecError: the model has no such parameter.
        """
        self._refuse_unknown(names, "--free")
        return self.edit(Edits(free=names))

    def require(self, *rules: str) -> Self:
        """Add rules: `problem.require("memory_per_npu <= 40 GB")`.

        Raises:
            SpecError: no rule by the grammar.
        """
        for rule in rules:
            parse_rule(of_kind(rule, str, "rule", 'write text: "tp <= 8"'), Where("--require"))
        return self.edit(Edits(require=rules))

    def without(self, *names: str) -> Self:
        """Drop declared rules by name; one that is not there is refused when the problem is first asked."""
        return self.edit(Edits(without=names))

    def scope(self, name: str) -> Self:
        """Choose which parameters are free, by a scope of the model.

        Raises:
            SpecError: the model has no such scope.
        """
        if of_kind(name, str, "scope", 'write its name: "workload"') not in self.spec.model.scopes:
            hint = nearest(name, self.spec.model.scopes)
            raise SpecError(f"unknown scope {name!r}", where=Where("--scope"), hint=hint)
        return self.edit(Edits(scope=name))

    def objective(self, name: str) -> Self:
        """Choose the objective, for example "step_time * network_cost".

        Raises:
            SpecError: no objective of such jobs.
        """
        known = self.spec.kind.objectives
        if " ".join(of_kind(name, str, "objective", 'write text: "step_time"').split()) not in known:
            raise SpecError(
                f"unknown objective {name!r}", where=Where("--objective"), hint=f"known: {'; '.join(known)}"
            )
        return self.edit(Edits(objective=name))

    def _refuse_unknown(self, names: Iterable[str], option: str) -> None:
        for name in names:
            if family_of(of_kind(name, str, "parameter", 'write its name: "tp"')) not in self.spec.model.parameters:
                hint = nearest(family_of(name), self.spec.model.parameters)
                raise SpecError(f"unknown parameter {name!r}", where=Where(option), hint=hint)

    def scored(self, *quantities: str) -> Self:
        """Return the problem whose designs have these quantities: where cost is asked for, blocks have a price."""
        cost = next((name for name in COSTS_OF_NETWORKS if name in quantities), None)
        return self if cost is None or self.spec.kind is INFERENCE else self.objective(f"step_time * {cost}")
