"""One decode step: a new token for each sequence of a batch at a given context."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cosmic_opt.simulation.calibrated.captured import captured_rows
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.simulation.calibrated.serving_layer import head_s, model_parts, stage_send_s
from cosmic_opt.simulation.calibrated.serving_stages import chosen, longest_stage, whole_model
from cosmic_opt.workloads.engine import share_on
from cosmic_opt.workloads.kv_cache import read_bytes_per_token

CACHE_BYTES = 2
"""An element of a cache in 16 bits; a narrower one is widened by the kernel."""
HEAD_COMPUTE = "bf16"
"""Scores and values are multiplied in 16 bits however narrow the cache is."""


def decode_terms(
    setup: ServingSetup, designs: ServingDesigns, context: ArrayLike, *, most: FloatArray | None = None
) -> Terms:
    """Return seconds of one step of a replica by term: every layer once, the head, the host.

    `most` is the largest batch the server was set up for, which is captured, too; None: the batch itself.
    Without overlapping stages the batch passes a pipeline stage after stage. With them, up to as many micro-batches as
    there are stages are under way: a step takes one of them through all stages, and the slowest stage through all of
    them, whichever is longer.
    """
    keys = np.broadcast_to(np.asarray(context, dtype=float), designs.tp.shape)
    overlaps = setup.engine.overlaps_stages
    micro_batches = _micro_batches(designs) if overlaps else np.ones_like(designs.pp)
    sequences, routed = np.ceil(designs.sequences / micro_batches), np.ceil(designs.batch / micro_batches)
    attention = decode_attention_s(setup, designs, sequences, keys)
    rows = sequences
    if most is not None:
        rows = captured_rows(setup.engine, sequences, np.ceil(most / (designs.ep * micro_batches)))
    parts = model_parts(setup, designs, rows, routed * rows / sequences, attention, head_s(setup, designs, rows))
    contents = whole_model(setup, designs)
    if overlaps:
        busiest = longest_stage(setup, designs, parts).times(micro_batches)
        contents = chosen(parts.total_s(busiest) > parts.total_s(contents), busiest, contents)
    terms = parts.terms(contents)
    terms["sends"] = stage_send_s(setup, designs, rows)
    host = host_s(setup, designs)
    terms["host"] = np.maximum(host - sum(terms.values()), 0.0) if setup.engine.overlaps_host else host
    return terms


def _micro_batches(designs: ServingDesigns) -> FloatArray:
    """Return how many micro-batches there are, no larger than one for each stage makes them: 5 on 4 stages are 3."""
    largest = np.ceil(designs.sequences / designs.pp)
    return np.asarray(np.ceil(designs.sequences / largest))


def host_s(setup: ServingSetup, designs: ServingDesigns) -> FloatArray:
    """Return the engine's own time of one pass: step + sequences, and what meeting other ranks costs."""
    host = setup.engine.host
    several = designs.tp * designs.ep > 1
    return np.asarray(host.step_s + host.sequence_s * designs.sequences + np.where(several, host.tensor_s, 0.0))


def decode_attention_s(
    setup: ServingSetup, designs: ServingDesigns, sequences: FloatArray, context: FloatArray
) -> FloatArray:
    """Return seconds of attention of one layer over the cache.

    The largest of: reading the cache at the memory's rate, where heads that share keys may read them again; one
    block reading the keys of its head; the arithmetic. Source: Kwon 2023 (one block per sequence and head),
    Williams 2009 (roofline).
    """
    model, device, kernel = setup.model, setup.device, setup.engine.attention
    heads = model.heads / designs.tp
    passes = 1.0 if model.latent is not None else min(model.heads / model.kv_heads, kernel.grouped_reads)
    if setup.numbers.cache_bytes < CACHE_BYTES:
        passes = passes * kernel.narrow_reads
    cache_bytes = read_bytes_per_token(setup, designs) * context
    share = share_on(kernel.memory_share, device.board) or 1.0
    rate = share * device.attention.decode_memory_fraction * device.memory_bytes_per_s
    read = passes * sequences * cache_bytes / rate
    if model.latent is not None:
        rank = model.latent
        flops = 2 * sequences * heads * context * (2 * rank.kv_rank + rank.rope_dim)
        block = cache_bytes / kernel.head_bytes_per_s
    else:
        flops = 4 * sequences * heads * context * model.head_dim
        block = 2 * setup.numbers.cache_bytes * model.head_dim * context / kernel.head_bytes_per_s
    compute = flops / (device.peak(HEAD_COMPUTE) * device.attention.efficiency)
    return np.asarray(kernel.launch_s + np.maximum(np.maximum(read, block), compute))
