"""Weights, the cache and what fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns
from cosmic_opt.workloads.kv_cache import (
    cache_bytes_per_token,
    cache_capacity_bytes,
    read_bytes_per_token,
    resident_sequences,
    sequence_tokens,
    weight_bytes,
)
from tests.unit.simulation.calibrated.servers import LATENT, LLAMA_8B, LLAMA_70B, MIXTRAL, server

ONE = ServingDesigns.of()


def test_a_token_of_llama_3_8b_takes_128_kib() -> None:
    assert cache_bytes_per_token(server(), ONE) == 2 * 2 * 8 * 128 * 32


def test_grouped_queries_shrink_the_cache_by_the_ratio_of_heads() -> None:
    every = server(replace(LLAMA_8B, kv_heads=32))
    assert cache_bytes_per_token(every, ONE) == 4 * cache_bytes_per_token(server(), ONE)


def test_an_fp8_cache_takes_half() -> None:
    assert cache_bytes_per_token(server(numbers="fp16-kv8"), ONE) == cache_bytes_per_token(server(), ONE) / 2


def test_tp_splits_key_heads_until_each_rank_has_one() -> None:
    sizes = read_bytes_per_token(server(), ServingDesigns.of(tp=[1, 2, 8, 16]))
    assert sizes.tolist() == [4096, 2048, 512, 512]


def test_latent_attention_keeps_one_vector_whole_on_every_rank() -> None:
    assert read_bytes_per_token(server(LATENT), ServingDesigns.of(tp=[1, 8])).tolist() == [2 * 576, 2 * 576]


def test_a_pipeline_keeps_the_cache_of_its_longest_stage() -> None:
    per_layer = read_bytes_per_token(server(), ONE)
    assert cache_bytes_per_token(server(), ServingDesigns.of(pp=3)) == 11 * per_layer


def test_weights_are_parameters_times_their_bytes() -> None:
    assert weight_bytes(server(), ONE) == 2 * LLAMA_8B.parameters()
    assert weight_bytes(server(MIXTRAL), ONE) == 2 * MIXTRAL.parameters()


def test_narrow_weights_leave_the_tables_in_16_bits() -> None:
    tables = 2 * LLAMA_8B.head_parameters
    layers = LLAMA_8B.parameters() - tables
    assert weight_bytes(server(numbers="fp8"), ONE) == layers + 2 * tables
    assert weight_bytes(server(gpu="b200", numbers="fp4"), ONE) == 0.5625 * layers + 2 * tables


def test_experts_are_split_over_tp_and_ep() -> None:
    whole = weight_bytes(server(MIXTRAL), ONE)[0]
    spread = weight_bytes(server(MIXTRAL), ServingDesigns.of(ep=4))[0]
    assert whole - spread == 2 * MIXTRAL.layers * MIXTRAL.expert_parameters * 3 / 4


def test_the_share_is_of_the_whole_memory_or_of_what_is_free() -> None:
    setup = server()
    weights = weight_bytes(setup, ONE)
    installed = setup.device.installed_bytes
    assert cache_capacity_bytes(setup, ONE) == pytest.approx(0.9 * installed - 1e9 - weights)
    other = server(engine="tensorrt-llm")
    assert cache_capacity_bytes(other, ONE) == pytest.approx(0.9 * (installed - 4e9 - weights))


def test_a_sequence_wastes_half_of_its_last_page() -> None:
    assert sequence_tokens(server(), 100) == 107.5
    assert sequence_tokens(server(engine="deepspeed-gaudi"), 100) == 100


def test_weights_that_do_not_fit_leave_room_for_no_sequence() -> None:
    assert resident_sequences(server(LLAMA_70B), ONE, 1) == 0
    assert np.all(resident_sequences(server(LLAMA_70B), ServingDesigns.of(tp=[2, 4, 8]), 4096) > 0)
