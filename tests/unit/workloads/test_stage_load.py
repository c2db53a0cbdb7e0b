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
from cosmic_opt.workloads.stage_load import end_layers, first_layers, in_flight, loads, stage_layers
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


def test_one_more_virtual_stage_runs_early_where_dispatch_hides() -> None:
    """Warm-up as above and one more, at most all micro-batches; a plain schedule has none."""
    designs = TrainingDesigns.of(pp=4, interleave=3)
    more = [3 * (in_flight(job(24), designs, stage, True) - in_flight(job(24), designs, stage)) for stage in range(4)]
    assert more == [pytest.approx(1)] * 4
    assert in_flight(job(8), TrainingDesigns.of(pp=4), 0, True) == 4
    few = replace(job(24), global_batch=4)
    assert in_flight(few, designs, 0, True) == 4


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


# --- every stage, slot by slot ---------------------------------------------------------------------------------


def slot_by_slot(layers: int, pp: int, interleave: int) -> list[list[int]]:
    """Return the layers on each stage, dealt out slot after slot, virtual stage after virtual stage."""
    each = -(-layers // (pp * interleave))
    empty = each * pp * interleave - layers
    held: list[list[int]] = [[] for _ in range(pp)]
    for slot in range(each * pp * interleave):
        if empty // 2 <= slot < empty // 2 + layers:
            held[slot // each % pp].append(slot - empty // 2)
    return held


SHAPES = {"pp": st.integers(1, 16), "interleave": st.integers(1, 6), "layers": st.integers(1, 130)}


@given(**SHAPES, dense=st.integers(0, 130))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_layers_lie_where_dealing_them_out_slot_by_slot_puts_them(
    pp: int, interleave: int, layers: int, dense: int
) -> None:
    assert MIXTURE.experts is not None
    own = replace(MIXTURE, layers=layers, experts=replace(MIXTURE.experts, dense_layers=dense))
    designs, held = TrainingDesigns.of(pp=pp, interleave=interleave), slot_by_slot(layers, pp, interleave)
    for index, slots in enumerate(held):
        stage = np.array([float(index)])
        assert stage_layers(layers, designs, stage) == len(slots)
        assert first_layers(own, designs, stage) == sum(layer < dense for layer in slots)
    assert [float(each[0]) for each in end_layers(layers, designs)] == [len(held[0]), len(held[-1])]


def test_of_three_empty_slots_of_one_layer_the_second_last_stage_has_one() -> None:
    """61 layers on 16 stages of four virtual ones: slots 0, 62 and 63 are empty."""
    designs = TrainingDesigns.of(pp=16, interleave=4)
    assert [float(stage_layers(61, designs, np.array([each]))[0]) for each in (0.0, 1.0, 13.0, 14.0, 15.0)] == [
        *(3, 4, 4, 3, 3)
    ]
    assert [float(each.layers[0]) for each in loads(model(61), job(61), designs)] == [3, 4, 3]


def footprint_slot_by_slot(own: LanguageModel, designs: dict[str, int]) -> float:
    """Return the most bytes of states and activations of any stage: 16-bit Megatron without sharding."""
    assert own.experts is not None
    work = FrameworkJob(own, load_stack("megatron-te-2025"), sequence=16, global_batch=64)
    one = TrainingDesigns.of(**designs)
    plain = replace(own, experts=None, ffn=own.experts.dense_ffn)
    parameters = [each.attention_parameters + each.dense_mlp_parameters for each in (own, plain)]
    parameters[0] += own.expert_parameters
    kept = [float(layer_activation_bytes(replace(work, model=each), one)[0]) for each in (own, plain)]
    state_bytes = 2 + work.stack.held_gradient_bytes + work.stack.adam_bytes
    logits = 6 * 16 * own.vocabulary
    found = []
    for stage, held in enumerate(slot_by_slot(own.layers, designs["pp"], designs["interleave"])):
        kinds = [int(layer < own.experts.dense_layers) for layer in held]
        last = stage == designs["pp"] - 1
        tables = (stage == 0) + last
        states = sum(parameters[kind] for kind in kinds) + tables * own.head_parameters
        flight = float(in_flight(work, one, np.array([float(stage)]))[0])
        found.append(state_bytes * states + flight * sum(kept[kind] for kind in kinds) + last * logits)
    return max(found)


@given(**SHAPES, dense=st.integers(0, 12), vocabulary=st.sampled_from([64, 4096]))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_fullest_stage_is_that_of_a_walk_over_all_of_them(
    pp: int, interleave: int, layers: int, dense: int, vocabulary: int
) -> None:
    assert MIXTURE.experts is not None
    experts = replace(MIXTURE.experts, dense_layers=dense)
    own = replace(MIXTURE, layers=layers, experts=experts, vocabulary=vocabulary)
    designs = {"pp": pp, "interleave": interleave}
    work = FrameworkJob(own, load_stack("megatron-te-2025"), sequence=16, global_batch=64)
    found = footprint(work, TrainingDesigns.of(**designs))
    assert found.states_bytes + found.activations_bytes == pytest.approx(footprint_slot_by_slot(own, designs))


def test_no_design_has_no_stages_to_fill() -> None:
    for own in (model(8), MIXTURE):
        work = FrameworkJob(own, load_stack("megatron-te-2025"), sequence=16, global_batch=64)
        assert footprint(work, TrainingDesigns.of(pp=[])).total_bytes.size == 0


def test_a_model_without_dense_layers_has_three_candidate_stages() -> None:
    assert len(loads(model(8), job(8), TrainingDesigns.of(pp=4))) == 3
