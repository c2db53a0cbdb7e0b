"""The nearest numbers of NPUs that have a design, where the one asked for has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cosmic_opt.analysis.cluster_ties import reads_npus
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.data import SYSTEM
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.parameter_set import Constraint

NUMBERS = 64
"""How many numbers are looked at in each direction, the nearest first."""


@dataclass(frozen=True)
class Cluster:
    """Another number of NPUs, the edits that ask for it, and how many designs obey every rule there."""

    npus: int
    edits: Edits
    feasible_designs: int


@dataclass(frozen=True)
class Clusters:
    """The nearest numbers of NPUs with a design that runs; None where no number from `least` to `most` has one."""

    below: Cluster | None
    above: Cluster | None
    least: int
    most: int


def nearest_clusters(
    spec: InstanceSpec, edits: Edits, instance: BoundInstance, conflicts: Sequence[Sequence[Constraint]], seed: int
) -> Clusters | None:
    """Return the nearest numbers of NPUs with a design.

    None where another number cannot help (some conflict is not about NPUs), where the network fixes it, or where rules
    on simulated quantities decide.
    """
    rules = instance.parameter_set.constraints
    if instance.calibrated is None or any(rule.simulated for rule in rules):
        return None
    if not all(any(map(reads_npus, conflict)) for conflict in conflicts):
        return None
    npus = int(instance.data["npus"])
    least, most = max(1, npus - NUMBERS), min(int(SYSTEM["npus"].high), npus + NUMBERS)
    below = _first(spec, edits, range(npus - 1, least - 1, -1), seed)
    return Clusters(below, _first(spec, edits, range(npus + 1, most + 1), seed), least, most)


def _first(spec: InstanceSpec, edits: Edits, numbers: Iterable[int], seed: int) -> Cluster | None:
    """Return the first of these numbers of NPUs that has a design which runs."""
    from cosmic_opt.search.runnable import cannot_run  # numba takes a second to load

    for npus in numbers:
        others = tuple((name, text) for name, text in edits.set if name != "npus")
        asked = replace(edits, set=(*others, ("npus", str(npus))))
        try:
            instance = bind(spec, asked)
            designs = feasible_set(lower(instance.parameter_set))
        except (SpecError, LimitError):  # a network, a fixed degree or a domain that does not go with the number
            continue
        if not designs.size:
            continue
        idle = cannot_run(instance, designs, seed=seed)
        if idle is None or not idle.every:
            return Cluster(npus, asked, designs.size)
    return None
