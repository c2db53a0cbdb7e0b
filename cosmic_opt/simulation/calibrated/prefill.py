"""Prefill: all tokens of the prompts of a batch in one pass, the cache written on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cosmic_opt.simulation.calibrated.decode import HEAD_COMPUTE, host_s
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.simulation.calibrated.serving_layer import head_s, model_parts, stage_send_s
from cosmic_opt.simulation.calibrated.serving_stages import longest_stage, whole_model
from cosmic_opt.system.hardware import attention_prefill_s
from cosmic_opt.workloads.engine import share_on


def prefill_terms(setup: ServingSetup, designs: ServingDesigns, prompt: ArrayLike, *, busy: bool = False) -> Terms:
    """Return seconds by term until each sequence of the batch has its first token; `prompt` is tokens of each.

    With `busy`, return those for which it keeps the slowest stage of a pipeline busy: the others work meanwhile.
    """
    length = np.broadcast_to(np.asarray(prompt, dtype=float), designs.tp.shape)
    sequences = designs.sequences
    tokens = sequences * length
    attention = prefill_attention_s(setup, designs, sequences, length)
    head = head_s(setup, designs, sequences)
    parts = model_parts(setup, designs, tokens, designs.batch * length, attention, head)
    contents = longest_stage(setup, designs, parts) if busy else whole_model(setup, designs)
    terms, share = parts.terms(contents), 1 / designs.pp if busy else 1.0
    terms["sends"] = share * stage_send_s(setup, designs, tokens)
    terms["host"] = share * host_s(setup, designs)
    return terms


def prefill_attention_s(
    setup: ServingSetup, designs: ServingDesigns, sequences: FloatArray, length: FloatArray
) -> FloatArray:
    """Return seconds of fused causal attention of one layer, in 16 bits."""
    model = setup.model
    heads, kv_heads = model.heads / designs.tp, np.maximum(model.kv_heads / designs.tp, 1.0)
    width = (model.score_width + model.value_width) / (2 * model.heads)
    return attention_prefill_s(
        setup.device,
        HEAD_COMPUTE,
        sequences,
        length,
        heads,
        heads if model.latent is not None else kv_heads,
        width,
        efficiency=share_on(setup.engine.prefill_fraction, setup.device.board),
    )
