"""Stages of a served pipeline and what a rank of each holds, against a walk over layers and stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.workloads.kv_cache import (
    cache_capacity_bytes,
    read_bytes_per_token,
    resident_sequences,
    sequence_tokens,
    weight_bytes,
)
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.serving_designs import ServingDesigns
from cosmic_opt.workloads.serving_quantities import ServedModel, serving_memory
from cosmic_opt.workloads.serving_split import heaviest_stages, served_stage
from tests.unit.simulation.calibrated.jobs import DEEPSEEK
from tests.unit.simulation.calibrated.servers import LLAMA_8B, LLAMA_70B
from tests.unit.workloads.test_serving_quantities import served

PIPELINE = "deepseek-v3/h200-8-serving"


def dealt_out(layers: int, pp: int) -> list[list[int]]:
    """Return the layers of each stage: in order, one more to each of the first where they do not divide."""
    sizes = [layers // pp + (stage < layers % pp) for stage in range(pp)]
    return [list(range(sum(sizes[:stage]), sum(sizes[: stage + 1]))) for stage in range(pp)]


def walked(setup: ServedModel, *, tp: int, pp: int, ep: int) -> list[tuple[float, float, int]]:
    """Return (weights, room for the cache, layers) of a rank of every stage, layer by layer."""
    model, experts, memory = setup.model, setup.model.experts, setup.engine.memory
    found = []
    for stage, layers in enumerate(dealt_out(model.layers, pp)):
        weights = 0.0
        for layer in layers:
            dense = experts is not None and layer < experts.dense_layers
            one = replace(model, layers=1, experts=None, ffn=experts.dense_ffn) if dense and experts else model
            split = (one.attention_parameters + one.dense_mlp_parameters) / tp + one.expert_parameters / (tp * ep)
            weights += setup.numbers.weight_bytes * split
        ends = (stage == 0) + (stage == pp - 1)
        weights += 2 * (min(ends, 1) if model.tied_embeddings else ends) * model.head_parameters / tp
        free = setup.memory_bytes - memory.workspace_bytes - weights
        room = memory.share * free if memory.share_of_free else free - (1 - memory.share) * setup.memory_bytes
        found.append((weights, room, len(layers)))
    return found


def test_61_layers_on_eight_stages_hold_three_dense_ones_on_the_first() -> None:
    held = [served_stage(DEEPSEEK, ServingDesigns.of(pp=8), index) for index in range(8)]
    assert [int(each.layers[0]) for each in held] == [8, 8, 8, 8, 8, 7, 7, 7]
    assert [int(each.first_layers[0]) for each in held] == [3, 0, 0, 0, 0, 0, 0, 0]
    assert [int(each.has_table[0]) for each in held] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert [int(each.has_head[0]) for each in held] == [0, 0, 0, 0, 0, 0, 0, 1]


def test_a_dense_model_has_two_stages_that_may_be_the_heaviest_and_a_mixture_those_with_dense_layers_more() -> None:
    assert len(heaviest_stages(LLAMA_70B, ServingDesigns.of(pp=8))) == 2
    assert len(heaviest_stages(DEEPSEEK, ServingDesigns.of(pp=8))) == 5
    assert len(heaviest_stages(DEEPSEEK, ServingDesigns.of(pp=[1, 2]))) == 3


def test_the_second_stage_of_deepseek_holds_eight_layers_of_experts() -> None:
    setup = served(PIPELINE)
    model = setup.model
    layer = model.attention_parameters + model.dense_mlp_parameters + model.expert_parameters
    assert weight_bytes(setup, ServingDesigns.of(pp=8)) == 8 * layer
    assert 92e9 < 8 * layer < 92.1e9
    assert weight_bytes(setup, ServingDesigns.of()) == model.parameters() + 2 * model.head_parameters  # tables: 16 bits


def test_what_does_not_fit_on_the_second_stage_is_refused() -> None:
    """61.1 GB on the first of eight stages, 92.1 GB on the four after it: 80 GB are not enough."""
    problem = Problem.load(PIPELINE).set(memory_capacity="80 GB")
    values = {"dp": 1, "tp": 1, "pp": 8, "ep": 1, "batch": 1}
    design = problem.parameter_set.design({**problem.instance.baseline, **values})
    assert [rule.name for rule in problem.violations(design)] == ["fits"]
    enough = problem.set(memory_capacity="110 GB")
    assert enough.violations(enough.parameter_set.design({**enough.instance.baseline, **values})) == []


def test_the_stage_with_the_least_headroom_is_reported() -> None:
    """Five stages of 13, 12, 12, 12, 12 layers: the first has the larger cache, the second three expert layers more."""
    setup = served(PIPELINE)
    found = serving_memory(setup, ServingDesigns.of(pp=5, batch=768))
    assert found.weights_bytes / 1e9 == pytest.approx(139.94, abs=0.01)
    assert found.room_bytes / 1e9 == pytest.approx(6.13, abs=0.01)
    assert found.kv_cache_bytes / 1e9 == pytest.approx(10.95, abs=0.01)


DESIGNS = {"tp": st.sampled_from([1, 2, 8]), "pp": st.integers(1, 12), "ep": st.sampled_from([1, 4])}


@given(
    **DESIGNS,
    layers=st.integers(1, 40),
    dense=st.integers(0, 40),
    dense_ffn=st.sampled_from([64, 18432, 10**6]),
    tied=st.booleans(),
    capacity=st.sampled_from([24e9, 80e9, 300e9]),
    name=st.sampled_from([PIPELINE, "llama3-70b/h100-8-serving"]),
)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_fullest_stage_of_a_walk_over_all_of_them_decides_what_fits(
    *,
    tp: int,
    pp: int,
    ep: int,
    layers: int,
    dense: int,
    dense_ffn: int,
    tied: bool,
    capacity: float,
    name: str,
) -> None:
    assert DEEPSEEK.experts is not None
    experts = replace(DEEPSEEK.experts, dense_layers=dense, dense_ffn=dense_ffn)
    model = replace(DEEPSEEK, layers=layers, experts=experts, tied_embeddings=tied)
    setup = replace(served(name), model=model, memory_bytes=capacity)
    designs, stages = ServingDesigns.of(tp=tp, pp=pp, ep=ep, batch=64), walked(setup, tp=tp, pp=pp, ep=ep)
    assert weight_bytes(setup, designs) == pytest.approx(max(weights for weights, _, _ in stages))
    assert cache_capacity_bytes(setup, designs) == pytest.approx(min(room for _, room, _ in stages))
    per_layer = float(sequence_tokens(setup, 1000)) * float(read_bytes_per_token(setup, designs)[0])
    fit = min(max(room, 0.0) / (count * per_layer) for _, room, count in stages if count)
    if all(room > 0 for _, room, count in stages if not count):
        assert resident_sequences(setup, designs, 1000) == pytest.approx(fit * ep)
    found = serving_memory(setup, designs)
    cached = float(designs.sequences[0]) * float(
        sequence_tokens(setup, setup.requests.prompt + setup.engine.memory.output_share * setup.requests.output)
    )
    least = min(room - count * cached * float(read_bytes_per_token(setup, designs)[0]) for _, room, count in stages)
    assert found.room_bytes - found.kv_cache_bytes == pytest.approx(least, abs=2)


def test_no_design_holds_nothing() -> None:
    setup, none = served(PIPELINE), ServingDesigns.of(pp=[])
    assert weight_bytes(setup, none).size == resident_sequences(setup, none, 1000).size == 0
    assert serving_memory(setup, none).total_bytes.size == 0


@pytest.mark.parametrize("model", [LLAMA_8B, DEEPSEEK])
def test_stages_hold_every_layer_once_whatever_their_number(model: LanguageModel) -> None:
    for pp in (1, 2, 7, 61, 100):
        designs = ServingDesigns.of(pp=pp)
        held = [served_stage(model, designs, index) for index in range(pp)]
        assert sum(int(each.layers[0]) for each in held) == model.layers
        assert sum(int(each.first_layers[0]) for each in held) == (model.experts.dense_layers if model.experts else 0)
        assert np.sum([each.has_head + each.has_table for each in held]) == 2
