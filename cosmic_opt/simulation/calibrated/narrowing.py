"""Kernels that do nothing but write the input of a narrow product in its own width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup
from cosmic_opt.simulation.calibrated.shapes import ACTIVATION_BYTES, inputs_outputs
from cosmic_opt.system.hardware import operand_bytes
from cosmic_opt.workloads.language_model import Matmul

WRITTEN_NARROW = ("out",)
"""Products whose input attention itself writes in their width."""
AFTER_A_NORM = ("qkv", "query_down", "kv_down", "up")
"""Products that read a norm: with tensor parallelism it is part of the reduction, which writes their width."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What one layer narrows, one entry per design: kernels, and bytes they read and write for each token."""

    kernels: FloatArray
    token_bytes: FloatArray


def narrowing(setup: ServingSetup, designs: ServingDesigns, matmuls: tuple[Matmul, ...]) -> Narrowing:
    """Return the kernels that narrow inputs of a layer's products; experts share one for the token they are sent.

    Each reads 16 bits and writes an operand of the product. Source: TensorRT-LLM 1.0 (Linear, Attention, Llama).
    """
    kernels, elements = np.zeros_like(designs.tp), np.zeros_like(designs.tp)
    width = operand_bytes(setup.numbers.compute)
    if not setup.engine.quantises_apart or width >= ACTIVATION_BYTES:
        return Narrowing(kernels, elements)
    for each in matmuls:
        if each.name in WRITTEN_NARROW:
            continue
        apart = designs.tp == 1 if each.name in AFTER_A_NORM else np.ones_like(designs.tp, dtype=bool)
        inputs, _ = inputs_outputs(each, designs.tp)
        kernels, elements = kernels + apart, elements + apart * inputs
    if setup.model.experts is not None:
        kernels, elements = kernels + 1, elements + setup.model.hidden
    return Narrowing(kernels, elements * (ACTIVATION_BYTES + width))
