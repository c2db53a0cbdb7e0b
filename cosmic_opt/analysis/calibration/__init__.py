"""A device's few physical constants, fitted on measured kernels and collectives."""

from cosmic_opt.analysis.calibration.fit import Calibration, Change, FitError, calibrate
from cosmic_opt.analysis.calibration.rows import MeasuredRows, read_rows
from cosmic_opt.analysis.calibration.steps import refine

__all__ = ["Calibration", "Change", "FitError", "MeasuredRows", "calibrate", "read_rows", "refine"]
