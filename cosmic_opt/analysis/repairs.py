"""Relaxations as edits of the instance, with what is known of the designs that they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.analysis.change import Drop, Relaxation
from cosmic_opt.analysis.relaxed_edits import relaxed_edits
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import EngineDisagreement, LimitError
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
