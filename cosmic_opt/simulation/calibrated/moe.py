"""Mixture of experts: grouped products, permutation, and dispatch over NVLink and between nodes."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.groups import group_s, ranks_in_node
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import Pass, accumulate_s
from cosmic_opt.simulation.calibrated.routing import places_of_a_token
from cosmic_opt.simulation.calibrated.shapes import ACTIVATION_BYTES
from cosmic_opt.system.hardware import bytes_s, grouped_gemm_s
from cosmic_opt.workloads.dispatch import hides_dispatch
from cosmic_opt.workloads.language_model import Experts

PERMUTE_BYTES = 4
PERMUTE_PASSES = 3
FUSED_PERMUTE_PASSES = 1
BACKWARD_PERMUTE = 4 / 3
"""Permute, unpermute and combine move k copies of each token: three passes forward, four backward; combine alone where
the dispatch writes tokens in expert order."""


def routed_tokens(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return token copies the experts of the busiest rank process: its tokens (1 / tp of them) times k."""
    assert setup.model.experts is not None
    return designs.tokens(setup) / designs.tp * setup.model.experts.top_k * designs.capacity


def experts_pass(setup: TrainingSetup, designs: TrainingDesigns, experts: Experts) -> Pass:
    """Return the grouped products of the routed experts: forward, input and weight gradients."""
    device, precision, share = setup.device, setup.recipe.precision, setup.recipe.matmul_share
    local = experts.count / designs.ep
    rows = routed_tokens(setup, designs) / local
    total = Pass.zero(designs)
    for matmul in setup.model.mlp_matmuls(experts.ffn):
        k, n = matmul.inputs, matmul.outputs
        forward = grouped_gemm_s(device, precision, rows, n, k, local, sustained=True)
        inputs = grouped_gemm_s(device, precision, rows, k, n, local, sustained=True)
        total += Pass(forward / share, inputs / share + forward / share + accumulate_s(setup, k * n * local))
    return total


def permute_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return permute, unpermute and combine over k copies of each token."""
    passes = FUSED_PERMUTE_PASSES if setup.fused_experts else PERMUTE_PASSES
    moved = passes * PERMUTE_BYTES * routed_tokens(setup, designs) * setup.model.hidden
    forward = bytes_s(setup.device, moved, setup.stack.elementwise_fraction)
    return Pass(forward, BACKWARD_PERMUTE * forward)


def output_bias_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return adding the biases of the experts' outputs, scaled by routing weights, outside of any fused kernel."""
    if not setup.model.mlp_biases or setup.fused_experts:
        return Pass.zero(designs)
    outputs = routed_tokens(setup, designs) * setup.model.hidden
    device, fraction = setup.device, setup.stack.elementwise_fraction
    return Pass(*(bytes_s(device, each * outputs, fraction) for each in setup.stack.expert_bias_bytes))


def expert_cast_pass(setup: TrainingSetup, designs: TrainingDesigns, experts: Experts) -> Pass:
    """Return the casts of routed activations and expert weights; see `layer.cast_pass`.

    A fused grouped product casts in its prologue and epilogue, so that only weights that are not kept cast are left.
    """
    rows, local = routed_tokens(setup, designs), experts.count / designs.ep
    forward, backward = np.zeros_like(rows), np.zeros_like(rows)
    for matmul in setup.model.mlp_matmuls(experts.ffn):
        if not setup.casts_weights_once:
            forward = forward + local * matmul.parameters
        if not setup.fused_experts:
            forward, backward = forward + rows * matmul.inputs, backward + rows * matmul.outputs
    moved = (setup.recipe.cast_bytes * elements for elements in (forward, backward))
    return Pass(*(bytes_s(setup.device, each, setup.stack.elementwise_fraction) for each in moved))


def dispatch_pass(setup: TrainingSetup, designs: TrainingDesigns, experts: Experts) -> Pass:
    """Return dispatch and combine, as much in backward; nothing where every rank holds all experts.

    Inside a node each of the k copies travels, or one to each rank that holds an expert of the token if the stack sends
    it so; between nodes a token travels once to each node that holds an expert of it (DeepSeek-V3, section 3.2.2).
    """
    inner = np.ones_like(designs.tp)  # expert groups take consecutive ranks
    local = ranks_in_node(setup, designs.ep, inner)
    nodes = np.ceil(designs.ep / local)
    tokens = designs.tokens(setup) / designs.tp
    copies = places_of_a_token(experts, designs.ep) if setup.stack.sends_once_per_rank else experts.top_k
    size = ACTIVATION_BYTES * tokens * copies * designs.capacity * setup.model.hidden
    inside = group_s(setup, "all_to_all", local, inner, size)
    beyond = places_of_a_token(experts, nodes) * (nodes - 1) / nodes
    remote = ACTIVATION_BYTES * tokens * beyond * designs.capacity * setup.model.hidden
    fabric = setup.device.fabric
    assert fabric is not None
    across = np.where(
        nodes > 1,
        fabric.inter_node_s + remote / (setup.nic_bytes_per_s * fabric.nic_efficiency),
        0.0,
    )
    once = 2 * (inside + across)
    return Pass(once, once)


def dispatch_exposed(setup: TrainingSetup, designs: TrainingDesigns, dispatch: Pass, compute: Pass) -> Pass:
    """Return what of the dispatch is seen: an interleaved schedule hides it behind another micro-batch's compute.

    A share stays exposed, and so does what is longer than the compute it hides behind.
    """
    overlap, hides = setup.stack.overlap, hides_dispatch(setup.model, setup.stack, designs)

    def seen(traffic_s: FloatArray, compute_s: FloatArray) -> FloatArray:
        beyond = traffic_s - overlap.hidden_window * compute_s
        return np.where(hides, np.maximum(overlap.dispatch_exposed * traffic_s, beyond), traffic_s)

    return Pass(seen(dispatch.forward_s, compute.forward_s), seen(dispatch.backward_s, compute.backward_s))
