"""What a design's system costs and draws, as `simulate` gives it: null where the system's files do not say."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.catalog.system_quantities import DEVICE_COST, NETWORK_COST, SYSTEM_COST, SYSTEM_POWER
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.search.objective import energy_of
from cosmic_opt.units import MICROJOULES


def system_metrics(quantities: Mapping[str, int]) -> dict[str, float | int | None]:
    """Return dollars and watts of the system, from the structural quantities of one design."""
    priced = quantities.get("unpriced_blocks") == 0
    return {
        NETWORK_COST: quantities[NETWORK_COST] if priced else None,
        DEVICE_COST: quantities.get(DEVICE_COST),
        SYSTEM_COST: quantities.get(SYSTEM_COST) if priced else None,
        f"{SYSTEM_POWER}_w": quantities.get(SYSTEM_POWER),
    }


def energy_j(parameter_set: ParameterSet, ticks: int) -> float | None:
    """Return the joules that the boards draw for a step (for one output token) that is scored with so many ticks."""
    if SYSTEM_POWER not in parameter_set.quantities:
        return None
    return float(energy_of(ticks, parameter_set) / MICROJOULES)
