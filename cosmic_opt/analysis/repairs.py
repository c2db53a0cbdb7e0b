"""Relaxations as edits of the instance, with what is known of the designs that they leave."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from cosmic_opt.analysis.blocked import Left
from cosmic_opt.analysis.change import Drop, Relaxation
from cosmic_opt.analysis.enforced import enforced
from cosmic_opt.analysis.relaxed_edits import relaxed_edits
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import EngineDisagreement, LimitError, SpecError
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import ParameterSet

DRAWN = 1 << 12
"""Of more designs, so many are drawn to see how many NPUs they use."""


@dataclass(frozen=True)
class Repair:
    """A relaxation, the edits of the relaxed problem, and how many designs it then has.

    None: its rules are too entangled to count, or a simulator must check some of them.
    """

    relaxation: Relaxation
    edits: Edits
    feasible_designs: int | None
    leaves_cluster: bool = False
    """Whether a rule is dropped and every design looked at then uses another number of NPUs than there are."""


def designs_or_none(parameter_set: ParameterSet) -> FeasibleSet | None:
    """Return the designs that the structural rules allow; None when they are too entangled to count."""
    try:
        return feasible_set(lower(parameter_set))
    except LimitError:
        return None


def count_or_none(parameter_set: ParameterSet) -> int | None:
    """Return how many designs the structural rules allow; None when they are too entangled to count."""
    designs = designs_or_none(parameter_set)
    return None if designs is None else designs.size


def checked(spec: InstanceSpec, edits: Edits, own: ParameterSet, relaxation: Relaxation) -> Repair:
    """Return the relaxation as edits, once the problem they make is seen to have its design.

    Raises:
        EngineDisagreement: it has not.
    """
    after = relaxed_edits(spec, edits, own, relaxation)
    instance = bind(spec, after)
    relaxed = instance.parameter_set
    designs = designs_or_none(relaxed)
    if (designs is not None and not designs.size) or not np.all(feasible(relaxed.design(relaxation.design))):
        raise EngineDisagreement(f"a relaxation leaves no design: {after}")
    drops = any(isinstance(change, Drop) for change in relaxation.changes)
    leaves = designs is not None and drops and _leave_cluster(instance, designs)
    simulated = any(rule.simulated for rule in relaxed.constraints)
    return Repair(relaxation, after, None if simulated or designs is None else designs.size, leaves)


def _leave_cluster(instance: BoundInstance, designs: FeasibleSet) -> bool:
    """Tell whether none of the designs looked at is one of the NPUs there are; a served model may use fewer."""
    from cosmic_opt.search.npus_used import npus_used  # numba takes a second to load

    codes = designs.sample(min(DRAWN, designs.size), np.random.default_rng(0))
    used, npus = npus_used(instance.parameter_set.batch(codes)), int(instance.data["npus"])
    return bool(np.all(used > npus if isinstance(instance.calibrated, Serving) else used != npus))


@dataclass
class Repairs:
    """Relaxations of one problem as repairs, and whether something runs after each: few designs are all looked at."""

    spec: InstanceSpec
    edits: Edits
    instance: BoundInstance
    seed: int
    made: dict[Edits, tuple[Repair, Left]] = field(default_factory=dict)

    @property
    def data_read(self) -> frozenset[str]:
        """Data that decide whether a design runs, beside the rules: the memory that one sequence must fit in."""
        return frozenset({"memory_capacity"} if isinstance(self.instance.calibrated, Serving) else ())

    def of(self, relaxation: Relaxation) -> tuple[Repair, Left]:
        """Return the relaxation, checked, and what it leaves."""
        own = self.instance.parameter_set
        after = relaxed_edits(self.spec, self.edits, own, relaxation)
        if after not in self.made:
            self.made[after] = checked(self.spec, self.edits, own, relaxation), self._left(bind(self.spec, after))
        repair, left = self.made[after]
        return replace(repair, relaxation=relaxation), left

    def after(self, relaxation: Relaxation) -> Left:
        """Return what a relaxation leaves."""
        return self.of(relaxation)[1]

    def without(self, rules: Collection[str], parameters: Collection[str]) -> Left:
        """Return what is left without some rules and with every value of some parameters.

        Not known where a rule that stays has no meaning for these, or the designs cannot be counted.
        """
        own = self.instance.parameter_set
        drops = tuple(Drop(rule) for rule in own.constraints if rule.name in rules)
        after = relaxed_edits(self.spec, self.edits, own, Relaxation(drops, Fraction(0), {}))
        fix = tuple((name, text) for name, text in after.fix if name.partition("[")[0] not in parameters)
        try:
            instance = bind(self.spec, replace(after, fix=fix, free=(*after.free, *sorted(parameters))))
            opened = instance.parameter_set
            rules_kept = (*opened.constraints, *enforced(instance, opened))
            return self._left(replace(instance, parameter_set=replace(opened, constraints=rules_kept)))
        except (SpecError, LimitError):
            return Left.RUNS

    def _left(self, instance: BoundInstance) -> Left:
        from cosmic_opt.search.runnable import cannot_run  # numba takes a second to load

        designs = designs_or_none(instance.parameter_set)
        if designs is None:
            return Left.RUNS
        if not designs.size:
            return Left.NONE
        idle = cannot_run(instance, designs, seed=self.seed)
        if idle is None or not idle.every:
            return Left.RUNS
        return Left.NONE if idle.exact else Left.NONE_DRAWN
