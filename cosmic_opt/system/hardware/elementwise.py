"""Kernels that memory bandwidth limits: norms, activations, residuals, casts, softmax, the optimizer."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmic_opt.system.hardware.device import Device


def bytes_s(device: Device, moved_bytes: ArrayLike, fraction: ArrayLike) -> NDArray[np.float64]:
    """Return seconds to move `moved_bytes` at `fraction` of the device's memory bandwidth (the stack's constant)."""
    return np.asarray(np.asarray(moved_bytes, dtype=float) / (device.memory_bytes_per_s * np.asarray(fraction)))
