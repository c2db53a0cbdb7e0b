"""What can be changed about a problem: every change makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.job_kinds import INFERENCE
from cosmic_opt.catalog.system_quantities import COSTS_OF_NETWORKS
from cosmic_opt.psa.domain import Value


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
        """Change data: `problem.set(memory_capacity="80 GB")`."""
        return self.edit(Edits(set=tuple((name, str(value)) for name, value in data.items())))

    def fix(self, values: Mapping[str, Value] | None = None, **more: Value) -> Self:
        """Fix parameters: `problem.fix(tp=8)`, `problem.fix({"bandwidth[0]": "100 GB/s"})`."""
        pairs = {**(values or {}), **more}
        return self.edit(Edits(fix=tuple((name, str(value)) for name, value in pairs.items())))

    def free(self, *names: str) -> Self:
        """Free parameters: `problem.free("bandwidth")`."""
        return self.edit(Edits(free=names))

    def require(self, *rules: str) -> Self:
        """Add rules: `problem.require("memory_per_npu <= 40 GB")`."""
        return self.edit(Edits(require=rules))

    def without(self, *names: str) -> Self:
        """Drop declared rules by name."""
        return self.edit(Edits(without=names))

    def scope(self, name: str) -> Self:
        """Choose which parameters are free, by a scope of the model."""
        return self.edit(Edits(scope=name))

    def objective(self, name: str) -> Self:
        """Choose the objective, for example "step_time * network_cost"."""
        return self.edit(Edits(objective=name))

    def scored(self, *quantities: str) -> Self:
        """Return the problem whose designs have these quantities: where cost is asked for, blocks have a price."""
        cost = next((name for name in COSTS_OF_NETWORKS if name in quantities), None)
        return self if cost is None or self.spec.kind is INFERENCE else self.objective(f"step_time * {cost}")
