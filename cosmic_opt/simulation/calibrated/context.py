"""Context parallelism: how the ranks that share a sequence see each other's keys and values."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.groups import group_s
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import ACTIVATION_BYTES, Pass
from cosmic_opt.system.hardware import bytes_s

MERGE_BYTES = 12
"""Per output element and step of a ring beyond the first: read the partial output (4), read and write the sum (8)."""


def context_pass(setup: TrainingSetup, designs: TrainingDesigns, attention: Pass) -> tuple[Pass, Pass]:
    """Return the exchange of a layer: what lengthens attention, and what hides behind it.

    ring: blocks of keys pass from rank to rank beside attention, whose partial outputs are merged (Liu 2023).
    all_gather: keys come before attention and their gradients leave after it; nothing hides (Llama Team 2024, 3.3.2).
    all_to_all: ranks trade tokens for heads before attention and back after it; nothing hides (Jacobs 2023).
    """
    exchange = setup.context_exchange or setup.stack.context_exchange
    if exchange == "all_to_all":
        once = _exchanged_s(setup, designs)
        return Pass(once, once), Pass.zero(designs)
    gather = _gathered_s(setup, designs)
    traffic = Pass(gather, 2 * gather)
    if exchange == "all_gather":
        return traffic, Pass.zero(designs)
    hidden = Pass(np.minimum(gather, attention.forward_s), np.minimum(2 * gather, attention.backward_s))
    merge = _merge_s(setup, designs)
    return traffic - hidden + Pass(merge, merge), hidden


def _gathered_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the gather of all keys and values; backward sends their gradients besides."""
    width = setup.model.kv_width / np.minimum(designs.tp, max(setup.model.kv_heads, 1))
    size = ACTIVATION_BYTES * designs.micro_batch * setup.sequence * width
    return group_s(setup, "all_gather", designs.cp, designs.tp, size)


def _exchanged_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return queries, keys and values to the ranks of their heads, and outputs back to those of their tokens."""
    model, tokens = setup.model, designs.tokens(setup)
    there = ACTIVATION_BYTES * tokens * (model.score_width + model.kv_width) / designs.tp
    back = ACTIVATION_BYTES * tokens * model.value_width / designs.tp
    return group_s(setup, "all_to_all", designs.cp, designs.tp, there) + group_s(
        setup, "all_to_all", designs.cp, designs.tp, back
    )


def _merge_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the sums of the partial outputs of a ring's cp steps."""
    elements = designs.tokens(setup) * setup.model.value_width / designs.tp
    moved = MERGE_BYTES * (designs.cp - 1) * elements
    return bytes_s(setup.device, moved, setup.stack.elementwise_fraction)
