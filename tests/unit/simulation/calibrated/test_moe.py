"""Mixture of experts: routed rows, dispatch, fused kernels."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.job import TrainingDesigns
from cosmic_opt.simulation.calibrated.layer import Pass, activation_bytes
from cosmic_opt.simulation.calibrated.moe import (
    dispatch_exposed,
    dispatch_pass,
    expert_cast_pass,
    experts_pass,
    output_bias_pass,
    permute_pass,
    routed_tokens,
)
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.footprint import expert_copies, layer_activation_bytes, layer_parameters
from cosmic_opt.workloads.training_designs import Recompute
from tests.unit.simulation.calibrated.jobs import QWEN_30B, setup

JOB = setup(QWEN_30B)
EXPERTS = QWEN_30B.experts
assert EXPERTS is not None


def test_each_token_visits_k_experts_and_tp_ranks_share_them() -> None:
    assert routed_tokens(JOB, TrainingDesigns.of(tp=2)) == 4096 * 8 / 2


def test_capacity_pads_the_routed_rows() -> None:
    padded = TrainingDesigns.of(capacity=1.5)
    assert routed_tokens(JOB, padded) == 1.5 * 4096 * 8
    assert experts_pass(JOB, padded, EXPERTS).forward_s > experts_pass(JOB, TrainingDesigns.of(), EXPERTS).forward_s
    kept, more = (layer_activation_bytes(JOB, each) for each in (TrainingDesigns.of(), padded))
    assert more - kept == pytest.approx(0.5 * 4096 * 8 * ((2 + 2) * 2048 + 768 * 6))


def test_ranks_that_hold_all_experts_dispatch_nothing() -> None:
    assert dispatch_pass(JOB, TrainingDesigns.of(dp=8), EXPERTS).both_s == 0


def test_dispatch_within_the_node_is_faster_than_between_nodes() -> None:
    inside, beyond = (dispatch_pass(JOB, TrainingDesigns.of(dp=64, ep=ep), EXPERTS).forward_s for ep in (8, 64))
    assert beyond > 2 * inside


def test_padded_or_uneven_routing_lengthens_dispatch_inside_and_between_nodes_alike() -> None:
    plain, padded = (TrainingDesigns.of(dp=128, ep=128, capacity=capacity) for capacity in (1.0, 2.0))
    long = replace(JOB, sequence=2**20)
    ratio = dispatch_pass(long, padded, EXPERTS).forward_s / dispatch_pass(long, plain, EXPERTS).forward_s
    assert ratio == pytest.approx(2, rel=0.01)


def test_fewer_groups_never_add_traffic() -> None:
    designs = TrainingDesigns.of(dp=128, ep=128)
    times = [
        dispatch_pass(JOB, designs, replace(EXPERTS, groups=8, group_top_k=chosen)).forward_s for chosen in (1, 2, 4, 8)
    ]
    assert times == sorted(times)
    assert times[0] < times[-1] <= dispatch_pass(JOB, designs, EXPERTS).forward_s


def test_a_token_is_sent_once_to_a_rank_where_the_stack_does_so() -> None:
    """Of eight ranks the eight experts of a token lie on 5.37, so of eight copies so many travel."""
    every = setup(QWEN_30B, stack="torchtitan-2025")
    once = replace(every, stack=replace(every.stack, sends_once_per_rank=True))
    designs = TrainingDesigns.of(dp=8, ep=8)
    long, short = (dispatch_pass(replace(each, sequence=2**20), designs, EXPERTS).forward_s for each in (every, once))
    assert short / long == pytest.approx(
        1 - comb(112, 8) / comb(128, 8), rel=0.01
    )  # bandwidth alone: latency is nothing here
    assert JOB.stack.sends_once_per_rank


def test_expert_weights_are_held_by_dp_cp_tp_over_ep_ranks() -> None:
    designs = TrainingDesigns.of(dp=16, tp=2, cp=2, ep=8)
    assert expert_copies(designs) == 16 * 2 * 2 / 8
    assert layer_parameters(JOB.model, designs)[1] == 128 * 3 * 2048 * 768 / 8


def test_permutation_moves_k_copies_three_times_and_once_when_fused() -> None:
    rate = 0.62 * JOB.device.memory_bytes_per_s
    plain = permute_pass(JOB, TrainingDesigns.of())
    assert plain.forward_s == pytest.approx(3 * 4 * 4096 * 8 * 2048 / rate)
    fused = permute_pass(setup(QWEN_30B, stack="megatron-te-2026", recipe="mxfp8"), TrainingDesigns.of())
    assert fused.forward_s == pytest.approx(plain.forward_s / 3)


def test_biases_of_routed_outputs_are_added_in_separate_kernels_unless_experts_are_fused() -> None:
    biased = replace(QWEN_30B, mlp_biases=True)
    own = setup(biased)
    added = output_bias_pass(own, TrainingDesigns.of())
    outputs, rate = 4096 * 8 * 2048, 0.62 * own.device.memory_bytes_per_s
    assert added.forward_s == pytest.approx(28 * outputs / rate)
    assert added.backward_s == pytest.approx(40 * outputs / rate)
    assert output_bias_pass(JOB, TrainingDesigns.of()).both_s == 0
    fused = setup(biased, stack="megatron-te-2026", recipe="mxfp8")
    assert output_bias_pass(fused, TrainingDesigns.of()).both_s == 0
    assert output_bias_pass(setup(biased, stack="torchtitan-2025"), TrainingDesigns.of()).both_s == 0


def test_fused_experts_exist_for_block_scaled_recipes_only() -> None:
    block, tensor = (setup(QWEN_30B, stack="megatron-te-2026", recipe=name) for name in ("mxfp8", "fp8"))
    assert (block.fused_experts, tensor.fused_experts) == (True, False)
    old = setup(QWEN_30B, recipe="mxfp8")
    designs = TrainingDesigns.of(dp=8, ep=8)
    assert expert_cast_pass(block, designs, EXPERTS).both_s < expert_cast_pass(old, designs, EXPERTS).both_s
    assert step_time(block, designs).step_s < step_time(old, designs).step_s


def test_a_clamped_gate_costs_its_chain_of_kernels_even_where_experts_are_fused() -> None:
    clamped = replace(QWEN_30B, clamped_gate=True)
    assert activation_bytes(JOB, TrainingDesigns.of()) == 6 * 8 * 768
    assert activation_bytes(setup(clamped), TrainingDesigns.of()) == 52 * 8 * 768
    fused = {"stack": "megatron-te-2026", "recipe": "mxfp8"}
    assert activation_bytes(setup(QWEN_30B, **fused), TrainingDesigns.of()) == 0
    assert activation_bytes(setup(clamped, **fused), TrainingDesigns.of()) == 52 * 8 * 768


def test_an_interleaved_schedule_hides_dispatch_up_to_the_compute_beside_it() -> None:
    ten, hundred = (Pass(np.full(1, each), np.full(1, each)) for each in (10.0, 100.0))
    plain, many = TrainingDesigns.of(), TrainingDesigns.of(ep=2, pp=2, interleave=2)
    assert dispatch_exposed(JOB, plain, ten, hundred).forward_s == 10
    assert dispatch_exposed(JOB, many, ten, hundred).forward_s == pytest.approx(0.2 * 10)
    assert dispatch_exposed(JOB, many, hundred, ten).backward_s == pytest.approx(100 - 0.9 * 10)


@pytest.mark.parametrize("layers", [0.25, 1.0])
def test_dispatch_is_not_hidden_where_layers_run_again_whole(layers: float) -> None:
    traffic, compute = Pass(np.full(1, 10.0), np.full(1, 10.0)), Pass(np.full(1, 100.0), np.full(1, 100.0))
    many = TrainingDesigns.of(ep=2, pp=2, interleave=2).with_recompute(Recompute.of(np.full(1, layers)))
    assert dispatch_exposed(JOB, many, traffic, compute).both_s == 20


@pytest.mark.parametrize(("ahead", "seen_s"), [(0, 2.0), (1, 2.0), (2, 10.0)])
def test_dispatch_is_not_hidden_beside_several_layers_of_multi_token_prediction(ahead: int, seen_s: float) -> None:
    traffic, compute = Pass(np.full(1, 10.0), np.full(1, 10.0)), Pass(np.full(1, 100.0), np.full(1, 100.0))
    job = replace(JOB, model=replace(JOB.model, mtp_layers=ahead))
    found = dispatch_exposed(job, TrainingDesigns.of(ep=2, pp=2, interleave=2), traffic, compute)
    assert found.forward_s == pytest.approx(seen_s)


def test_passes_add() -> None:
    one = Pass(np.ones(1), 2 * np.ones(1))
    assert (one + one).both_s == 6
