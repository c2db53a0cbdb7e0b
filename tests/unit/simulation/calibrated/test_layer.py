"""Classes of work of one layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.host import paced_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns
from cosmic_opt.simulation.calibrated.layer import (
    accumulate_s,
    attention_pass,
    cast_pass,
    elementwise_pass,
    head_pass,
    matmul_pass,
    product_pass,
    rank_vocabulary,
    softmax_is_fused,
)
from cosmic_opt.workloads.language_model import Matmul
from tests.unit.simulation.calibrated.jobs import GPT_175B, LLAMA_8B, setup

ONE = TrainingDesigns.of()


def test_matmuls_run_near_the_sustained_rate() -> None:
    job = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", sequence=2048)
    maps = GPT_175B.attention_matmuls + GPT_175B.mlp_matmuls(GPT_175B.ffn)
    forward = matmul_pass(job, ONE, maps).forward_s
    flops = 2 * 2048 * GPT_175B.hidden**2 * 12
    assert flops / 312e12 / 0.87 < forward < 1.15 * flops / 312e12 / 0.87


def test_backward_matmuls_cost_twice_the_forward_and_the_accumulation() -> None:
    work = matmul_pass(setup(), ONE, LLAMA_8B.mlp_matmuls(LLAMA_8B.ffn))
    assert 2 * work.forward_s < work.backward_s < 2.4 * work.forward_s


def test_elementwise_traffic_of_gpt_is_22_h_whole_and_28_h_split() -> None:
    job = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", sequence=2048)
    tp4 = TrainingDesigns.of(tp=4)
    moved = 2048 * GPT_175B.hidden * (22 + (16 + 12) / 4)
    expected = moved / (0.78 * job.device.memory_bytes_per_s)
    assert elementwise_pass(job, tp4).forward_s == pytest.approx(expected)


def test_sequence_parallelism_splits_norms_too() -> None:
    tp8 = TrainingDesigns.of(tp=8)
    whole = elementwise_pass(setup(), tp8).forward_s
    split = elementwise_pass(setup(sequence_parallel=True), tp8).forward_s
    assert split == pytest.approx(elementwise_pass(setup(), ONE).forward_s / 8)
    assert split < whole


def test_casts_read_two_bytes_and_write_two_orientations() -> None:
    job = setup(recipe="fp8")
    maps = (Matmul("square", 4096, 4096, "outputs"),)
    rate = 0.62 * job.device.memory_bytes_per_s
    work = cast_pass(job, ONE, maps)
    assert work.forward_s == pytest.approx(4 * 2 * 4096 * 4096 / rate)
    assert work.backward_s == pytest.approx(4 * 4096 * 4096 / rate)
    assert cast_pass(setup(), ONE, maps).forward_s == 0


def test_a_ring_makes_the_last_rank_do_more() -> None:
    cp4 = TrainingDesigns.of(cp=4)
    balanced, ring = (attention_pass(setup(context_schedule=each), cp4) for each in ("balanced", "ring"))
    assert ring.forward_s == pytest.approx(7 / 4 * balanced.forward_s)


def test_an_old_attention_kernel_is_slower_on_the_same_device() -> None:
    newest, first = (attention_pass(setup(stack=name), ONE) for name in ("megatron-te-2025", "fsdp-2023"))
    assert first.forward_s > 2 * newest.forward_s


def test_unfused_attention_grows_with_the_full_square() -> None:
    short, long = (
        attention_pass(setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", sequence=s), ONE)
        for s in (1024, 2048)
    )
    assert 3.8 < long.forward_s / short.forward_s < 4


def test_the_softmax_is_one_kernel_for_every_fourth_number_of_rows_and_short_sequences() -> None:
    gpt = {"stack": "megatron-2021", "recipe": "fp16", "device": "a100-80"}
    designs = TrainingDesigns.of(tp=[1, 16, 32, 32, 48], micro_batch=[1, 1, 1, 4, 2])  # 96, 6, 3, 12 and 4 rows
    assert list(softmax_is_fused(setup(GPT_175B, sequence=2048, **gpt), designs)) == [True, False, False, True, True]
    assert not softmax_is_fused(setup(GPT_175B, sequence=4096, **gpt), designs).any()
    assert softmax_is_fused(setup(), designs).all()


def test_a_softmax_of_separate_kernels_moves_34_and_36_bytes_a_score_more() -> None:
    job = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", sequence=2048)
    thirds, quarters = (attention_pass(job, TrainingDesigns.of(tp=tp, micro_batch=2)) for tp in (32, 48))
    scores, rate = 2 * 2048**2, 0.78 * job.device.memory_bytes_per_s
    assert thirds.forward_s - quarters.forward_s * 1.5 == pytest.approx(34 * 3 * scores / rate, rel=0.05)
    assert thirds.backward_s - quarters.backward_s * 1.5 == pytest.approx(36 * 3 * scores / rate, rel=0.05)


@pytest.mark.parametrize(("stack", "moved"), [("megatron-2021", 6), ("megatron-te-2025", 2)])
def test_adding_a_gradient_reads_and_writes_the_held_one(stack: str, moved: int) -> None:
    job = setup(stack=stack)
    rate = job.stack.elementwise_fraction * job.device.memory_bytes_per_s
    assert accumulate_s(job, np.array([1e9])) == pytest.approx(moved * 1e9 / rate)


def test_head_costs_three_products_and_the_loss() -> None:
    job = setup()
    flops = 6 * 4096 * LLAMA_8B.hidden * LLAMA_8B.vocabulary
    loss = 16 * 4096 * LLAMA_8B.vocabulary / (0.62 * job.device.memory_bytes_per_s)
    head = head_pass(job, ONE)
    at_peak = flops / job.device.peak("bf16")
    assert at_peak + loss < head.both_s < 1.5 * at_peak + loss + 1e-3


def test_a_vocabulary_is_padded_where_it_is_split_or_the_stack_pads_it() -> None:
    gpt2 = replace(LLAMA_8B, vocabulary=50257)
    split = TrainingDesigns.of(tp=[1, 2, 8])
    assert list(rank_vocabulary(setup(gpt2, stack="fsdp-2023"), split)) == [50257, 25136, 6288]
    assert list(rank_vocabulary(setup(gpt2, stack="megatron-te-2025"), split)) == [50264, 25136, 6288]


def test_rows_that_are_not_aligned_halve_the_rate_of_a_product() -> None:
    rows, sizes = np.array([4096.0]), (50256.0, 50257.0)
    for shape in ((lambda size: (rows, np.array([size]))), (lambda size: (np.array([size]), rows))):
        padded, given = (product_pass(setup(), "bf16", rows, *shape(size)) for size in sizes)
        assert given.forward_s == pytest.approx(2 * padded.forward_s, rel=1e-3)


def test_the_slower_of_device_and_host_sets_the_pace() -> None:
    three, one = np.array([3.0]), np.array([1.0])
    assert paced_s(three, one) == pytest.approx(244**0.2)
    assert paced_s(one, three) == pytest.approx(244**0.2)
    assert paced_s(one, np.zeros(1)) == 1
    assert paced_s(np.zeros(1), np.zeros(1)) == pytest.approx(0)
