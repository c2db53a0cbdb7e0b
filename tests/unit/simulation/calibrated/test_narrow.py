"""Narrow operands: the power their products have, casts of weights, and collectives without user buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.simulation.calibrated.communication import tensor_pass
from cosmic_opt.simulation.calibrated.data_parallel import weight_casts_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns
from cosmic_opt.simulation.calibrated.layer import cast_pass, product_pass
from cosmic_opt.simulation.calibrated.moe import expert_cast_pass
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.footprint import layer_parameters
from cosmic_opt.workloads.language_model import Matmul
from cosmic_opt.workloads.stack import default_tensor_mode
from tests.unit.simulation.calibrated.jobs import LLAMA_8B, LLAMA_405B, QWEN_30B, setup

ONE = TrainingDesigns.of()
SIDE = 16384.0


def square_s(device: str, recipe: str) -> float:
    """Return seconds of a large square product, forward."""
    job = setup(device=device, recipe=recipe)
    side = np.array([SIDE])
    return float(product_pass(job, job.recipe.precision, side, side, side).forward_s[0])


@pytest.mark.parametrize(("recipe", "bits"), [("bf16", 16), ("fp8", 8), ("nvfp4", 4)])
def test_large_products_of_a_step_run_at_what_the_board_s_power_feeds(recipe: str, bits: int) -> None:
    # 1000 W less 240 W, at 0.0385 pJ for each bit; starting and draining tiles cost a few per cent
    fed = (1000 - 240) / (0.0385e-12 * bits)
    assert 1.0 < square_s("b200", recipe) / (2 * SIDE**3 / fed) < 1.1


def test_boards_whose_energy_is_not_known_keep_their_sustained_rate() -> None:
    rate = 1979e12 * 0.795 * 0.89
    assert 1.0 < square_s("h100-sxm", "fp8") / (2 * SIDE**3 / rate) < 1.1


def test_block_scales_cost_a_twenty_fifth_of_the_rate() -> None:
    assert square_s("b200", "fp8") / square_s("b200", "mxfp8") == pytest.approx(0.96)


def test_weights_are_cast_for_each_micro_batch_only_where_products_need_a_transposed_copy() -> None:
    maps = (Matmul("square", 4096, 4096, "outputs"),)
    tokens_only = setup(device="b200", recipe="fp8")
    both = setup(device="h100-sxm", recipe="fp8")
    for job, elements in ((tokens_only, 4096**2), (both, 2 * 4096**2)):
        rate = 0.62 * job.device.memory_bytes_per_s
        assert cast_pass(job, ONE, maps).forward_s == pytest.approx(4 * elements / rate)


def test_a_stack_that_keeps_no_cast_weights_casts_them_for_each_micro_batch() -> None:
    job = setup(device="b200", recipe="fp8-cs", stack="torchtitan-2025")
    assert not job.casts_weights_once
    assert weight_casts_s(job, ONE) == 0


def test_casting_weights_once_costs_their_bytes_once_a_step() -> None:
    job = setup(device="b200", recipe="fp8")
    weights = LLAMA_8B.layers * layer_parameters(LLAMA_8B, ONE)[0]
    expected = 4 * weights / (0.62 * job.device.memory_bytes_per_s)
    assert weight_casts_s(job, ONE) == pytest.approx(expected)
    few, many = (
        float(step_time(replace(job, global_batch=batch), ONE).terms["casts"][0]) - float(expected[0])
        for batch in (8, 16)
    )
    assert many == pytest.approx(2 * few)


def test_fused_experts_cast_nothing_but_weights_that_are_not_kept() -> None:
    experts = QWEN_30B.experts
    assert experts is not None
    on_b200, on_h100 = (
        setup(QWEN_30B, stack="megatron-te-2026", recipe="mxfp8", device=d) for d in ("b200", "h100-sxm")
    )
    assert expert_cast_pass(on_b200, ONE, experts).both_s == 0
    assert expert_cast_pass(on_h100, ONE, experts).both_s > 0


def test_sixteen_bits_cast_nothing() -> None:
    assert weight_casts_s(setup(device="b200"), ONE) == 0
    assert step_time(setup(device="b200"), ONE).terms["casts"] == 0


def test_nvfp4_exposes_its_collectives_unless_the_job_says_how_they_overlap() -> None:
    stack = load_stack("megatron-te-2025")
    assert default_tensor_mode(stack, load_recipe("nvfp4"), sequence_parallel=True, latent=False) == "none"
    assert default_tensor_mode(stack, load_recipe("mxfp8"), sequence_parallel=True, latent=False) == "user_buffer"
    assert default_tensor_mode(stack, load_recipe("mxfp8"), sequence_parallel=True, latent=True) == "none"
    assert default_tensor_mode(stack, load_recipe("mxfp8"), sequence_parallel=False, latent=False) == "none"
    assert (
        default_tensor_mode(load_stack("torchtitan-2025"), load_recipe("nvfp4"), sequence_parallel=True, latent=False)
        == "none"
    )
    tp4 = TrainingDesigns.of(tp=4)
    plain, told, bare = (
        tensor_pass(setup(LLAMA_405B, device="gb200", recipe="nvfp4", tensor_mode=mode), tp4).forward_s
        for mode in (None, "user_buffer", "none")
    )
    assert plain == bare
    assert told == pytest.approx(0.5 * bare)


def test_four_bits_gather_half_a_byte_and_a_scale() -> None:
    assert load_recipe("nvfp4").gather_bytes == 0.5 + 1 / 16
