"""Stages of a served pipeline, against sums worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import batch_terms, prefill_busy_s, steady_state, total_s
from cosmic_opt.simulation.calibrated.serving_layer import head_s, layer_terms
from cosmic_opt.simulation.calibrated.serving_stages import Parts, longest_stage, whole_model
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_designs import ServingDesigns
from tests.unit.simulation.calibrated.jobs import DEEPSEEK
from tests.unit.simulation.calibrated.servers import LLAMA_8B, LLAMA_70B, MIXTRAL, server

OVERLAPPED = "tensorrt-llm-2025"


def parts(layer_s: float = 1.0, head_s: float = 0.0, first_s: float | None = None) -> Parts:
    first = None if first_s is None else {"matmul": np.array([first_s])}
    return Parts({"matmul": np.array([layer_s])}, first, np.array([head_s]))


def longest(model: LanguageModel, pp: int, found: Parts) -> tuple[float, float, float]:
    held = longest_stage(server(model), ServingDesigns.of(pp=pp), found)
    return float(held.layers[0]), float(held.first_layers[0]), float(held.heads[0])


@pytest.mark.parametrize(
    ("pp", "head_s", "held"),
    [
        (1, 0.5, (80, 0, 1)),
        (4, 0.0, (20, 0, 0)),
        (4, 0.5, (20, 0, 1)),  # equal stages: the one with the head is the slowest
        (3, 0.5, (27, 0, 0)),  # 27, 27, 26: a head of half a layer hides
        (3, 1.5, (26, 0, 1)),
        (7, 0.0, (12, 0, 0)),  # 12, 12, 12, 11, 11, 11, 11
        (80, 0.0, (1, 0, 0)),
        (100, 0.0, (1, 0, 0)),  # more stages than layers
    ],
)
def test_the_slowest_stage_of_80_layers(pp: int, head_s: float, held: tuple[float, float, float]) -> None:
    assert longest(LLAMA_70B, pp, parts(head_s=head_s)) == held


@pytest.mark.parametrize(
    ("pp", "first_s", "held"),
    [
        (1, 0.5, (61, 3, 0 + 1)),
        (2, 0.5, (30, 0, 1)),  # 28 + 3 / 2 on the first, 30 on the last
        (2, 0.9, (31, 3, 0)),
        (8, 0.5, (8, 0, 0)),  # 8, 8, 8, 8, 8, 7, 7, 7: the second
        (61, 5.0, (1, 1, 0)),
    ],
)
def test_the_slowest_stage_of_a_mixture_that_begins_with_dense_layers(
    pp: int, first_s: float, held: tuple[float, float, float]
) -> None:
    assert longest(DEEPSEEK, pp, parts(head_s=0.1, first_s=first_s)) == held


@given(
    pp=st.integers(1, 12),
    layers=st.integers(1, 70),
    dense=st.integers(0, 70),
    times=st.tuples(*[st.floats(0.01, 10)] * 3),
)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_slowest_stage_is_at_least_the_mean_and_at_most_all(
    pp: int, layers: int, dense: int, times: tuple[float, float, float]
) -> None:
    assert DEEPSEEK.experts is not None
    experts = replace(DEEPSEEK.experts, dense_layers=dense)
    job, designs = server(replace(DEEPSEEK, layers=layers, experts=experts)), ServingDesigns.of(pp=pp)
    found = parts(times[0], times[1], times[2] if dense else None)
    whole = float(total_s(found.terms(whole_model(job, designs)))[0])
    slowest = float(total_s(found.terms(longest_stage(job, designs, found)))[0])
    assert whole / pp * (1 - 1e-12) <= slowest <= whole * (1 + 1e-12)


def test_a_step_of_overlapping_stages_is_so_many_times_the_slowest() -> None:
    job, designs = server(LLAMA_70B, engine=OVERLAPPED), ServingDesigns.of(pp=3, batch=48)
    layer = layer_terms(job, designs, np.array([16.0]), np.array([16.0]))
    found = decode_terms(job, designs, 1000)
    assert found["matmul"] == pytest.approx(3 * 26 * layer["matmul"])  # the head is longer than the 27th layer
    assert found["head"] == pytest.approx(3 * head_s(job, designs, np.array([16.0])))


@pytest.mark.parametrize(("pp", "batch"), [(8, 1), (7, 1), (8, 3), (80, 2)])
def test_fewer_sequences_than_stages_pass_every_layer_and_one_head_in_a_step(pp: int, batch: int) -> None:
    job, designs, one = server(LLAMA_70B, engine=OVERLAPPED), ServingDesigns.of(pp=pp, batch=batch), np.ones(1)
    found, layer = decode_terms(job, designs, 1000), layer_terms(job, designs, one, one)
    assert found["matmul"] == pytest.approx(80 * layer["matmul"])
    assert found["head"] == pytest.approx(head_s(job, designs, one))


def test_so_many_sequences_that_the_slowest_stage_is_never_idle_set_the_pace() -> None:
    """Seven of eight micro-batches: seven times ten layers and a head are longer than eighty layers and a head."""
    job, one = server(LLAMA_70B, engine=OVERLAPPED), np.ones(1)
    designs = [ServingDesigns.of(pp=8, batch=batch) for batch in (6, 7, 8)]
    layer, head = layer_terms(job, designs[0], one, one), head_s(job, designs[0], one)
    attention = decode_terms(job, designs[0], 1000)["attention"] / 80
    layer_s = total_s(layer) + attention
    expected = [max(80 * layer_s + head, count * (10 * layer_s + head)) for count in (6, 7, 8)]
    for each, step_s in zip(designs, expected, strict=True):
        terms = decode_terms(job, each, 1000)
        assert total_s(terms) - terms["sends"] - terms["host"] == pytest.approx(step_s)


def test_a_step_is_charged_for_no_micro_batch_without_sequences() -> None:
    """5 sequences on 4 stages are micro-batches of 2, 2 and 1: the slowest stage works for three, not for four."""
    job, pairs = server(LLAMA_70B, engine=OVERLAPPED), np.array([2.0])
    designs = ServingDesigns.of(pp=4, batch=5)
    layer, head = layer_terms(job, designs, pairs, pairs), head_s(job, designs, pairs)
    found = decode_terms(job, designs, 1000)
    layer_s = total_s(layer) + found["attention"] * layer["matmul"] / found["matmul"]
    expected = max(80 * layer_s + head, 3 * (20 * layer_s + head))
    assert total_s(found) - found["sends"] - found["host"] == pytest.approx(expected)


@given(pp=st.integers(1, 12), batch=st.integers(1, 60))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_slowest_stage_works_for_as_many_micro_batches_as_a_count_makes(pp: int, batch: int) -> None:
    job, designs = server(LLAMA_70B, engine=OVERLAPPED), ServingDesigns.of(pp=pp, batch=batch)
    size = min(each for each in range(1, batch + 1) if each * pp >= batch)
    count = len(range(0, batch, size))
    layer = layer_terms(job, designs, np.array([float(size)]), np.array([-(-batch // count) * 1.0]))
    layers = decode_terms(job, designs, 1000)["matmul"] / layer["matmul"]
    assert min(abs(layers - each) for each in (80, *(count * held for held in (80 // pp, -(-80 // pp))))) < 1e-6


@given(pp=st.integers(1, 12), batch=st.integers(1, 40), ep=st.sampled_from([1, 2, 8]))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_step_is_no_shorter_than_one_micro_batch_through_all_stages(pp: int, batch: int, ep: int) -> None:
    """Nor than the step of one sequence a group, on any engine."""
    job = server(DEEPSEEK, engine=OVERLAPPED)
    designs = ServingDesigns.of(pp=pp, ep=ep, batch=batch)
    step_s = total_s(decode_terms(job, designs, 1000))
    assert step_s >= total_s(decode_terms(job, designs.with_batch(1), 1000)) * (1 - 1e-12)


@pytest.mark.parametrize("engine", ["vllm", OVERLAPPED])
@pytest.mark.parametrize("pp", [1, 2, 7, 8])
def test_a_lone_answer_takes_as_long_in_the_steady_state_as_alone(engine: str, pp: int) -> None:
    job, designs, requests = server(engine=engine), ServingDesigns.of(pp=pp), Requests(1000, 200)
    state = steady_state(job, designs, requests)
    assert state.batch == 1
    assert total_s(state.terms) == pytest.approx(total_s(batch_terms(job, designs, requests)))


def test_many_prompts_keep_the_slowest_stage_busy_in_the_steady_state() -> None:
    job, requests = server(LLAMA_70B, engine=OVERLAPPED), Requests(1000, 200)
    designs = ServingDesigns.of(pp=4, tp=2, batch=64)
    state = steady_state(job, designs, requests)
    assert state.batch == 64
    assert state.terms["prefill"] == pytest.approx(prefill_busy_s(job, designs, requests))


def test_a_batch_that_passes_stage_after_stage_takes_every_layer_once() -> None:
    job, designs = server(LLAMA_70B, engine="vllm"), ServingDesigns.of(pp=3, batch=48)
    layer = layer_terms(job, designs, np.array([48.0]), np.array([48.0]))
    found = decode_terms(job, designs, 1000)
    assert found["matmul"] == pytest.approx(80 * layer["matmul"])
    assert found["head"] > 0


def test_prompts_keep_the_slowest_stage_busy_and_pass_all_of_them() -> None:
    job, designs, requests = server(LLAMA_70B, engine=OVERLAPPED), ServingDesigns.of(pp=3, batch=4), Requests(1000, 2)
    passed, busy = (prefill_terms(job, designs, 1000, busy=each) for each in (False, True))
    assert busy["attention"] == pytest.approx(27 / 80 * passed["attention"])
    assert busy["host"] == pytest.approx(passed["host"] / 3)
    assert prefill_busy_s(job, designs, requests) == pytest.approx(total_s(busy))
    assert total_s(busy) > total_s(passed) / 3


@pytest.mark.parametrize("engine", ["vllm", OVERLAPPED])
@pytest.mark.parametrize("model", [LLAMA_8B, MIXTRAL, DEEPSEEK])
def test_one_stage_is_the_whole_model_whether_stages_overlap_or_not(engine: str, model: LanguageModel) -> None:
    job, designs = server(model, engine=engine), ServingDesigns.of(batch=8)
    passed, busy = (prefill_terms(job, designs, 1000, busy=each) for each in (False, True))
    assert total_s(passed) == pytest.approx(total_s(busy))


def test_a_served_mixture_reads_its_dense_layers_as_what_they_are() -> None:
    assert MIXTRAL.experts is not None
    dense = replace(MIXTRAL, experts=None, ffn=14336)
    some = replace(MIXTRAL, experts=replace(MIXTRAL.experts, dense_layers=3, dense_ffn=14336))
    designs = ServingDesigns.of(batch=64)
    expert, plain, mixed = (decode_terms(server(model), designs, 1000) for model in (MIXTRAL, dense, some))
    for name in ("matmul", "kernels", "experts"):
        assert mixed[name] == pytest.approx(29 / 32 * expert[name] + 3 / 32 * plain.get(name, 0.0)), name
    for name in ("attention", "head", "host"):
        assert mixed[name] == pytest.approx(expert[name]), name
