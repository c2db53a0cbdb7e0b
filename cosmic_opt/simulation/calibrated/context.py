"""Context parallelism: how the ranks that share a sequence see each other's keys and values.

A rank holds two chunks of s / (2 cp) tokens, an early and a late one, so that causal attention is shared equally. Block
by block it attends to its own keys (causal), then to those of each other rank: all of its tokens to the early chunk, or
its late chunk to both (Liu 2023; Llama Team 2024, section 3.3.2).
"""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.groups import group_s, send_s
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import Pass, attention_pass, flash_pass
from cosmic_opt.simulation.calibrated.shapes import ACTIVATION_BYTES
from cosmic_opt.system.hardware import bytes_s


def shared_attention_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return the attention core of one rank: one kernel, or one for each block of keys.

    A block of another rank is as much work as the causal own one, and has half as many keys for as many queries. In a
    plain ring the last rank attends to the whole of every block.
    """
    if setup.stack.attention.kind == "unfused" or not _in_blocks(setup):
        return attention_pass(setup, designs)
    chunk = setup.sequence / designs.cp
    own = flash_pass(setup, designs, designs.micro_batch, chunk)
    halves = 1 if setup.attention_schedule == "ring" else 2
    other = flash_pass(setup, designs, halves * designs.micro_batch, chunk / halves, causal=False)
    return own + other.times(designs.cp - 1)


def context_pass(setup: TrainingSetup, designs: TrainingDesigns, attention: Pass) -> tuple[Pass, Pass]:
    """Return the exchange of a layer: what lengthens attention, and what hides behind it.

    ring: each block's keys arrive beside attention to the block before; backward, gradients follow them (Liu 2023).
    all_gather: keys come before attention and their gradients leave after it; nothing hides (Llama Team 2024, 3.3.2).
        Where the framework works in blocks, they come beside attention to the own block, and gradients go round.
    all_to_all: ranks trade tokens for heads before attention and back after it; nothing hides (Jacobs 2023).
    """
    exchange = setup.exchange
    if exchange == "all_to_all":
        once = _exchanged_s(setup, designs)
        return Pass(once, once), Pass.zero(designs)
    if not _in_blocks(setup):
        gather = _gathered_s(setup, designs)
        return Pass(gather, 2 * gather), Pass.zero(designs)
    block = attention.times(1 / designs.cp)
    together = _ring_pass if exchange == "ring" else _rotated_pass
    traffic, shown = together(setup, designs, block)
    return shown + _merge_pass(setup, designs), traffic - shown


def _in_blocks(setup: TrainingSetup) -> bool:
    """Return whether attention goes block by block."""
    return setup.exchange == "ring" or (setup.exchange == "all_gather" and setup.stack.context_blocks)


# --- blocks ----------------------------------------------------------------------------------------------------


def _ring_pass(setup: TrainingSetup, designs: TrainingDesigns, block: Pass) -> tuple[Pass, Pass]:
    """Return (traffic, what shows of it) of blocks that pass from rank to rank.

    Forward sends cp - 1 times beside a block each. Backward sends keys beside the first block, gradients of the block
    before besides, and gradients alone beside the last.
    """
    others = designs.cp - 1
    keys, gradients = _passed_s(setup, designs, ACTIVATION_BYTES), _passed_s(setup, designs, _sum_bytes(setup))
    both = np.where(designs.cp > 1, designs.cp - 2, 0.0)
    backward = (
        _beyond(keys, block.backward_s)
        + both * _beyond(keys + gradients, block.backward_s)
        + _beyond(gradients, block.backward_s)
    )
    shown = Pass(others * _beyond(keys, block.forward_s), backward)
    return Pass(others * keys, others * (keys + gradients)), shown


def _rotated_pass(setup: TrainingSetup, designs: TrainingDesigns, block: Pass) -> tuple[Pass, Pass]:
    """Return (traffic, what shows of it) of keys gathered at once beside the own block, whose gradients go round.

    They go home with the last of cp sends, beside which there is nothing left to do.
    """
    gather, gradients = _gathered_s(setup, designs), _passed_s(setup, designs, _sum_bytes(setup))
    forward = _beyond(gather, block.forward_s)
    rounds = (designs.cp - 1) * _beyond(gradients, block.backward_s) + gradients
    shown = Pass(forward, _beyond(gather, block.backward_s) + rounds)
    return Pass(gather, gather + designs.cp * gradients), shown


def _beyond(traffic_s: FloatArray, block_s: FloatArray) -> FloatArray:
    """Return how much longer a message takes than the attention beside it."""
    return np.maximum(traffic_s - block_s, 0.0)


def _merge_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return what it takes to add each further block to the sums: a partial result is read, the sum read and written.

    Of the last rank, whose queries see an early chunk of every block: outputs forward; gradients of all queries and of
    half the keys backward.
    """
    outputs = designs.tokens(setup) * setup.model.value_width / designs.tp
    queries = designs.tokens(setup) * setup.model.score_width / designs.tp
    keys = designs.tokens(setup) * _kv_width(setup, designs)
    moved = (designs.cp - 1) * (ACTIVATION_BYTES + 2 * _sum_bytes(setup))
    moved = moved * (1.0 if setup.compiled else setup.stack.eager_traffic)
    return Pass(
        *(
            bytes_s(setup.device, moved * elements, setup.stack.elementwise_fraction)
            for elements in (outputs, queries + keys / 2)
        )
    )


def _sum_bytes(setup: TrainingSetup) -> float:
    return setup.stack.context_sum_bytes


# --- messages --------------------------------------------------------------------------------------------------


def _kv_width(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return elements of a token's keys and values on one rank: at least one head, or as many as of queries."""
    model = setup.model
    if setup.stack.repeats_keys:
        return np.asarray((model.score_width + model.value_width) / designs.tp)
    return np.asarray(model.kv_width / np.minimum(designs.tp, max(model.kv_heads, 1)))


def _passed_s(setup: TrainingSetup, designs: TrainingDesigns, element_bytes: float) -> FloatArray:
    """Return the send of one rank's keys and values, or of their gradients, to the next rank.

    One pair of ranks is joined by one link or one network card, and the slowest pair sets the pace of the ring.
    """
    size = element_bytes * designs.tokens(setup) * _kv_width(setup, designs)
    once = send_s(setup, designs.tp, designs.tp * designs.cp, size)
    return np.where(designs.cp > 1, once, 0.0)


def _gathered_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the gather of all keys and values; backward sends their gradients besides."""
    size = ACTIVATION_BYTES * designs.micro_batch * setup.sequence * _kv_width(setup, designs)
    return group_s(setup, "all_gather", designs.cp, designs.tp, size)


def _exchanged_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return queries, keys and values to the ranks of their heads, and outputs back to those of their tokens."""
    model, tokens = setup.model, designs.tokens(setup)
    there = ACTIVATION_BYTES * tokens * (model.score_width / designs.tp + _kv_width(setup, designs))
    back = ACTIVATION_BYTES * tokens * model.value_width / designs.tp
    return group_s(setup, "all_to_all", designs.cp, designs.tp, there) + group_s(
        setup, "all_to_all", designs.cp, designs.tp, back
    )
