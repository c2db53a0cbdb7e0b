"""One transformer layer on one rank: seconds of its forward and of its backward pass by class of work.

Classes: `matmul`, `attention`, `elementwise`, `casts`. Communication and host time are added by `step`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.shapes import ACTIVATION_BYTES, gate_bytes, inputs_outputs
from cosmic_opt.system.hardware import (
    attention_backward_s,
    attention_prefill_s,
    bytes_s,
    gemm_s,
    scores_s,
    weighted_values_s,
)
from cosmic_opt.workloads.language_model import Matmul

ALIGNED_ELEMENTS = 8
"""Rows of 16-bit elements start at multiples of 16 bytes if their length is a multiple of it (NVIDIA, Matrix
Multiplication Background, section 3)."""
UNALIGNED_SHARE = 0.5
"""Rate of products with other rows over the usual one, from GPT-2's logits: padding 50,257 columns to 50,304 makes a
step of 124M parameters 25 % faster, and they are a quarter of it (nanoGPT, February 2023)."""
BACKWARD_TRAFFIC = 1.4
"""Elementwise traffic of backward over forward: gradients in and out, saved inputs read."""
SOFTMAX_BYTES = (3, 4)
"""Bytes per attention score, forward and backward: whole rows are written, and only their causal half is read
(scaled_upper_triang_masked_softmax.h in Megatron-LM)."""
DROPOUT_BYTES = (5, 6)
"""Bytes per attention score, forward and backward, of dropout on the full square."""
FUSED_SOFTMAX_ROWS, FUSED_SOFTMAX_TOKENS = 4, 2048
"""The fused softmax needs so whole a multiple of (batch x heads of a rank), and sequences no longer than that
(`is_kernel_available` in Megatron-LM's fused_softmax.py)."""
SEPARATE_SOFTMAX_BYTES = (37, 40)
"""Without it: cast to fp32 (6), scale (8), mask (9), softmax (8), cast back (6); backward 6, 12, 8, 8, 6."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Seconds of one class of work, forward and backward."""

    forward_s: FloatArray
    backward_s: FloatArray

    def __add__(self, other: Pass) -> Pass:
        return Pass(self.forward_s + other.forward_s, self.backward_s + other.backward_s)

    def __sub__(self, other: Pass) -> Pass:
        return Pass(self.forward_s - other.forward_s, self.backward_s - other.backward_s)

    def times(self, count: FloatArray | float) -> Pass:
        """Return `count` times as much."""
        return Pass(self.forward_s * count, self.backward_s * count)

    @property
    def both_s(self) -> FloatArray:
        """Forward and backward."""
        return self.forward_s + self.backward_s

    def take(self, index: NDArray[np.intp]) -> Pass:
        """Return the entries at `index`."""
        return Pass(self.forward_s[index], self.backward_s[index])

    @classmethod
    def zero(cls, designs: TrainingDesigns) -> Pass:
        """Return no time at all."""
        return cls(np.zeros_like(designs.tp), np.zeros_like(designs.tp))


def product_pass(setup: TrainingSetup, precision: str, tokens: FloatArray, k: FloatArray, n: FloatArray) -> Pass:
    """Return a linear map of `tokens` rows: forward, then input and weight gradients.

    The weight gradient is accumulated over micro-batches in memory.
    """
    device, share = setup.sustained_device, setup.recipe.matmul_share if precision == setup.recipe.precision else 1.0
    aligned = (k % ALIGNED_ELEMENTS == 0) & (n % ALIGNED_ELEMENTS == 0)
    rows = np.broadcast_to(tokens, k.shape)
    sizes = (np.stack(axis) for axis in ((rows, rows, k), (n, k, n), (k, n, rows)))
    forward, inputs, weights = gemm_s(device, precision, *sizes, form="tile")
    slower = 1 / (share * np.where(aligned, 1.0, UNALIGNED_SHARE))
    return Pass(slower * forward, slower * (inputs + weights) + accumulate_s(setup, k * n))


def accumulate_s(setup: TrainingSetup, elements: FloatArray) -> FloatArray:
    """Return seconds of adding the weight gradient of a micro-batch to the held one: its read and write.

    The product writes into the held gradient, so the 2 bytes it would write anyway are not counted again.
    """
    moved = (2 * setup.stack.held_gradient_bytes - ACTIVATION_BYTES) * elements
    return bytes_s(setup.device, moved, setup.stack.elementwise_fraction)


def matmul_pass(setup: TrainingSetup, designs: TrainingDesigns, matmuls: tuple[Matmul, ...]) -> Pass:
    """Return the linear maps `matmuls` of one layer at their true shapes."""
    if not matmuls:
        return Pass.zero(designs)
    shapes = [inputs_outputs(matmul, designs.tp) for matmul in matmuls]
    k, n = (np.stack([shape[side] for shape in shapes]) for side in (0, 1))
    each = product_pass(setup, setup.recipe.precision, designs.tokens(setup), k, n)
    return Pass(each.forward_s.sum(axis=0), each.backward_s.sum(axis=0))


def attention_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return the attention core by the stack's kernel generation, always in 16 bits.

    Where keys are gathered and sequences cut in order, the last rank attends to nearly all of them, (2 cp - 1) / cp
    times its share; ranks that hold whole sequences of some heads (`all_to_all`) all do the same.
    """
    if setup.stack.attention.kind == "unfused":
        return _unfused_attention(setup, designs)
    uneven = setup.attention_schedule == "ring" and setup.exchange != "all_to_all"
    slowest = (2 * designs.cp - 1) / designs.cp if uneven else 1.0
    return flash_pass(setup, designs, designs.micro_batch / designs.cp, setup.sequence).times(slowest)


def flash_pass(
    setup: TrainingSetup,
    designs: TrainingDesigns,
    sequences: FloatArray,
    tokens: FloatArray | float,
    *,
    causal: bool = True,
) -> Pass:
    """Return fused attention of one rank's heads over `tokens` tokens, and as many keys, of each of `sequences`."""
    model, kernel = setup.model, setup.stack.attention
    heads = model.heads / designs.tp
    kv_heads = heads if setup.stack.repeats_keys else np.maximum(model.kv_heads / designs.tp, 1)
    dim = (model.score_width + model.value_width) / (2 * model.heads)
    fraction = kernel.fraction_on(setup.device.board)
    shape = (sequences, tokens, heads, kv_heads, dim)
    forward = attention_prefill_s(setup.device, "bf16", *shape, causal=causal, efficiency=fraction, writes_cache=False)
    return Pass(forward, attention_backward_s(setup.device, "bf16", *shape, causal=causal, efficiency=fraction))


def _unfused_attention(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return batched products over the full square, softmax and dropout (Shoeybi 2019): no causal saving.

    Forward writes the scores once and reads them once; backward writes their gradient and reads scores or gradient in
    three more products.
    """
    device, model = setup.sustained_device, setup.model
    batch, heads = designs.micro_batch / designs.cp, model.heads / designs.tp
    shape = (batch, setup.sequence, setup.sequence, heads)
    written = scores_s(device, "fp16", *shape, model.score_width / model.heads)
    read = weighted_values_s(device, "fp16", *shape, model.value_width / model.heads)
    scores = batch * heads * setup.sequence**2
    softmax = zip(SOFTMAX_BYTES, SEPARATE_SOFTMAX_BYTES, strict=True)
    fused = softmax_is_fused(setup, designs)
    each_score = [np.where(fused, together, apart) for together, apart in softmax]
    traffic = [s + (d if model.dropout else 0) for s, d in zip(each_score, DROPOUT_BYTES, strict=True)]
    forward, backward = (bytes_s(device, each * scores, setup.stack.elementwise_fraction) for each in traffic)
    return Pass(written + read + forward, written + 3 * read + backward)


def softmax_is_fused(setup: TrainingSetup, designs: TrainingDesigns) -> NDArray[np.bool_]:
    """Return where scale, mask and softmax are one kernel: always in flash attention."""
    if setup.stack.attention.kind != "unfused":
        return np.ones(designs.tp.shape, dtype=bool)
    rows = designs.micro_batch * setup.model.heads / designs.tp
    return np.asarray((rows % FUSED_SOFTMAX_ROWS == 0) & (setup.sequence <= FUSED_SOFTMAX_TOKENS))


def activation_bytes(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray | float:
    """Return bytes a token's activation moves forward, whole on all tp ranks: 4 per element, 6 with a gate.

    Fused experts activate inside their products. A clamped gate is a chain of separate kernels.
    """
    model, experts = setup.model, setup.model.experts
    gate = gate_bytes(model)
    if experts is None:
        return gate * model.ffn
    inside = setup.fused_experts and not model.clamped_gate
    routed = 0.0 if inside else experts.top_k * experts.ffn * designs.capacity
    return gate * (routed + experts.shared * experts.ffn)


def elementwise_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return norms, residuals, activation and rotary or transposes of one layer.

    Bytes per token forward: 2 norms of 4 h, 2 residuals of 6 h (7 with a dropout mask), the activation, 4 per element
    of queries and keys (12 h of transposes around unfused attention), and where key heads are repeated 2 more per
    element of both copies: what is written beyond the keys, and the values read. Norms and residuals divide by tp only
    with sequence parallelism (Korthikanti 2022).
    """
    model, stack = setup.model, setup.stack
    whole: FloatArray | float = (2 * 4 + 2 * (7 if model.dropout else 6)) * model.hidden
    if setup.sequence_parallel:
        whole = whole / designs.tp
    inside = activation_bytes(setup, designs)
    if stack.attention.kind == "unfused":
        inside = inside + 12 * model.hidden
    else:
        inside = inside + 4 * (model.score_width + model.kv_width / 2)
        if stack.repeats_keys and model.kv_heads < model.heads:
            inside = inside + 2 * (model.score_width + model.value_width)
    moved = designs.tokens(setup) * (whole + inside / designs.tp) * (1.0 if setup.compiled else stack.eager_traffic)
    forward = bytes_s(setup.device, moved, stack.elementwise_fraction)
    return Pass(forward, BACKWARD_TRAFFIC * forward)


def cast_pass(setup: TrainingSetup, designs: TrainingDesigns, matmuls: tuple[Matmul, ...]) -> Pass:
    """Return the casts of activations, weights and gradients to the product's precision.

    Forward casts each input element, and each weight that is not kept cast, and stores both orientations; backward
    casts the output gradient.
    """
    forward, backward = np.zeros_like(designs.tp), np.zeros_like(designs.tp)
    if setup.recipe.cast_bytes:
        tokens = designs.tokens(setup)
        for matmul in matmuls:
            k, n = inputs_outputs(matmul, designs.tp)
            forward = forward + tokens * k + (0.0 if setup.casts_weights_once else k * n)
            backward = backward + tokens * n
    moved = (setup.recipe.cast_bytes * elements for elements in (forward, backward))
    return Pass(*(bytes_s(setup.device, each, setup.stack.elementwise_fraction) for each in moved))


def head_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return logits (three products in 16 bits) and the loss over a vocabulary split over tp."""
    model = setup.model
    precision = "fp16" if setup.recipe.precision == "fp16" else "bf16"
    tokens, vocabulary = designs.tokens(setup), rank_vocabulary(setup, designs)
    hidden = np.full_like(designs.tp, model.hidden)
    products = product_pass(setup, precision, tokens, hidden, vocabulary)
    loss = bytes_s(setup.device, setup.stack.loss_bytes * tokens * vocabulary, setup.stack.elementwise_fraction)
    return products + Pass(loss / 2, loss / 2)


def rank_vocabulary(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the logits of one rank: whole shares of aligned rows; as given where nothing splits or pads it."""
    size = setup.model.vocabulary
    padded = np.ceil(size / (designs.tp * ALIGNED_ELEMENTS)) * ALIGNED_ELEMENTS
    return np.where((designs.tp > 1) | setup.stack.pads_vocabulary, padded, float(size))


def embedding_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return the look-up and its gradient: each token's row is read and written once, and scattered back."""
    moved = 2 * ACTIVATION_BYTES * designs.tokens(setup) * setup.model.hidden
    forward = bytes_s(setup.device, moved, setup.stack.elementwise_fraction)
    return Pass(forward, 2 * forward)
