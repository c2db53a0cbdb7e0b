"""Bytes per GPU, against published formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns
from cosmic_opt.simulation.calibrated.memory import (
    FILLED_SHARE,
    first_stage_states_bytes,
    implied_recompute,
    published_activation_bytes,
    published_states_bytes,
)
from cosmic_opt.workloads.dispatch import hides_dispatch
from cosmic_opt.workloads.footprint import WORKSPACE_BYTES, footprint, layer_activation_bytes
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stage_load import in_flight
from cosmic_opt.workloads.training_designs import named_recompute
from tests.unit.simulation.calibrated.jobs import GPT_175B, LLAMA_8B, QWEN_30B, setup

GIB = 2**30
GPT_JOB = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", sequence=2048)


def test_published_states_of_gpt3_on_64_gpus() -> None:
    assert published_states_bytes(GPT_175B, tp=8, pp=8) / GIB == pytest.approx(45.57, abs=0.01)


def test_the_true_first_stage_also_holds_the_embedding() -> None:
    more = first_stage_states_bytes(GPT_175B, 8, 8) - published_states_bytes(GPT_175B, 8, 8)
    assert more == 18 * 51200 * 12288 / 8


def test_published_activations_with_interleaving() -> None:
    found = published_activation_bytes(
        GPT_175B, 2048, 1, tp=8, pp=8, interleave=3, selective=True, sequence_parallel=True
    )
    assert found == 2048 * 12288 * 34 / 8 * 12 * 8 * (1 + 7 / 24)


def test_activations_of_one_layer_are_34_sbh_plus_scores() -> None:
    found = layer_activation_bytes(GPT_JOB, TrainingDesigns.of())
    assert found == pytest.approx(2048 * 12288 * (34 + 5 * 96 * 2048 / 12288))


def test_1f1b_keeps_as_many_micro_batches_as_stages_and_gpipe_all() -> None:
    designs = TrainingDesigns.of(pp=4)
    assert in_flight(setup(global_batch=64), designs) == 4
    assert in_flight(setup(global_batch=2), designs) == 2
    assert in_flight(setup(global_batch=64), TrainingDesigns.of(pp=4, schedule=1)) == 64


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_more_sharding_never_needs_more(zero: int) -> None:
    less, more = (footprint(setup(), TrainingDesigns.of(dp=64, zero_stage=z)).states_bytes for z in (zero - 1, zero))
    assert more <= less


def test_full_sharding_divides_all_states() -> None:
    job = setup(stack="torchtitan-2025")
    states = footprint(job, TrainingDesigns.of(dp=64, zero_stage=3)).states_bytes
    parameters = 32 * LLAMA_8B.attention_parameters + 32 * LLAMA_8B.dense_mlp_parameters + 2 * LLAMA_8B.head_parameters
    layer = LLAMA_8B.attention_parameters + LLAMA_8B.dense_mlp_parameters
    whole = 2 * 3 * layer  # the running layer, the next, and a gradient, in 16 bits
    assert states == pytest.approx(18 * parameters / 64 + whole)


def test_weights_that_stay_after_forward_are_held_whole() -> None:
    job = setup(stack="torchtitan-2025")
    freed, kept, late = (
        footprint(job, TrainingDesigns.of(dp=64, zero_stage=3, reshard=reshard, prefetch=prefetch)).weights_bytes
        for reshard, prefetch in ((1, 1), (0, 1), (1, 0))
    )
    layer = LLAMA_8B.attention_parameters + LLAMA_8B.dense_mlp_parameters
    assert kept - freed == pytest.approx(2 * 30 * layer)
    assert freed - late == pytest.approx(2 * layer)
    alone = footprint(job, TrainingDesigns.of(zero_stage=3)).weights_bytes
    assert alone == 2 * LLAMA_8B.parameters()


def test_recompute_is_implied_only_where_memory_is_short() -> None:
    roomy = implied_recompute(setup(), TrainingDesigns.of(dp=64, zero_stage=3))
    assert (roomy.layers, roomy.elementwise) == (0, 0)
    short = TrainingDesigns.of(dp=64, zero_stage=3, micro_batch=3)
    tight = implied_recompute(setup(sequence=8192, global_batch=192), short)
    assert 0 < tight.layers <= 1
    assert tight.elementwise == 1


def test_implied_recompute_makes_the_design_fit() -> None:
    job = setup(sequence=8192, global_batch=192)
    designs = TrainingDesigns.of(dp=64, zero_stage=3, micro_batch=3)
    unknown = replace(job, device=replace(job.device, installed_bytes=job.device.memory_bytes))
    for each, filled in (
        (job, FILLED_SHARE * job.device.installed_bytes),
        (unknown, job.device.memory_bytes),  # no driver's figure is known: the data sheet's
    ):
        again = implied_recompute(each, designs)
        assert footprint(each, designs.with_recompute(again)).total_bytes == pytest.approx(filled)


def test_full_recompute_keeps_the_inputs_of_layers_only() -> None:
    full = footprint(GPT_JOB, TrainingDesigns.of(tp=8, pp=8, recompute=Recompute.of(1.0)))
    assert full.activations_bytes == 12 * 8 * 2 * 2048 * 12288
    assert full.total_bytes == full.states_bytes + full.activations_bytes + WORKSPACE_BYTES


def test_selective_recompute_drops_the_scores_that_were_counted_and_no_more() -> None:
    """Llama 3 70B, unfused, no dropout, tp 8: 8 h s whole + (4 heads d + 4 kv d + 6 ffn) s / 8 = 750.8 MB."""
    llama = replace(LLAMA_8B, layers=80, hidden=8192, heads=64, ffn=28672, dropout=False)
    job = setup(llama, stack="megatron-2021", device="a100-80", sequence=8192, global_batch=1)
    none = TrainingDesigns.of(tp=8)
    again = named_recompute(np.array("selective"), job.stack.selective)
    selective, full = none.with_recompute(again), none.with_recompute(Recompute.of(1.0))
    kept = footprint(job, selective).layers_bytes / llama.layers
    assert kept == 8192 * (8 * 8192 + (4 * 8192 + 4 * 1024 + 6 * 28672) / 8) == pytest.approx(750.8e6, rel=1e-4)
    assert footprint(job, none).layers_bytes / llama.layers - kept == 2 * 64 * 8192**2 / 8
    assert footprint(job, full).layers_bytes / llama.layers == 2 * 8192 * 8192


def test_with_dropout_selective_recompute_leaves_34_sbh() -> None:
    designs = TrainingDesigns.of(recompute=named_recompute(np.array("selective"), "attention"))
    assert footprint(GPT_JOB, designs).layers_bytes == pytest.approx(96 * 34 * 2048 * 12288)


@pytest.mark.parametrize("model", [LLAMA_8B, QWEN_30B])
def test_hybrid_sharding_divides_states_by_the_shard_group_only(model: LanguageModel) -> None:
    job = setup(model, stack="torchtitan-2025")
    hybrid, small, full = (
        footprint(job, TrainingDesigns.of(dp=dp, zero_stage=3, shard_replicas=copies))
        for dp, copies in ((64, 8), (8, 1), (64, 1))
    )
    for part in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
        assert getattr(hybrid, part) == pytest.approx(getattr(small, part))
        assert getattr(hybrid, part) > getattr(full, part)
    assert hybrid.activations_bytes == full.activations_bytes


def test_more_copies_than_ranks_share_nothing() -> None:
    job = setup(stack="torchtitan-2025")
    two, many = (footprint(job, TrainingDesigns.of(dp=2, zero_stage=3, shard_replicas=n)) for n in (2, 1000))
    assert two.total_bytes == many.total_bytes


def test_repeated_keys_are_kept_once_for_each_query_head() -> None:
    plain = setup(stack="torchtitan-2025")
    grouped = replace(plain, stack=replace(plain.stack, repeats_keys=False))
    kept, less = (layer_activation_bytes(each, TrainingDesigns.of(tp=2)) for each in (plain, grouped))
    assert kept - less == pytest.approx(2 * 4096 * 2 * (32 - 8) * 128 / 2)


def test_the_fullest_of_very_many_stages_is_found() -> None:
    """96 stages of 20 virtual ones for 96 layers: most slots are empty, and every stage is a candidate."""
    few, many = (footprint(GPT_JOB, TrainingDesigns.of(pp=96, interleave=n, dp=[1, 2])) for n in (1, 20))
    assert (few.stage == 0).all()
    assert (many.total_bytes > 0).all()


def test_where_dispatch_hides_operators_run_again_and_dispatch_does_not() -> None:
    """Layers that run again whole rule hiding out: what memory implies must not undo what the design does."""
    designs = TrainingDesigns.of(dp=8, pp=[2, 2], ep=8, interleave=[1, 4])
    job = setup(QWEN_30B, sequence=32768)
    board = footprint(job, designs.with_recompute(Recompute.of(np.zeros(2), elementwise=1))).total_bytes.min() * 0.8
    small = replace(job, device=replace(job.device, memory_bytes=board, installed_bytes=board))
    found = implied_recompute(small, designs)
    assert found.layers[0] > 0 == found.layers[1]
    assert found.matmul[1] == found.attention[1] == found.collectives[1] > 0 == found.matmul[0]
    assert np.all(found.elementwise == 1)
    assert hides_dispatch(QWEN_30B, small.stack, designs.with_recompute(found)).tolist() == [False, True]
