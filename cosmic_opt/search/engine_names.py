"""What may score a design, by name; a module of its own, since commands read it before numba is loaded."""

ANALYTICAL, EVENTS, CALIBRATED = "analytical", "events", "calibrated"
"""Closed forms; chunk by chunk, with contention; the calibrated model of an instance that names its software."""
ENGINES = (ANALYTICAL, EVENTS)
"""Those a user may ask for."""
ASTRA_SIM = "astra-sim"
"""The other program, on one exported design; `simulate` only."""
