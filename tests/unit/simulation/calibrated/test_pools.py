"""Two pools, one that reads prompts and one that answers: their balance, and how the cache moves between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.disaggregated import disaggregated, reading, transfer_s
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import steady_state
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns
from cosmic_opt.workloads.requests import Requests
from tests.unit.simulation.calibrated.servers import LLAMA_70B, MIXTRAL, server

ONE = ServingDesigns.of()
REQUESTS = Requests(prompt=1024, output=256)


def test_pools_serve_what_the_slower_one_does() -> None:
    setup = server(LLAMA_70B)
    prefill, decode = ServingDesigns.of(tp=4, dp=[1, 8]), ServingDesigns.of(tp=4, batch=32)
    pools = disaggregated(setup, prefill, setup, decode, REQUESTS)
    assert np.all(np.maximum(pools.prefill_share, pools.decode_share) == pytest.approx(1.0))
    assert np.all(np.minimum(pools.prefill_share, pools.decode_share) > 0)
    gpus = prefill.gpus + decode.gpus
    assert pools.output_tokens_per_s_per_gpu.tolist() == pytest.approx((pools.requests_per_s * 256 / gpus).tolist())


def test_in_a_pool_no_prefill_interrupts_a_step() -> None:
    setup, designs = server(LLAMA_70B), ServingDesigns.of(tp=4, batch=32)
    pools = disaggregated(setup, ServingDesigns.of(tp=4), setup, designs, REQUESTS)
    assert pools.output_token_s < steady_state(setup, designs, REQUESTS).output_token_s


def test_the_cache_of_a_prompt_crosses_the_network_once() -> None:
    """Of 1,024 tokens 134,217,728 bytes: at 80 % of 50 GB/s 3.3554 ms, and 12 + 22 us from node to node."""
    assert 1024 * 2 * 2 * 8 * 128 * 32 == 134_217_728
    far = replace(server(), gpus_per_node=1)
    across = transfer_s(far, ONE, ONE, REQUESTS)[0]
    assert across == pytest.approx(34e-6 + 134_217_728 / 40e9, rel=1e-9)
    four = ServingDesigns.of(tp=4)
    assert transfer_s(far, four, four, REQUESTS)[0] == pytest.approx(34e-6 + 134_217_728 / 4 / 40e9, rel=1e-9)


def test_the_side_with_fewer_ranks_sets_the_pace() -> None:
    """Four ranks that read fill the one card of the rank that answers, and one that reads has one to send with."""
    far = replace(server(), gpus_per_node=1)
    one, four = ONE, ServingDesigns.of(tp=4)
    assert transfer_s(far, four, one, REQUESTS)[0] == transfer_s(far, one, four, REQUESTS)[0]
    assert transfer_s(far, four, one, REQUESTS)[0] == transfer_s(far, one, one, REQUESTS)[0]


def test_a_batch_of_prompts_is_dealt_to_the_replicas_that_answer() -> None:
    """Eight prompts read on four ranks are a quarter of eight on each; on three replicas, three of them on one."""
    far, four = replace(server(), gpus_per_node=1), ServingDesigns.of(tp=4, batch=8)
    whole = 134_217_728 / 40e9
    dealt = transfer_s(far, four, ServingDesigns.of(dp=[1, 3, 8]), REQUESTS)
    assert dealt.tolist() == pytest.approx([34e-6 + prompts * whole for prompts in (8, 3, 2)])


def test_inside_a_node_its_links_move_the_cache() -> None:
    """The same bytes at 81.6 % of 450 GB/s: 365.52 us, and a start of 1.3 x 4.91 + 0.35 x 19.5 us."""
    start_s = 1.3 * 4.91e-6 + 0.35 * 19.5e-6
    assert transfer_s(server(), ONE, ONE, REQUESTS)[0] == pytest.approx(start_s + 134_217_728 / 367.2e9)


def test_ranks_that_share_experts_read_prompts_of_their_own() -> None:
    """Eight prompts on four ranks are two on each: their cache moves as that of two on one rank does."""
    setup = server(MIXTRAL)
    shared, alone = (ServingDesigns.of(ep=4, batch=8), ServingDesigns.of(batch=2))
    many = ServingDesigns.of(dp=[8, 800])  # answer in the same domain, and across
    moved, own = (transfer_s(setup, each, many, REQUESTS) for each in (shared, alone))
    assert moved[1] == own[1]
    fewer = prefill_terms(setup, ServingDesigns.of(batch=2), REQUESTS.prompt)["matmul"]
    assert prefill_terms(setup, shared, REQUESTS.prompt)["matmul"] == fewer


def test_pools_that_fit_into_one_domain_share_it() -> None:
    setup, decode = server(), ServingDesigns.of(tp=4, dp=[1, 1, 2])
    prefill = ServingDesigns.of(tp=[4, 1, 4], dp=[1, 5, 1])
    first = disaggregated(setup, prefill, setup, decode, REQUESTS).first_token_s
    moved = first - reading(setup, prefill, REQUESTS).prompts_s  # 8, 9 and 12 GPUs on nodes of 8
    part = 134_217_728 / 4
    assert moved[0] < part / 300e9
    assert moved[1:].tolist() == pytest.approx([34e-6 + 4 * part / 40e9, 34e-6 + part / 40e9])
    smaller = disaggregated(replace(setup, gpus_per_node=4), prefill, setup, decode, REQUESTS).first_token_s
    assert smaller[0] - first[0] == pytest.approx(moved[2] - moved[0])


def test_pools_of_different_models_share_no_cache() -> None:
    with pytest.raises(SpecError, match="cannot share a cache"):
        disaggregated(server(), ONE, server(LLAMA_70B), ONE, REQUESTS)


def test_a_device_without_a_fabric_sends_no_cache() -> None:
    setup = server()
    with pytest.raises(SpecError, match="has no fabric"):
        transfer_s(replace(setup, device=replace(setup.device, fabric=None)), ONE, ONE, REQUESTS)


@pytest.mark.parametrize("output", [1, 256])
def test_requests_under_way_in_two_pools_are_the_rate_times_their_time_in_both(output: int) -> None:
    setup, requests = server(LLAMA_70B), Requests(1024, output)
    prefill, decode = ServingDesigns.of(tp=4, dp=[1, 8]), ServingDesigns.of(tp=4, batch=32)
    pools = disaggregated(setup, prefill, setup, decode, requests)
    stay = pools.first_token_s + (output - 1) * pools.output_token_s
    np.testing.assert_allclose(pools.requests, pools.requests_per_s * stay)
    assert np.all(pools.requests >= 1)  # the slower pool is full
