"""What it costs to run modules of a layer again in backward: norms, the activation of experts, latent attention's up
projections."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import cast_pass, matmul_pass
from cosmic_opt.simulation.calibrated.shapes import gate_bytes
from cosmic_opt.system.hardware import bytes_s
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.recomputed_modules import module_widths

NORM_BYTES = 4
"""Moved per element of a norm: read and written in 16 bits (as in `layer.elementwise_pass`)."""
ROTARY_KERNELS = 2
"""Of latent attention: one for queries, one for keys and values."""


def modules_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return seconds of one layer and micro-batch that its modules take again, where a design runs them again.

    Norms and activation move what they move forward; operands that were kept cast are cast again, but for those a fused
    grouped product casts itself. The up projections are products, with the rotary embedding behind them.
    """
    again = designs.recompute
    if not again.modules.any():
        return np.zeros_like(designs.tp)
    model, widths = setup.model, module_widths(setup.model)
    split = designs.tp if setup.sequence_parallel else 1.0
    activated = widths.activation * designs.capacity / designs.tp
    rotated = (model.score_width + model.kv_width / 2 if widths.up_maps else 0.0) / designs.tp
    moved = NORM_BYTES * (widths.norms / split + rotated) + gate_bytes(model) * activated
    moved = moved * (1.0 if setup.compiled else setup.stack.eager_traffic)
    cast = setup.recipe.cast_bytes * (widths.norms / split + (0.0 if setup.fused_experts else activated))
    elementwise = bytes_s(setup.device, designs.tokens(setup) * (moved + cast), setup.stack.elementwise_fraction)
    products = matmul_pass(setup, designs, widths.up_maps) + cast_pass(setup, designs, widths.up_maps)
    return np.asarray((1 - again.layers) * again.modules * (elementwise + products.forward_s))


def module_kernels(model: LanguageModel) -> int:
    """Return the kernels of a layer's modules: each norm, the activation, each up projection and the rotary ones."""
    widths = module_widths(model)
    up = len(widths.up_maps) + ROTARY_KERNELS if widths.up_maps else 0
    return widths.norms // model.hidden + (1 if widths.activation else 0) + up
