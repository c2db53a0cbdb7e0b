"""One collective on a given network, under the profile `link` or `astra_sim`."""

from __future__ import annotations

from cosmic_opt.simulation.collective.result import CollectiveResult, PhaseTiming
from cosmic_opt.simulation.collective.simulate import PROFILES, AstraSimOptions, simulate_collective

__all__ = ["PROFILES", "AstraSimOptions", "CollectiveResult", "PhaseTiming", "simulate_collective"]
