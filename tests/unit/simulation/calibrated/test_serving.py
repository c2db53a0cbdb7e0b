"""Prefill, decode, batches and saturation: mechanisms that must hold whatever the constants are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated import serving
from cosmic_opt.simulation.calibrated.decode import decode_attention_s, decode_terms, host_s
from cosmic_opt.simulation.calibrated.disaggregated import disaggregated
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import (
    admitted,
    batch_terms,
    cosmic_terms,
    lone_prompt_s,
    prefill_busy_s,
    saturated,
    steady_state,
    total_s,
    waves,
)
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns, ServingSetup, Terms
from cosmic_opt.workloads.kv_cache import held_tokens, resident_sequences
from cosmic_opt.workloads.requests import CHAT, QUESTION_ANSWERING, Requests
from tests.unit.simulation.calibrated.servers import LATENT, LLAMA_8B, LLAMA_70B, MIXTRAL, server

ONE = ServingDesigns.of()
EIGHT = ServingDesigns.of(batch=8)
REQUESTS = Requests(prompt=1024, output=256)
ENGINES = ["vllm", "tensorrt-llm", "tensorrt-llm-2025", "deepspeed-mii"]


def step(setup: ServingSetup, batch: float = 8, context: float = 1024, **degrees: float) -> float:
    return float(total_s(decode_terms(setup, ServingDesigns.of(batch=batch, **degrees), context))[0])


def with_bandwidth(setup: ServingSetup, factor: float) -> ServingSetup:
    device = replace(setup.device, memory_bytes_per_s=factor * setup.device.memory_bytes_per_s)
    return replace(setup, device=device)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    engine=st.sampled_from(ENGINES),
    model=st.sampled_from([LLAMA_8B, MIXTRAL, LATENT]),
    batch=st.integers(1, 512),
    context=st.integers(1, 100_000),
    factor=st.floats(1, 4),
)
def test_more_memory_bandwidth_never_slows_a_decode_step(
    engine: str, model: object, batch: int, context: int, factor: float
) -> None:
    setup = server(model, engine=engine)  # type: ignore[arg-type]
    slow, fast = step(setup, batch, context), step(with_bandwidth(setup, factor), batch, context)
    assert fast <= slow * (1 + 1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", [LLAMA_8B, MIXTRAL])
def test_a_larger_batch_that_fits_never_lowers_throughput(engine: str, model: object) -> None:
    setup = server(model, engine=engine)  # type: ignore[arg-type]
    designs = ServingDesigns.of(tp=4, batch=2.0 ** np.arange(9))
    rate = steady_state(setup, designs, REQUESTS).output_tokens_per_s
    assert np.all(np.diff(rate) >= -1e-9 * rate[1:])


@settings(derandomize=True, deadline=None, max_examples=30)
@given(batch=st.integers(1, 128), context=st.integers(1, 50_000), more=st.integers(1, 50_000))
def test_a_longer_context_never_shortens_a_step(batch: int, context: int, more: int) -> None:
    assert step(server(), batch, context) <= step(server(), batch, context + more)


@pytest.mark.parametrize(("gpu", "tp"), [("h100-sxm", 2), ("h100-sxm", 8), ("mi300x", 4), ("mi300x", 8)])
def test_tp_beyond_the_domain_is_slower(gpu: str, tp: int) -> None:
    """Of a mesh, from four GPUs on: two have one link (test_fabric)."""
    inside = step(server(LLAMA_70B, gpu), tp=tp)
    assert step(server(LLAMA_70B, gpu, gpus_per_node=1), tp=tp) > inside


@pytest.mark.parametrize("gpu", ["mi325x", "mi355x"])
def test_an_amd_board_that_no_one_served_on_gains_what_its_memory_and_matrix_units_gain(gpu: str) -> None:
    known, other = (server(LLAMA_70B, each, "vllm-rocm") for each in ("mi300x", gpu))
    designs, requests = ServingDesigns.of(tp=4, batch=16), Requests(1024, 1024)
    slower, faster = (float(total_s(batch_terms(each, designs, requests))[0]) for each in (known, other))
    peak = other.device.peak("fp16") / known.device.peak("fp16")
    rate = other.device.memory_bytes_per_s / known.device.memory_bytes_per_s
    assert 1 < slower / faster < max(peak, rate)


def test_the_host_costs_a_step_its_sequences_and_a_meeting() -> None:
    setup = server()
    host = setup.engine.host
    times = host_s(setup, ServingDesigns.of(tp=[1, 2], batch=10))
    assert times.tolist() == pytest.approx(
        [host.step_s + 10 * host.sequence_s, host.step_s + 10 * host.sequence_s + host.tensor_s]
    )


def test_attention_of_many_sequences_reads_the_cache_at_the_memorys_rate() -> None:
    setup = server(replace(LLAMA_8B, kv_heads=32))
    device = setup.device
    expected = 64 * 4096 * 2 * 2 * 32 * 128 / (device.attention.decode_memory_fraction * device.memory_bytes_per_s)
    time = decode_attention_s(setup, ONE, np.array([64.0]), np.array([4096.0]))
    assert time - setup.engine.attention.launch_s == pytest.approx(expected)


def test_one_sequence_waits_for_the_block_that_reads_its_head() -> None:
    setup = server(engine="tensorrt-llm")
    expected = 8192 * 2 * 2 * 128 / setup.engine.attention.head_bytes_per_s
    time = decode_attention_s(setup, ONE, np.array([1.0]), np.array([8192.0]))
    assert time - setup.engine.attention.launch_s == pytest.approx(expected)


def test_query_heads_that_share_keys_read_them_at_most_as_often_as_the_group_is_large() -> None:
    pair, four = (
        decode_attention_s(server(replace(LLAMA_8B, kv_heads=heads), engine="vllm-rocm"), ONE, *many)
        for heads in (16, 8)
        for many in [(np.array([64.0]), np.array([4096.0]))]
    )
    assert pair == pytest.approx(four)


def test_a_short_prompt_prefills_at_the_memorys_rate_and_a_long_one_at_the_chips() -> None:
    setup = server()
    weights = 2 * (LLAMA_8B.parameters() - LLAMA_8B.head_parameters)
    short = float(total_s(prefill_terms(setup, ONE, 1))[0])
    assert short > weights / setup.device.memory_bytes_per_s
    flops = 2 * (LLAMA_8B.parameters() - 2 * LLAMA_8B.head_parameters) * 16384
    long = float(total_s(prefill_terms(setup, ServingDesigns.of(batch=16), 1024))[0])
    assert 0.5 < flops / (long * setup.device.peak("fp16")) < 0.8


@pytest.mark.parametrize("model", [LLAMA_8B, LLAMA_70B, MIXTRAL, LATENT])
def test_every_term_is_a_time(model: object) -> None:
    setup = server(model, gpu="b200")  # type: ignore[arg-type]
    designs = ServingDesigns.of(tp=[1, 2, 4], pp=[1, 2, 1], ep=[1, 1, 2], batch=[1, 8, 64])
    for terms in (decode_terms(setup, designs, 2048), prefill_terms(setup, designs, 2048)):
        assert all(np.all(np.isfinite(each)) and np.all(each >= 0) for each in terms.values())


def test_many_designs_are_what_each_is_alone() -> None:
    setup = server(MIXTRAL)
    tp, batch = [1, 2, 4, 8], [1, 3, 50, 700]
    many = total_s(batch_terms(setup, ServingDesigns.of(tp=tp, batch=batch), REQUESTS))
    alone = [
        total_s(batch_terms(setup, ServingDesigns.of(tp=t, batch=b), REQUESTS))[0]
        for t, b in zip(tp, batch, strict=True)
    ]
    assert many.tolist() == pytest.approx(alone)


def test_a_lone_prompt_takes_what_its_prefill_takes_and_is_computed_once_per_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup, requests, sizes = server(LLAMA_70B), Requests(1000, 200), list[int]()
    designs = ServingDesigns.of(tp=[2, 2, 4, 2], pp=[1, 1, 2, 1], dp=[1, 2, 1, 1], batch=[8, 8, 8, 64])
    expected = total_s(prefill_terms(setup, designs.with_batch(1), 1000))

    def counted(setup: ServingSetup, designs: ServingDesigns, prompt: int) -> Terms:
        sizes.append(len(designs.tp))
        return prefill_terms(setup, designs, prompt)

    monkeypatch.setattr(serving, "prefill_terms", counted)
    assert lone_prompt_s(setup, designs, requests).tolist() == expected.tolist()
    assert sizes == [2]


def test_a_batch_is_its_prefill_and_a_step_for_each_further_token() -> None:
    setup, designs = server(), ServingDesigns.of(batch=4)
    prefill = total_s(prefill_terms(setup, designs, REQUESTS.prompt))
    decode = total_s(decode_terms(setup, designs, REQUESTS.mean_context))
    assert total_s(batch_terms(setup, designs, REQUESTS)) == pytest.approx(prefill + 255 * decode)


def test_one_token_of_output_is_the_prefill_alone() -> None:
    terms = batch_terms(server(), ONE, Requests(512, 1))
    assert total_s(terms) == terms["prefill"]


def test_a_batch_that_does_not_fit_runs_in_whole_waves_and_a_rest() -> None:
    setup = server(LLAMA_70B, gpu="h100-sxm", engine="tensorrt-llm")
    designs, requests = ServingDesigns.of(tp=2, batch=200), Requests(2000, 2000)
    fit = int(admitted(setup, designs, requests)[0])
    assert 1 < fit < 200
    cut = waves(setup, designs, requests)
    assert (cut.full[0], cut.rest[0]) == divmod(200, fit)
    whole = total_s(batch_terms(setup, designs.with_batch(fit), requests))
    rest = total_s(batch_terms(setup, designs.with_batch(200 % fit), requests))
    assert total_s(batch_terms(setup, designs, requests)) == pytest.approx(200 // fit * whole + rest)


def test_a_saturated_server_holds_the_largest_batch_that_is_admitted() -> None:
    setup, designs = server(), ServingDesigns.of(tp=2)
    state = saturated(setup, designs, REQUESTS)
    assert state.batch == admitted(setup, designs, REQUESTS)
    assert state.output_tokens_per_s == pytest.approx(256 * state.batch / total_s(state.terms))
    assert state.output_tokens_per_s_per_gpu == pytest.approx(state.output_tokens_per_s / 2)


def test_an_engine_serves_no_more_sequences_than_its_own_limit() -> None:
    assert admitted(server(gpu="b200"), ServingDesigns.of(tp=8), Requests(1, 1)) == 256


def test_no_group_holds_a_fraction_of_a_sequence() -> None:
    """Mixtral on 8 H100: 2.345 prompts of 200,000 tokens fit beside a group's weights, so 2 in each of 8 groups."""
    setup, designs, requests = server(MIXTRAL), ServingDesigns.of(ep=8), Requests(200_000, 1)
    assert resident_sequences(setup, designs, held_tokens(setup, requests)) / 8 == pytest.approx(2.345, abs=5e-4)
    assert admitted(setup, designs, requests) == 16
    assert saturated(setup, designs, requests).batch == 16


@settings(derandomize=True, deadline=None, max_examples=60)
@given(ep=st.sampled_from([1, 2, 4, 8]), tp=st.sampled_from([1, 2, 4]), prompt=st.integers(1, 10**6))
def test_every_group_holds_its_part_of_what_is_admitted_and_no_group_one_more(ep: int, tp: int, prompt: int) -> None:
    setup, designs, requests = server(MIXTRAL), ServingDesigns.of(ep=ep, tp=tp), Requests(prompt, 1)
    held = admitted(setup, designs, requests)
    fit = resident_sequences(setup, designs, held_tokens(setup, requests)) / ep
    assert designs.with_batch(np.maximum(held, 1.0)).sequences <= np.maximum(fit, 1.0)
    assert held == ep * min(np.floor(fit[0]), setup.engine.memory.most_sequences)


def test_a_model_that_does_not_fit_has_no_rate() -> None:
    state = saturated(server(LLAMA_70B), ONE, REQUESTS)
    assert (state.batch[0], state.output_tokens_per_s[0]) == (0, 0)


def test_replicas_multiply_the_rate_and_nothing_else() -> None:
    one, four = (steady_state(server(), ServingDesigns.of(dp=dp, batch=8), REQUESTS) for dp in (1, 4))
    assert four.output_tokens_per_s == 4 * one.output_tokens_per_s
    assert four.output_tokens_per_s_per_gpu == one.output_tokens_per_s_per_gpu
    assert (four.first_token_s, four.output_token_s) == (one.first_token_s, one.output_token_s)


def test_a_larger_batch_makes_each_token_wait_longer() -> None:
    state = steady_state(server(), ServingDesigns.of(batch=[1, 8, 64]), REQUESTS)
    assert np.all(np.diff(state.output_token_s) > 0)
    assert np.all(np.diff(state.first_token_s) > 0)


def test_cosmics_jobs_decode_at_its_contexts() -> None:
    assert (QUESTION_ANSWERING.mean_context, CHAT.mean_context) == (1100, 3500)
    setup, designs = server(LLAMA_70B), ServingDesigns.of(tp=8, batch=16)
    terms = cosmic_terms(setup, designs, CHAT)
    prefill = total_s(prefill_terms(setup, designs, 3000))
    assert total_s(terms) == pytest.approx(prefill + 1000 * total_s(decode_terms(setup, designs, 3500)))


def test_a_pipeline_without_overlap_takes_as_long_as_its_stages_together() -> None:
    setup = server(LLAMA_70B)
    whole = decode_terms(setup, ServingDesigns.of(batch=8), 1024)
    piped = decode_terms(setup, ServingDesigns.of(batch=8, pp=4), 1024)
    assert total_s(piped) == pytest.approx(total_s(whole) + piped["sends"])


def test_overlapped_stages_serve_more_than_stages_in_turn() -> None:
    designs = ServingDesigns.of(pp=4, batch=64)
    engine = server().engine
    turn = steady_state(server(LLAMA_70B), designs, REQUESTS)
    overlap = replace(server(LLAMA_70B), engine=replace(engine, overlaps_stages=True))
    together = steady_state(overlap, designs, REQUESTS)
    assert together.output_tokens_per_s > turn.output_tokens_per_s


@pytest.mark.parametrize("field", ["prompt", "output"])
def test_requests_have_tokens(field: str) -> None:
    with pytest.raises(SpecError, match=f"{field} is 0"):
        Requests(**{"prompt": 1, "output": 1, field: 0})


def test_degrees_and_batches_start_at_one() -> None:
    with pytest.raises(SpecError, match="tp is below 1"):
        ServingDesigns.of(tp=0)
    with pytest.raises(SpecError, match="batch is below 1"):
        ServingDesigns.of(batch=math.nan)


def test_a_format_the_device_cannot_multiply_is_refused() -> None:
    with pytest.raises(SpecError, match="no matrix peak"):
        server(gpu="a100-80", numbers="fp8")


def test_a_domain_of_no_gpus_is_refused() -> None:
    with pytest.raises(SpecError, match="gpus_per_node is 0"):
        server(gpus_per_node=0)


@pytest.mark.parametrize("output", [1, 2, 200])
def test_prefill_gives_the_first_token_so_a_cycle_decodes_one_less(output: int) -> None:
    setup, requests = server(LLAMA_8B), Requests(1000, output)
    state = steady_state(setup, EIGHT, requests)
    step = total_s(decode_terms(setup, EIGHT.with_batch(state.batch), requests.mean_context))
    cycle = total_s(state.terms)
    np.testing.assert_allclose(cycle, prefill_busy_s(setup, EIGHT, requests) + (output - 1) * step)
    np.testing.assert_allclose(total_s(state.step), step if output > 1 else 0.0)


@pytest.mark.parametrize("output", [2, 8, 200])
@pytest.mark.parametrize("overlaps", [False, True])
def test_between_tokens_passes_what_the_first_token_leaves_of_an_answer(output: int, overlaps: bool) -> None:
    setup, requests = server(LLAMA_8B), Requests(1000, output)
    setup = replace(setup, engine=replace(setup.engine, overlaps_stages=overlaps))
    designs = ServingDesigns.of(pp=2, batch=8)
    state = steady_state(setup, designs, requests)
    own = total_s(prefill_terms(setup, designs.with_batch(1), 1000))
    np.testing.assert_allclose(state.output_token_s, (total_s(state.terms) - own) / (output - 1))


def test_an_answer_of_one_token_has_a_step_for_the_time_to_another_with_one_server_or_two_pools() -> None:
    setup, requests = server(LLAMA_8B), Requests(1000, 1)
    step = total_s(decode_terms(setup, EIGHT, requests.mean_context))
    pools = disaggregated(setup, ONE, setup, EIGHT, requests)
    assert steady_state(setup, EIGHT, requests).output_token_s == pools.output_token_s == step


def test_answers_of_one_token_take_their_prefill_in_a_batch_and_in_the_steady_state() -> None:
    setup, requests = server(LLAMA_8B), Requests(1000, 1)
    state = steady_state(setup, EIGHT, requests)
    np.testing.assert_allclose(total_s(state.terms), total_s(batch_terms(setup, EIGHT, requests)))
