"""The process that launches kernels: when it is slower than the device, it sets the pace."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.communication import COLLECTIVES_PER_PASS
from cosmic_opt.simulation.calibrated.job import FloatArray, Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import softmax_is_fused
from cosmic_opt.simulation.calibrated.modules import module_kernels

SHARPNESS = 5
"""Power of the smooth maximum of device and host time: queues between the two are finite."""
PRODUCT_KERNELS = 4
"""Of a layer forward: queries, keys and values in one, projection, and both sides of the MLP."""
ATTENTION_KERNELS = {"flash": 1, "unfused": 4}
"""Likewise: one fused kernel, or two products with softmax and dropout between them."""
LAYER_KERNELS = 24
"""Likewise, all of them; those of neither kind are elementwise."""
SEPARATE_SOFTMAX_LAUNCHES = (4, 5)
"""Kernels beyond one, forward and backward, where scale, mask, casts and softmax are separate."""


def paced_s(device_s: FloatArray, host_s: FloatArray) -> FloatArray:
    """Return (device^5 + host^5)^(1/5), the time of work the host launches while the device runs."""
    longer = np.maximum(np.maximum(device_s, host_s), 1e-300)
    ratio = np.minimum(device_s, host_s) / longer
    return np.asarray(longer * (1 + ratio**SHARPNESS) ** (1 / SHARPNESS))


def layer_host_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return host seconds of one layer and micro-batch: its launches, and reading the routed token counts.

    The collectives of tensor parallelism are launches as well. What backward runs again is launched again: whole
    layers with their collectives and token counts, or chosen operators of the others, whose token counts are kept.
    """
    host, again = setup.stack.host, designs.recompute
    forwards, others = 1 + again.layers, 1 - again.layers
    more_forward, more_backward = (
        np.where(softmax_is_fused(setup, designs), 0, more) for more in SEPARATE_SOFTMAX_LAUNCHES
    )
    collectives = np.where(designs.tp > 1, COLLECTIVES_PER_PASS, 0)
    launches = forwards * (host.forward_launches + more_forward) + host.backward_launches + more_backward
    launches = launches + (forwards + others * again.collectives + 1) * collectives
    launches = launches + others * (_operator_launches(setup, again) + again.attention * more_forward)
    routed = np.zeros_like(designs.tp)
    if setup.model.experts is not None and not setup.fused_experts:
        routed = forwards * host.routed_forward_s + host.routed_backward_s
    fills_node = (designs.tp >= setup.gpus_per_node) & (setup.gpus_per_node > 1)
    return np.asarray(launches * host.launch_s * np.where(fills_node, host.node_skew, 1.0) + routed)


def _operator_launches(setup: TrainingSetup, again: Recompute) -> FloatArray:
    """Return the launches of a layer's operators that run again by themselves."""
    attention = ATTENTION_KERNELS[setup.stack.attention.kind]
    kernels = again.attention * attention + again.matmul * PRODUCT_KERNELS
    kernels = kernels + again.elementwise * (LAYER_KERNELS - PRODUCT_KERNELS - attention)
    kernels = kernels + again.modules * module_kernels(setup.model)
    return kernels * setup.stack.host.forward_launches / LAYER_KERNELS
