"""Closed forms of a training step, vectorised over designs; cost independent of NPUs and layers."""

from cosmic_opt.simulation.analytical.layout import HIDDEN, TERMS
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator, Evaluation, Prepared

__all__ = ["HIDDEN", "TERMS", "AnalyticalSimulator", "Evaluation", "Prepared"]
