"""Layers, tables and micro-batches of pipeline stages, and which stage is the fullest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.stacks import load_stack
from cosmic_opt.workloads.footprint import footprint
from cosmic_opt.workloads.framework_memory import FrameworkJob
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stage_load import end_layers, in_flight, loads
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
