"""Layers, tables and micro-batches of pipeline stages, and which stage is the fullest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.stacks import load_stack
from cosmic_opt.workloads.footprint import Footprint, footprint, layer_activation_bytes
from cosmic_opt.workloads.framework_memory import FrameworkJob
from cosmic_opt.workloads.language_model import Experts, LanguageModel
from cosmic_opt.workloads.stage_load import end_layers, first_layers, in_flight, loads, most_layers
from cosmic_opt.workloads.training_designs import TrainingDesigns


def model(layers: int, vocabulary: int = 64) -> LanguageModel:
    return LanguageModel(
        name="small", layers=layers, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocabulary=vocabulary
    )


def job(layers: int, vocabulary: int = 64) -> FrameworkJob:
    return FrameworkJob(model(layers, vocabulary), load_stack("megatron-te-2025"), sequence=16, global_batch=64)


def test_a_later_stage_keeps_one_micro_batch_less() -> None:
    designs = TrainingDesigns.of(pp=4)
    assert [in_flight(job(8), designs, stage) for stage in range(4)] == [4, 3, 2, 1]


def test_a_later_interleaved_stage_keeps_two_virtual_stages_less() -> None:
    """Warm-up of stage r: 2 (pp - r - 1) + (v - 1) pp virtual stages, and one more in the steady state."""
    designs = TrainingDesigns.of(pp=4, interleave=3)
    found = [3 * in_flight(job(24), designs, stage) for stage in range(4)]
    assert found == [pytest.approx(2 * (4 - r - 1) + 2 * 4 + 1) for r in range(4)]


def test_a_zero_bubble_schedule_keeps_what_1f1b_keeps_and_gpipe_all() -> None:
    plain, all_at_once, zero = (in_flight(job(8), TrainingDesigns.of(pp=4, schedule=each)) for each in (0, 1, 2))
    assert [float(each[0]) for each in (plain, all_at_once, zero)] == [4, 64, 4]


def test_one_stage_holds_everything() -> None:
    first, second, last = loads(model(6), job(6), TrainingDesigns.of())
    for stage in (first, second, last):
        assert stage.index == 0
    assert [float(each[0]) for each in (first.layers, first.tables, first.has_head)] == [6, 2, 1]


def test_where_the_first_stage_has_a_layer_less_the_second_is_fuller() -> None:
    """126 = 128 - 2: the second of sixteen stages holds 8 layers, the first 7 and the embedding."""
    long = LanguageModel(
        name="405b", layers=126, hidden=16384, heads=128, kv_heads=8, head_dim=128, ffn=53248, vocabulary=128256
    )
    work = FrameworkJob(long, load_stack("megatron-te-2025"), sequence=8192, global_batch=1024, sequence_parallel=True)
    found = footprint(work, TrainingDesigns.of(dp=8, tp=8, pp=16, interleave=8, zero_stage=1))
    assert found.stage == 1
    assert [float(each[0]) for each in end_layers(126, TrainingDesigns.of(pp=16, interleave=8))] == [7, 7]


def test_a_large_vocabulary_makes_the_last_stage_the_fullest() -> None:
    assert footprint(job(8, vocabulary=64), TrainingDesigns.of(pp=4)).stage == 0
    assert footprint(job(8, vocabulary=10**6), TrainingDesigns.of(pp=4)).stage == 3


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 4), st.sampled_from([16, 4096]))
def test_no_stage_in_between_is_fuller(layers_per_stage: int, pp: int, interleave: int, vocabulary: int) -> None:
    layers = layers_per_stage * pp * interleave
    designs = TrainingDesigns.of(pp=pp, interleave=interleave)
    work = job(layers, vocabulary)
    first, second, last = loads(work.model, work, designs)
    for stage in range(1, pp - 1):
        assert in_flight(work, designs, stage) * layers / pp <= second.in_flight * second.layers
    assert first.index[0] <= second.index[0] <= last.index[0] == pp - 1


# --- mixtures that begin with dense layers ---------------------------------------------------------------------

MIXTURE = LanguageModel(
    name="mixture",
    layers=61,
    hidden=64,
    heads=2,
    kv_heads=1,
    head_dim=32,
    ffn=0,
    vocabulary=64,
    experts=Experts(count=256, top_k=8, ffn=16, shared=1, dense_layers=3, dense_ffn=144),
)
DENSE = replace(MIXTURE, experts=None, ffn=144)


def mixed(**designs: int) -> Footprint:
    work = FrameworkJob(MIXTURE, load_stack("megatron-te-2025"), sequence=16, global_batch=64)
    return footprint(work, TrainingDesigns.of(**designs))


def test_one_stage_holds_expert_layers_and_dense_ones() -> None:
    stack, found = load_stack("megatron-te-2025"), mixed()
    expert = MIXTURE.attention_parameters + MIXTURE.dense_mlp_parameters + MIXTURE.expert_parameters
    dense = DENSE.attention_parameters + DENSE.dense_mlp_parameters
    held = 58 * expert + 3 * dense + 2 * MIXTURE.head_parameters
    assert held == MIXTURE.parameters()
    assert found.weights_bytes == 2 * held
    assert found.gradients_bytes == stack.held_gradient_bytes * held
    assert found.optimizer_bytes == stack.adam_bytes * held


def test_activations_are_those_of_each_kind_of_layer() -> None:
    stack = load_stack("megatron-te-2025")
    expert, dense = (
        layer_activation_bytes(FrameworkJob(each, stack, 16, 64), TrainingDesigns.of()) for each in (MIXTURE, DENSE)
    )
    assert mixed().layers_bytes == pytest.approx(58 * expert + 3 * dense)


def test_a_stage_of_experts_alone_is_fuller_than_the_first_stages() -> None:
    """61 layers over 64 slots: three of the first stage's four layers are dense, none of the second's is."""
    found = mixed(pp=16)
    expert = MIXTURE.attention_parameters + MIXTURE.dense_mlp_parameters + MIXTURE.expert_parameters
    assert found.stage == 1
    assert found.weights_bytes == 2 * 4 * expert


def test_dense_layers_on_three_stages_leave_the_fifth_the_fullest() -> None:
    """One layer a stage: the embedding's slot, three dense layers, then experts."""
    assert mixed(pp=64).stage == 4


@given(pp=st.integers(1, 8), interleave=st.integers(1, 4), layers=st.integers(1, 40), dense=st.integers(0, 12))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_no_stage_needs_more_than_the_fullest(pp: int, interleave: int, layers: int, dense: int) -> None:
    assert MIXTURE.experts is not None
    experts = replace(MIXTURE.experts, dense_layers=dense)
    own = replace(MIXTURE, layers=layers, experts=experts)
    designs = TrainingDesigns.of(pp=pp, interleave=interleave)
    work = FrameworkJob(own, load_stack("megatron-te-2025"), sequence=16, global_batch=64)
    expert = own.attention_parameters + own.dense_mlp_parameters + own.expert_parameters
    plain = DENSE.attention_parameters + DENSE.dense_mlp_parameters
    full, (first, last) = most_layers(layers, designs), end_layers(layers, designs)
    most = float(footprint(work, designs).total_bytes[0])
    for stage in range(pp):
        held = float((full if pp == 1 else first if stage == 0 else last if stage == pp - 1 else full)[0])
        few = float(first_layers(own, designs, np.array([float(stage)]))[0])
        states = 16 * ((held - few) * expert + few * plain)
        assert states <= most


def test_a_model_without_dense_layers_has_three_candidate_stages() -> None:
    assert len(loads(model(8), job(8), TrainingDesigns.of(pp=4))) == 3
