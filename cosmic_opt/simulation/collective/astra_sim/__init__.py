"""ASTRA-sim's congestion-unaware analytical backend, reproduced to the nanosecond for single collectives.

Sizes, bandwidths and latencies are in ASTRA-sim's own units: comm_size in bytes, network bandwidth in 2^30 B/s,
memory bandwidth in 10^9 B/s, time in whole nanoseconds.
"""

from __future__ import annotations

from cosmic_opt.simulation.collective.astra_sim.case import AstraCase
from cosmic_opt.simulation.collective.astra_sim.run import AstraTiming, run_case

__all__ = ["AstraCase", "AstraTiming", "run_case"]
