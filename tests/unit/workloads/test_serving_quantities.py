"""Structural quantities of served models: weights, cache and room of one NPU, by hand and against the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.engines import load_engine, load_number_format
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import LimitError
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.search.objective import quantity_values
from cosmic_opt.search.score import simulator_of
from cosmic_opt.simulation.calibrated.serving import admitted
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator
from cosmic_opt.workloads.kv_cache import cache_bytes_per_token
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_designs import ServingDesigns
from cosmic_opt.workloads.serving_quantities import (
    ServedModel,
    designs_of_pool,
    pools_of,
    serving_memory,
    serving_quantities,
)

ONE = ServingDesigns.of()


def served(name: str) -> ServedModel:
    own = Problem.load(name).instance.calibrated
    assert isinstance(own, Serving)
    return own.in_memory


def quantity_of(problem: Problem, name: str, **knobs: int) -> int:
    quantity = problem.parameter_set.quantities[name]
    assert isinstance(quantity, Quantity)
    design = problem.parameter_set.design({**problem.instance.baseline, **knobs})
    return int(quantity_values(quantity, design)[0])


def test_a_token_of_llama_3_1_70b_takes_327_680_bytes_in_16_bits() -> None:
    model = served("llama3-70b/mi300x-8-serving")
    assert model.numbers.cache_bytes == 2
    assert cache_bytes_per_token(model, ONE) == 80 * 2 * 8 * 128 * 2 == 327_680
    assert cache_bytes_per_token(model, ServingDesigns.of(tp=4)) == 327_680 / 4
    assert cache_bytes_per_token(model, ServingDesigns.of(tp=16)) == 327_680 / 8  # a rank holds a whole head at least


def test_a_token_of_deepseek_v3_takes_576_elements_a_layer_on_every_rank() -> None:
    model = served("deepseek-v3/h200-8-serving")
    assert model.numbers.cache_bytes == 1
    for tp in (1, 2, 8):
        assert cache_bytes_per_token(model, ServingDesigns.of(tp=tp)) == 61 * 576


def test_the_cache_of_a_batch_counts_held_tokens_and_half_a_page_a_sequence() -> None:
    problem = Problem.load("llama3-70b/h100-8-serving")
    # vLLM admits a sequence with 80 % of its answer, a page holds 16 tokens; one byte an element, heads over tp = 4
    tokens = 1000 + 0.8 * 200 + 7.5
    assert quantity_of(problem, "kv_cache_per_npu") == 64 * tokens * 80 * 2 * 2 * 128


def test_a_batch_is_that_of_each_group_that_shares_experts() -> None:
    problem = Problem.load("deepseek-v3/b200-8-serving")
    alone = quantity_of(problem, "kv_cache_per_npu", ep=1, batch=8)
    assert quantity_of(problem, "kv_cache_per_npu", ep=8, batch=8) == alone
    assert quantity_of(problem, "kv_cache_per_npu", ep=4, batch=2) * 4 == alone
    assert designs_of_pool({"ep": np.array([8]), "batch": np.array([3])}, "").batch == 24


def test_weights_are_parameters_in_their_bytes_and_tables_in_16_bits() -> None:
    problem = Problem.load("llama3-8b/h200-8-serving")
    own = problem.instance.calibrated
    assert isinstance(own, Serving)
    tables = 2 * own.model.head_parameters
    assert quantity_of(problem, "weights_per_npu") == own.model.parameters() - tables + 2 * tables


def test_memory_headroom_and_room_hang_together() -> None:
    problem = Problem.load("llama3-70b/h100-8-serving")
    names = ("memory_per_npu", "weights_per_npu", "kv_cache_per_npu", "cache_room_per_npu", "headroom_per_npu")
    total, weights, cache, room, headroom = (quantity_of(problem, name) for name in names)
    assert total == weights + cache + 10**9  # vLLM's workspace
    assert headroom == room - cache
    assert room == int(0.9 * 81_559 * 2**20 - 10**9 - weights)  # 0.9 of the memory that its driver reports


def test_npus_used_is_every_npu_of_every_replica() -> None:
    assert quantity_of(Problem.load("deepseek-v3/gb200-32-serving"), "npus_used", dp=2, tp=2, pp=1, ep=8) == 32
    pools = Problem.load("llama3-70b/h200-16-pools-serving")
    assert quantity_of(pools, "npus_used") == 4 * 2 + 2 * 4


@pytest.mark.parametrize(
    "name", ["llama3-70b/h100-8-serving", "deepseek-v3/h200-8-serving", "mixtral-8x7b/h100-8-serving"]
)
def test_every_design_that_fits_admits_its_whole_batch(name: str) -> None:
    problem = Problem.load(name)
    simulator = simulator_of(problem.instance)
    assert isinstance(simulator, ServingSimulator)
    for batch in problem.enumerate():
        server = simulator.server(batch.value_columns())
        designs = server.designs  # type: ignore[union-attr]
        assert np.all(admitted(simulator.setup, designs, simulator.serving.requests) >= designs.batch)


def test_one_batch_more_than_fits_is_not_admitted() -> None:
    problem = Problem.load("llama3-8b/h100-8-serving").without("fits", "engine_limit")
    simulator = simulator_of(problem.instance)
    assert isinstance(simulator, ServingSimulator)
    for batch in problem.fix(dp=1, pp=1).enumerate():
        fits = [
            quantity_values(problem.parameter_set.quantities[name], batch)  # type: ignore[arg-type]
            for name in ("kv_cache_per_npu", "cache_room_per_npu")
        ]
        server = simulator.server(batch.value_columns())
        held = np.floor(admitted(simulator.setup, server.designs, simulator.serving.requests))  # type: ignore[union-attr]
        limit = simulator.serving.engine.memory.most_sequences
        assert np.array_equal((fits[0] <= fits[1]) & (server.designs.batch <= limit), held >= server.designs.batch)  # type: ignore[union-attr]


def test_a_prefill_pool_holds_prompts_only() -> None:
    model = served("llama3-70b/h200-16-pools-serving")
    whole, prompts = (serving_memory(model, ServingDesigns.of(tp=8, batch=4), pool) for pool in ("decode", "prefill"))
    assert int(prompts.kv_cache_bytes[0]) == 4 * (3000 + 15.5) * 80 * 2 * 128
    assert int(whole.kv_cache_bytes[0]) == 4 * (4000 + 15.5) * 80 * 2 * 128


def test_names_tell_one_server_from_two_pools() -> None:
    assert pools_of({"tp", "layers"}) == ("",)
    assert pools_of({"prefill_tp", "decode_tp"}) == ("prefill", "decode")


def test_a_knob_that_is_no_column_has_the_value_of_the_data() -> None:
    found = serving_quantities(served("llama3-70b/h100-8-serving"), {"tp": 4, "dp": 2}, {"batch"})
    assert found["npus_used"].terms[0].evaluate({}).tolist() == [8]
    assert found["kv_cache_per_npu"].terms[0].names == ("batch",)


def test_a_model_beyond_counting_is_refused() -> None:
    huge = LanguageModel(
        name="huge", layers=10**6, hidden=10**6, heads=8, kv_heads=8, head_dim=10**6, ffn=10**6, vocabulary=8
    )
    model = ServedModel(huge, load_engine("vllm"), load_number_format("bf16"), 80e9, Requests(10**6, 10**6))
    with pytest.raises(LimitError, match="2\\^59"):
        serving_memory(model, ServingDesigns.of(batch=1024))
