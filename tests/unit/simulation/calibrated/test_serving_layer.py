"""One layer of a served model: products, experts, collectives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns
from cosmic_opt.simulation.calibrated.serving_layer import (
    busiest_rank_experts,
    dispatch_s,
    experts_s,
    experts_touched,
    layer_terms,
    linear_s,
    reductions,
    stage_send_s,
    tensor_s,
)
from cosmic_opt.system.hardware import gemm_s
from cosmic_opt.workloads.language_model import Experts
from tests.unit.simulation.calibrated.servers import LLAMA_8B, MIXTRAL, server

EXPERTS = Experts(count=8, top_k=2, ffn=14336)
ONE = ServingDesigns.of()


def ones(value: float) -> np.ndarray:
    return np.array([float(value)])


def test_a_16_bit_product_is_the_kernel_models() -> None:
    setup = server()
    for tokens in (1, 64, 4096):
        expected = gemm_s(setup.device, "fp16", ones(tokens), 14336, 4096, sustained=True)
        assert linear_s(setup, ones(tokens), ones(14336), ones(4096)) == pytest.approx(expected, rel=1e-9)


def test_one_token_reads_int8_weights_in_their_bytes_at_the_engines_rate() -> None:
    setup = server(numbers="int8")
    launch = setup.device.gemm.simple.launch_s
    expected = 8192 * 65536 / (0.7 * setup.device.memory_bytes_per_s)
    assert linear_s(setup, ones(1), ones(65536), ones(8192)) - launch == pytest.approx(expected, rel=0.02)


def test_narrower_weights_never_slow_a_memory_bound_product() -> None:
    times = [
        linear_s(server(gpu="b200", numbers=name), ones(1), ones(28672), ones(8192))[0]
        for name in ("bf16", "fp8", "fp4")
    ]
    assert times == sorted(times, reverse=True)


def test_one_token_touches_its_own_experts_and_many_touch_all() -> None:
    assert experts_touched(EXPERTS, ones(1)) == pytest.approx(2)
    assert experts_touched(EXPERTS, ones(2)) == pytest.approx(8 * (1 - 0.75**2))
    assert experts_touched(EXPERTS, ones(200)) == pytest.approx(8)


def test_the_busiest_of_several_ranks_has_more_than_its_share() -> None:
    one_rank = busiest_rank_experts(EXPERTS, ones(1), ones(1))
    assert one_rank == pytest.approx(2)
    exact = 1 * 4 / 7 + 2 * 3 / 7  # two ranks of four experts, two experts drawn without replacement
    assert busiest_rank_experts(EXPERTS, ones(2), ones(1)) == pytest.approx(exact, rel=0.06)
    exact = 1 * 6 / 7 + 2 * 1 / 7
    assert busiest_rank_experts(EXPERTS, ones(4), ones(1)) == pytest.approx(exact, rel=0.1)
    assert busiest_rank_experts(EXPERTS, ones(4), ones(1000)) == pytest.approx(2)


def test_few_tokens_read_few_experts() -> None:
    setup = server(MIXTRAL)
    few, all_of_them = (experts_s(setup, ONE, ones(tokens))[0] for tokens in (1, 32))
    assert all_of_them / few == pytest.approx(4, rel=0.05)


def test_ep_divides_the_weights_that_are_read() -> None:
    setup = server(MIXTRAL)
    whole = experts_s(setup, ONE, ones(64))[0]
    split = experts_s(setup, ServingDesigns.of(ep=4), ones(64))[0]
    assert split < whole / 3


def test_nothing_is_dispatched_without_ep() -> None:
    assert dispatch_s(server(MIXTRAL), ONE, EXPERTS, ones(8)) == 0
    assert dispatch_s(server(MIXTRAL), ServingDesigns.of(ep=2), EXPERTS, ones(8)) > 0


def test_a_parallel_block_reduces_once() -> None:
    setup = server(parallel_block=True)
    assert (reductions(setup), reductions(server())) == (1, 2)
    designs = ServingDesigns.of(tp=4)
    once = layer_terms(setup, designs, ones(8), ones(8))["tensor_parallel"]
    assert 2 * once == layer_terms(server(), designs, ones(8), ones(8))["tensor_parallel"]


def test_tp_beyond_the_domain_reduces_more_slowly() -> None:
    setup = server()
    tokens = ones(64)
    inside = tensor_s(setup, ServingDesigns.of(tp=8), tokens)
    across = tensor_s(replace(setup, gpus_per_node=4), ServingDesigns.of(tp=8), tokens)
    assert across > inside


def test_one_rank_and_one_stage_send_nothing() -> None:
    assert tensor_s(server(), ONE, ones(8)) == 0
    assert stage_send_s(server(), ONE, ones(8)) == 0


def test_stages_on_other_nodes_send_more_slowly() -> None:
    designs, tokens = ServingDesigns.of(tp=[4, 8], pp=2), np.array([64.0, 64.0])
    inside, across = stage_send_s(server(), designs, tokens)
    assert across > inside


def test_shared_experts_are_a_product_of_every_rank() -> None:
    shared = replace(MIXTRAL, experts=replace(EXPERTS, shared=1))
    more = layer_terms(server(shared), ONE, ones(4), ones(4))["matmul"]
    assert more > layer_terms(server(MIXTRAL), ONE, ones(4), ones(4))["matmul"]
    assert "experts" not in layer_terms(server(LLAMA_8B), ONE, ones(4), ones(4))
