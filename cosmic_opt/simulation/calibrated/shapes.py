"""What a layer is made of on one rank, whether it is trained or served: shapes of its maps, bytes of its activation."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.job import FloatArray
from cosmic_opt.workloads.language_model import LanguageModel, Matmul

ACTIVATION_BYTES = 2
GATE_MOVED_BYTES, PLAIN_MOVED_BYTES = 6, 4
"""Per element of the MLP's width: both branches, or one, are read and the product is written."""
CLAMPED_GATE_MOVED_BYTES = 52
"""Biases 8, two clamps 8, scale 4, sigmoid 4, product 6, shift 4, product 6, routing weight in fp32 12."""
CLAMPED_GATE_KERNELS = 8
"""Of that chain; the fused kernel of a plain gate is one."""


def inputs_outputs(matmul: Matmul, tp: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (inputs, outputs) of a linear map on one of tp ranks. Source: Shoeybi 2019, section 3."""
    inputs = matmul.inputs / np.where(matmul.split == "inputs", tp, 1.0)
    outputs = matmul.outputs / np.where(matmul.split == "outputs", tp, 1.0)
    return inputs, outputs


def gate_bytes(model: LanguageModel, *, fused: bool = False) -> int:
    """Return bytes the activation moves per element of the MLP's width; a clamped gate is a chain unless `fused`."""
    if model.clamped_gate and not fused:
        return CLAMPED_GATE_MOVED_BYTES
    return GATE_MOVED_BYTES if model.gated_mlp else PLAIN_MOVED_BYTES
