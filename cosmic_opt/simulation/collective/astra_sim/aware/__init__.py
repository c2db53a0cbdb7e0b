"""ASTRA-sim's congestion-aware backend: one dimension, every message on every link of its route.

A message is stored and forwarded at each hop. A directed link serves messages first-in first-out: it is free again
after floor(size / bandwidth), and the message is at the next device floor(latency + size / bandwidth) after its start.
"""

from __future__ import annotations

from cosmic_opt.simulation.collective.astra_sim.aware.engine import LinkEngine, Output
from cosmic_opt.simulation.collective.astra_sim.aware.programs import Program, collective_program
from cosmic_opt.simulation.collective.astra_sim.aware.run import run_aware_case

__all__ = ["LinkEngine", "Output", "Program", "collective_program", "run_aware_case"]
