"""Captured decode steps: what size a batch runs at, what a server is set up for, and what padding costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.engines import load_engine
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.simulation.calibrated.captured import captured_rows, tuned_batch
from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.serving import (
    admitted,
    batch_terms,
    cosmic_terms,
    saturated,
    steady_state,
    total_s,
)
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns, ServingSetup
from cosmic_opt.simulation.calibrated.serving_predict import predict_token
from cosmic_opt.workloads.requests import Requests
from tests.unit.simulation.calibrated.servers import LLAMA_8B, LLAMA_70B, MIXTRAL, server

ENGINE = load_engine("tensorrt-llm-2025")
REQUESTS = Requests(prompt=1000, output=2000)


def rows(sequences: float, most: float) -> float:
    return float(captured_rows(ENGINE, np.array([float(sequences)]), np.array([float(most)]))[0])


def captured(setup: ServingSetup) -> ServingSetup:
    return replace(setup, engine=ENGINE)


@pytest.mark.parametrize(
    ("sequences", "most", "expected"),
    [
        (1, 4096, 1),
        (129, 4096, 256),
        (256, 4096, 256),
        (599, 4096, 1024),
        (599, 768, 768),  # the largest that the server is set up for is captured, too
        (599, 599, 599),
        (9000, 10_000, 10_000),
        (9000, 8000, 9000),
    ],
)
def test_a_batch_runs_as_the_next_captured_step(sequences: float, most: float, expected: float) -> None:
    assert rows(sequences, most) == expected


def test_an_engine_that_captures_nothing_by_size_runs_a_batch_as_it_is() -> None:
    sequences = np.array([5.0, 599.0])
    assert captured_rows(load_engine("vllm"), sequences, np.array([2048.0, 2048.0])) is sequences


@settings(derandomize=True, deadline=None)
@given(sequences=st.integers(1, 10_000), most=st.integers(1, 10_000))
def test_padding_never_removes_a_sequence_nor_exceeds_what_is_set_up(sequences: int, most: int) -> None:
    found = rows(sequences, most)
    assert sequences <= found <= max(most, sequences)


def test_the_tuned_batch_is_the_tools_arithmetic_by_hand() -> None:
    """70B in fp8 on H200: 0.9 (150.75 - 70.6 GB) over 3,000 tokens of 163,840 bytes, in steps of 32."""
    setup = server(LLAMA_70B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    requests = 0.9 * (setup.memory_bytes - LLAMA_70B.parameters()) / (3000 * 2 * 80 * 8 * 128)
    assert requests == pytest.approx(146.8, abs=1)
    assert tuned_batch(setup, ServingDesigns.of(), REQUESTS).tolist() == [160]


def test_a_tuned_batch_is_at_least_64_and_at_most_4096() -> None:
    setup = server(LLAMA_8B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    sizes = [tuned_batch(setup, ServingDesigns.of(), each)[0] for each in (Requests(100_000, 1), Requests(1, 1))]
    assert sizes == [64, 4096]


def test_groups_and_stages_are_set_up_each_for_their_own_part() -> None:
    setup = server(MIXTRAL, "h200-sxm", "tensorrt-llm-2025", "fp8")
    designs = ServingDesigns.of(tp=1, pp=[1, 2, 2], ep=[2, 1, 4])
    assert np.all(tuned_batch(setup, designs, REQUESTS) % (designs.ep * designs.pp) == 0)


def test_a_server_pays_for_the_rows_it_pads_and_not_for_their_attention() -> None:
    setup = server(LLAMA_70B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    designs = ServingDesigns.of(tp=2, batch=599)
    tight, padded = (decode_terms(setup, designs, 2000, most=np.array([most])) for most in (599.0, 1024.0))
    assert padded["attention"] == tight["attention"]
    for name in ("matmul", "kernels", "tensor_parallel", "head"):
        assert padded[name] > tight[name]


@settings(derandomize=True, deadline=None, max_examples=30)
@given(batch=st.integers(1, 3000))
def test_a_batch_that_fits_what_the_server_is_set_up_for_is_not_padded(batch: int) -> None:
    setup = server(LLAMA_8B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    designs, short = ServingDesigns.of(batch=batch), Requests(8, 8)
    state = steady_state(setup, designs, short)
    if state.batch[0] == batch:
        alone = total_s(decode_terms(setup, designs, short.mean_context))
        assert total_s(state.step) == pytest.approx(alone)


def test_a_saturated_server_is_set_up_for_the_tuned_batch() -> None:
    setup = server(LLAMA_70B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    one = ServingDesigns.of()
    state = saturated(setup, one, REQUESTS)
    assert state.batch == admitted(setup, one, REQUESTS) < tuned_batch(setup, one, REQUESTS)
    loaded = one.with_batch(state.batch)
    tuned = decode_terms(setup, loaded, REQUESTS.mean_context, most=tuned_batch(setup, one, REQUESTS))
    assert total_s(state.step) == pytest.approx(total_s(tuned))
    assert total_s(state.step) > total_s(decode_terms(setup, loaded, REQUESTS.mean_context))


def test_a_loaded_server_has_one_step_time_whatever_it_is_asked() -> None:
    """70B in fp8 on one H200 holds 134 of the 268 sequences it is set up for: each wave runs as 256."""
    setup = server(LLAMA_70B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    held = float(admitted(setup, ServingDesigns.of(), REQUESTS)[0])
    assert 128 < held < 256
    designs = ServingDesigns.of(batch=2 * held)
    steady = steady_state(setup, designs, REQUESTS)
    assert steady.batch == held
    waves_s = batch_terms(setup, designs, REQUESTS)
    for name, each in steady.step.items():
        assert waves_s[name] == pytest.approx(2 * (REQUESTS.output - 1) * each)
    token = predict_token(setup, designs, REQUESTS, load_accuracy("inference"))
    assert token.seconds == pytest.approx(float(total_s(steady.step)[0]))
    tight = decode_terms(setup, designs.with_batch(held), REQUESTS.mean_context)
    assert total_s(steady.step) > total_s(tight)


def test_the_last_wave_runs_the_captured_step_of_its_own_size() -> None:
    setup = server(LLAMA_70B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    held = float(admitted(setup, ServingDesigns.of(), REQUESTS)[0])
    one, more = (batch_terms(setup, ServingDesigns.of(batch=size), REQUESTS) for size in (2 * held, 2 * held + 5))
    last = decode_terms(setup, ServingDesigns.of(batch=5), REQUESTS.mean_context, most=np.array([2 * held + 5]))
    assert more["matmul"] - one["matmul"] == pytest.approx((REQUESTS.output - 1) * last["matmul"])


@settings(derandomize=True, deadline=None, max_examples=30)
@given(batch=st.integers(1, 3000), tp=st.sampled_from([1, 2, 8]))
def test_a_batch_at_once_and_the_steady_state_agree_on_a_step_that_fits(batch: int, tp: int) -> None:
    setup = server(LLAMA_8B, "h200-sxm", "tensorrt-llm-2025", "fp8")
    designs, short = ServingDesigns.of(batch=batch, tp=tp), Requests(8, 8)
    step = steady_state(setup, designs, short).step
    if admitted(setup, designs, short) >= batch:
        for name, each in step.items():
            assert cosmic_terms(setup, designs, short)[name] == pytest.approx(8 * each)
            assert batch_terms(setup, designs, short)[name] == pytest.approx(7 * each)


def test_a_host_that_prepares_the_next_step_costs_what_outlasts_the_device() -> None:
    setup = captured(server(LLAMA_8B, "h200-sxm", "vllm", "fp8"))
    apart = replace(setup, engine=replace(ENGINE, overlaps_host=False))
    designs = ServingDesigns.of(batch=[1, 64, 2048])
    hidden, shown = (decode_terms(each, designs, 1000) for each in (setup, apart))
    device = total_s(shown) - shown["host"]
    assert total_s(hidden) == pytest.approx(np.maximum(device, shown["host"]))
    slow = replace(apart.engine.host, step_s=1.0)
    late = replace(setup, engine=replace(ENGINE, host=slow))
    assert total_s(decode_terms(late, designs, 1000)) == pytest.approx(1.0 + designs.batch * slow.sequence_s)
