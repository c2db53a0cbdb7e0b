"""One pass of `tokens` tokens through a layer of a served model: products, experts, small kernels, collectives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.narrowing import narrowing
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.simulation.calibrated.serving_stages import Parts, first_layers_setup
from cosmic_opt.simulation.calibrated.shapes import (
    ACTIVATION_BYTES,
    CLAMPED_GATE_KERNELS,
    gate_bytes,
    inputs_outputs,
)
from cosmic_opt.system.hardware import bytes_s, collective_s, gemm_s, grouped_gemm_s, operand_bytes
from cosmic_opt.system.hardware.gemm import smooth_max
from cosmic_opt.workloads.language_model import Experts

LOGIT_BYTES = 4
HEAD_PRECISION = "bf16"


def model_parts(
    setup: ServingSetup,
    designs: ServingDesigns,
    tokens: FloatArray,
    routed: FloatArray,
    attention_s: FloatArray,
    head: FloatArray,
) -> Parts:
    """Return each kind of layer over `tokens` tokens, with its attention of `attention_s` seconds, and the head."""
    first = first_layers_setup(setup)
    layer, dense = (
        None if each is None else layer_terms(each, designs, tokens, routed) | {"attention": attention_s}
        for each in (setup, first)
    )
    assert layer is not None, "the server itself"
    return Parts(layer, dense, head)


def layer_terms(setup: ServingSetup, designs: ServingDesigns, tokens: FloatArray, routed: FloatArray) -> Terms:
    """Return seconds of one layer over `tokens` tokens of a tp group, attention's core left out.

    `routed` is the tokens of all ep groups, which share the experts. Products run at the rate a long run keeps.
    """
    model = setup.model
    matmuls = model.attention_matmuls
    if model.experts is None:
        matmuls += model.mlp_matmuls(model.ffn)
    elif model.experts.shared:
        matmuls += model.mlp_matmuls(model.experts.shared * model.experts.ffn)
    products = np.zeros_like(tokens)
    for each in matmuls:
        inputs, outputs = inputs_outputs(each, designs.tp)
        products = products + linear_s(setup, tokens, outputs, inputs)
    narrowed = narrowing(setup, designs, matmuls)
    kernels = setup.engine.layer_kernels + len(matmuls) + narrowed.kernels
    if model.clamped_gate and not setup.engine.fused_clamped_gate:
        kernels += CLAMPED_GATE_KERNELS - 1
    terms: Terms = {"matmul": products}
    if model.experts is not None:
        terms["experts"] = experts_s(setup, designs, routed)
        terms["dispatch"] = dispatch_s(setup, designs, model.experts, tokens)
        kernels += len(model.mlp_matmuls(model.experts.ffn))
    moving = elementwise_bytes(setup, designs, tokens) + tokens * narrowed.token_bytes
    moved = bytes_s(setup.device, moving, setup.engine.elementwise_fraction)
    terms["kernels"] = kernels * setup.engine.kernel_s + moved
    terms["tensor_parallel"] = reductions(setup) * tensor_s(setup, designs, tokens)
    return terms


def linear_s(setup: ServingSetup, tokens: FloatArray, outputs: FloatArray, inputs: FloatArray) -> FloatArray:
    """Return seconds of a product with stored weights: arithmetic and traffic meet in a smooth roofline.

    Weights narrower than the arithmetic are widened on the way, at the engine's own share of the memory's rate. What a
    block waits for its inputs in turn adds (`Engine.product_depth_s`).
    """
    simple, numbers = setup.device.gemm.simple, setup.numbers
    depth = setup.engine.product_depth_s.get(numbers.compute, 0.0) * inputs
    compute = gemm_s(setup.compute_device, numbers.compute, tokens, outputs, inputs, sustained=True)
    traffic_s = _traffic_s(setup, outputs * inputs, tokens * inputs, tokens * outputs)
    return np.asarray(simple.launch_s + depth + smooth_max(compute - simple.launch_s, traffic_s, simple.knee))


def _traffic_s(setup: ServingSetup, weights: FloatArray, read: FloatArray, written: FloatArray) -> FloatArray:
    """Return seconds to move a product's operands, counted in elements."""
    numbers, bandwidth = setup.numbers, setup.device.memory_bytes_per_s
    fraction = setup.device.gemm.simple.memory_fraction
    narrow = numbers.weight_bytes < operand_bytes(numbers.compute)
    weight_fraction = setup.engine.weight_only_fraction if narrow else fraction
    activations = operand_bytes(numbers.compute) * read + ACTIVATION_BYTES * written
    return np.asarray(
        numbers.weight_bytes * weights / (weight_fraction * bandwidth) + activations / (fraction * bandwidth)
    )


def elementwise_bytes(setup: ServingSetup, designs: ServingDesigns, tokens: FloatArray) -> FloatArray:
    """Return bytes of the small kernels of one layer: two norms with residuals, rotation and cache write, activation.

    Each kernel reads its inputs and writes its outputs in 16 bits; norms and residuals are whole on each tp rank. A
    clamped gate is a chain of kernels where the engine has no fused one.
    """
    model = setup.model
    norms = (1 if setup.parallel_block else 2) * 8 * model.hidden
    ffn = model.ffn
    if model.experts is not None:
        ffn = model.experts.top_k * model.experts.ffn + model.experts.shared * model.experts.ffn
    gate = gate_bytes(model, fused=setup.engine.fused_clamped_gate)
    split = 4 * (model.score_width + model.kv_width) + gate * ffn
    return np.asarray(tokens * (norms + split / designs.tp))


def reductions(setup: ServingSetup) -> int:
    """Return all-reduces of a layer: after attention and after the MLP, or one for a parallel block."""
    return 1 if setup.parallel_block else 2


def tensor_s(setup: ServingSetup, designs: ServingDesigns, tokens: FloatArray) -> FloatArray:
    """Return seconds of one all-reduce over tp of the activations of `tokens` tokens."""
    if np.all(designs.tp == 1):
        return np.zeros_like(designs.tp)
    size = ACTIVATION_BYTES * tokens * setup.model.hidden
    domain, nic = setup.domain, setup.nic_bytes_per_s
    return collective_s(setup.device, "all_reduce", designs.tp, size, domain=domain, nic_bytes_per_s=nic)


def experts_touched(experts: Experts, tokens: FloatArray) -> FloatArray:
    """Return the expected number of experts at least one of `tokens` balanced tokens visits: E (1 - (1 - k/E)^T)."""
    return np.asarray(experts.count * (1 - (1 - experts.top_k / experts.count) ** tokens))


def busiest_rank_experts(experts: Experts, ranks: FloatArray, tokens: FloatArray) -> FloatArray:
    """Return the experts touched on the rank of `ranks` that has most of them.

    Mean plus the expected largest of `ranks` normal deviates (Blom 1958: the (n - 3/8) / (n + 1/4) quantile).
    """
    from scipy.special import ndtri  # exact answers need not wait for it to load

    share = experts_touched(experts, tokens) / experts.count
    local = experts.count / ranks
    deviation = np.sqrt(local * share * (1 - share) * (1 - 1 / ranks))
    largest = np.maximum(ndtri((ranks - 0.375) / (ranks + 0.25)), 0.0)
    return np.asarray(np.minimum(local, local * share + largest * deviation))


def experts_s(setup: ServingSetup, designs: ServingDesigns, routed: FloatArray) -> FloatArray:
    """Return seconds of the routed experts on the busiest rank; only experts that tokens visit are read.

    Each expert is split over tp inside its ep group.
    """
    experts = setup.model.experts
    assert experts is not None, "the caller asks only mixtures of experts"
    simple, precision = setup.device.gemm.simple, setup.numbers.compute
    touched = busiest_rank_experts(experts, designs.ep, routed)
    rows = routed * experts.top_k / np.maximum(experts_touched(experts, routed), 1.0)
    total = np.zeros_like(routed)
    for matmul in setup.model.mlp_matmuls(experts.ffn):
        k, n = inputs_outputs(matmul, designs.tp)
        compute = grouped_gemm_s(setup.compute_device, precision, rows, n, k, touched, sustained=True)
        traffic = _traffic_s(setup, touched * n * k, touched * rows * k, touched * rows * n)
        total = total + simple.launch_s + smooth_max(compute - simple.launch_s, traffic, simple.knee)
    return total


def dispatch_s(setup: ServingSetup, designs: ServingDesigns, experts: Experts, tokens: FloatArray) -> FloatArray:
    """Return seconds of dispatch and combine between ep groups: k copies of each token there and back."""
    if np.all(designs.ep == 1):
        return np.zeros_like(tokens)
    size = ACTIVATION_BYTES * tokens * experts.top_k * setup.model.hidden / designs.tp
    local = np.clip(np.floor(setup.domain / designs.tp), 1, designs.ep)
    nic = setup.nic_bytes_per_s
    once = collective_s(
        setup.device, "all_to_all", designs.ep, size, domain=setup.domain, nic_bytes_per_s=nic, gpus_per_node=local
    )
    return np.asarray(2 * once)


def head_s(setup: ServingSetup, designs: ServingDesigns, sequences: FloatArray) -> FloatArray:
    """Return seconds of the logits of one token per sequence, in 16 bits, and of reading them once to sample."""
    vocabulary = setup.model.vocabulary / designs.tp
    hidden = np.full_like(designs.tp, setup.model.hidden)
    product = gemm_s(setup.device, HEAD_PRECISION, sequences, vocabulary, hidden, sustained=True)
    sampling = bytes_s(setup.device, LOGIT_BYTES * sequences * vocabulary, setup.engine.elementwise_fraction)
    return np.asarray(product + sampling)


def message_s(setup: ServingSetup, size: FloatArray, *, inside: NDArray[np.bool_] | bool) -> FloatArray:
    """Return seconds of a message of `size` bytes between two ranks, `inside` a scale-up domain or across.

    The links of the domain carry it inside, a network card across.

    Raises:
        SpecError: the device has no fabric.
    """
    return collective_s(
        setup.device,
        "send",
        np.full_like(size, 2.0),
        size,
        domain=setup.domain,
        nic_bytes_per_s=setup.nic_bytes_per_s,
        gpus_per_node=np.where(inside, 2.0, 1.0),
    )


def stage_send_s(setup: ServingSetup, designs: ServingDesigns, tokens: FloatArray) -> FloatArray:
    """Return seconds of handing the activations from each pipeline stage to the next; 0 without a pipeline."""
    if np.all(designs.pp == 1):
        return np.zeros_like(designs.tp)
    size = ACTIVATION_BYTES * tokens * setup.model.hidden
    once = message_s(setup, size, inside=designs.replica_gpus <= setup.domain)
    return np.asarray((designs.pp - 1) * once)
