"""Closed forms worked by hand, and facts every step obeys."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.analytical import AnalyticalSimulator
from cosmic_opt.simulation.analytical.metrics import model_flops
from cosmic_opt.system.npu import Npu
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.simulation.analytical_reference import flow_shop
from tests.unit.simulation.test_analytical_reference import (
    SHAPES,
    TEXT,
    columns,
    compiled_kernel,
    random_design,
    scored,
    simulator,
)

__all__ = ["compiled_kernel"]  # a fixture

GB = 10**9
TFLOPS = 10**12
FAST_MEMORY = Npu("no memory wall", 100 * TFLOPS, 10**24, 80 * GB)
PLAIN = Transformer(
    name="plain", layers=8, hidden=1024, heads=8, kv_heads=8, head_dim=128, ffn=4096, vocabulary=8, sequence=1024
)


def build(
    workload: Transformer = PLAIN,
    npu: Npu = FAST_MEMORY,
    shape: tuple[int, ...] = (8,),
    job: dict[str, int | str] | None = None,
    **constants: int | str,
) -> AnalyticalSimulator:
    """A simulator without columns on switches with ring collectives, 100 GB/s and no latency."""
    network: dict[str, int | str] = {}
    for dim, npus in enumerate(shape):
        network |= {f"npus_per_dim[{dim}]": npus, f"topology[{dim}]": "switch", f"algorithm[{dim}]": "ring"}
        network |= {f"bandwidth[{dim}]": 100 * GB, f"latency[{dim}]": 0}
    values = {**network, "overlap_gradients": 0, "overlap_weights": 0, **constants}
    named = {name.replace("__", "[") + "]" if "__" in name else name: value for name, value in values.items()}
    return AnalyticalSimulator(workload, {"global_batch": 64, **(job or {})}, npu, len(shape), named, {})


def parts(model: AnalyticalSimulator) -> dict[str, int]:
    result = model.evaluate({})
    terms = dict(zip(model.terms, result.terms[0].tolist(), strict=True))
    hidden = dict(zip(model.hidden, result.hidden[0].tolist(), strict=True))
    assert sum(terms.values()) == result.step_ticks[0]
    return {**terms, **hidden, "step": int(result.step_ticks[0])}


# by hand


def test_one_npu_without_memory_wall_takes_its_flops_at_peak() -> None:
    step = parts(build(shape=(1,)))["step"]
    attention = 64 * 1024 * 1024 * PLAIN.attention_flops_per_key * PLAIN.layers
    flops = PLAIN.training_flops(64, 1024) + attention // 2  # the fused kernel's backward costs 2.5 times
    assert step == pytest.approx(flops / 100e12 * 1e12, rel=1e-8)  # an operator is rounded once


def test_one_npu_communicates_nothing() -> None:
    terms = parts(build(shape=(1,)))
    assert all(ticks == 0 for name, ticks in terms.items() if "communication" in name or "exposed" in name)
    assert terms["pipeline sends"] == terms["pipeline bubble"] == 0


def test_data_parallel_gradients_cost_a_ring_all_reduce_of_four_bytes_each() -> None:
    terms = parts(build(dp=8))
    expected = 2 * 7 / 8 * 4 * PLAIN.parameters() / (100 * GB) * 1e12
    assert terms["gradient synchronisation (exposed)"] == pytest.approx(expected, rel=1e-9)


def test_zero_stage_three_gathers_twice_and_reduces_once_per_micro_batch() -> None:
    terms = parts(build(dp=8, zero_stage=3))
    forward, embedding = PLAIN.parameters(), PLAIN.embedding_parameters
    moved = 7 / 8 / (100 * GB) * 1e12 * 8  # 8 micro-batches
    assert terms["weight gathers (exposed)"] == pytest.approx(2 * (2 * forward - embedding) * moved, rel=1e-8)
    assert terms["gradient synchronisation (exposed)"] == pytest.approx(4 * forward * moved, rel=1e-8)


def test_tensor_parallelism_synchronises_four_times_a_layer_and_once_at_each_end() -> None:
    terms = parts(build(tp=8, latency__0=1000))
    one = 2 * 7 / 8 * 1024 * 1024 * 2 / (100 * GB) * 1e12 + 14 * 1000
    assert terms["tensor-parallel communication"] == pytest.approx(64 * (4 * 8 + 2) * one, rel=1e-8)


def test_sequence_parallel_flag_keeps_tensor_traffic_and_saves_memory_time() -> None:
    npu = Npu("memory wall", 100 * TFLOPS, 100 * GB, 80 * GB)
    plain, scattered = parts(build(npu=npu, tp=8)), parts(build(npu=npu, tp=8, sequence_parallel=1))
    tensor = "tensor-parallel communication"
    assert scattered[tensor] == pytest.approx(plain[tensor], rel=1e-9)
    assert scattered["forward compute"] < plain["forward compute"]


def test_context_parallelism_moves_keys_and_values_three_times_a_layer() -> None:
    terms = parts(build(sp=8))
    one = 7 / 8 * 2 * 1024 * 1024 * 2 / (100 * GB) * 1e12
    assert terms["sequence-parallel communication"] == pytest.approx(64 * 8 * 3 * one, rel=1e-8)
    again = parts(build(sp=8, recompute="selective"))
    assert again["sequence-parallel communication"] == pytest.approx(64 * 8 * 4 * one, rel=1e-8)


def test_equal_stages_idle_for_a_pass_of_every_other_stage_and_twice_for_the_last() -> None:
    """Seven of eight stages work a layer w while one waits, to the tick.

    A middle stage, of w and two sends s, is slowest. The one before the last idles for the first micro-batch down and
    the last one up through six stages, 6 w + 11 s (the first sends once), and while the last stage (w, s, the head h)
    works both ways alone: twice w + s + h, less its own w + 2 s. The embedding takes no time on this NPU.
    """
    terms, alone = parts(build(pp=8)), parts(build(shape=(1,)))
    work, rest = divmod(terms["forward compute"] + terms["backward compute"], 64)
    send, head = terms["pipeline sends"] // (64 * 2), alone["embedding and head"] // 64
    assert rest == terms["embedding and head"] == 0
    before = 6 * work + 11 * send
    assert terms["pipeline bubble"] == before + 2 * (work + send + head) - (work + 2 * send)


def test_every_pass_of_a_stage_sends_twice() -> None:
    terms = parts(build(pp=8, latency__0=1000))
    one = 1024 * 1024 * 2 / (100 * GB) * 1e12 + 1000
    assert terms["pipeline sends"] == pytest.approx(64 * 2 * one, rel=1e-8)


def test_full_recompute_adds_one_forward_pass() -> None:
    terms = parts(build(shape=(1,), recompute="full"))
    assert terms["recompute"] == terms["forward compute"]


def test_blueconnect_is_bound_by_the_wider_of_two_dimensions() -> None:
    """Many chunks over (2, 8): S/B on the inner; over (8, 2): 7/8 up and down on the inner."""

    def seconds(shape: tuple[int, int]) -> float:
        terms = parts(build(shape=shape, tp=16, chunks=4096))
        return terms["tensor-parallel communication"] / (64 * 34)

    unit = 1024 * 1024 * 2 / (100 * GB) * 1e12
    assert seconds((2, 8)) == pytest.approx(unit, rel=2e-3)
    assert seconds((8, 2)) == pytest.approx(1.75 * unit, rel=2e-3)


def test_overlap_hides_all_reductions_but_the_last_bucket_behind_long_layers() -> None:
    fast = {"dp": 8, "bandwidth__0": 10**4 * GB}
    terms = parts(build(**fast, overlap_gradients=1))
    last = 2 * 7 / 8 * 4 * PLAIN.embedding_parameters / (10**4 * GB) * 1e12
    layer = 2 * 7 / 8 * 4 * PLAIN.layer_parameters / (10**4 * GB) * 1e12
    exposed = terms["gradient synchronisation (exposed)"]
    assert last <= exposed <= last + layer
    total = exposed + terms["gradient synchronisation (hidden)"]
    assert total == parts(build(**fast))["gradient synchronisation (exposed)"]


def test_optimizer_moves_thirty_bytes_per_owned_parameter() -> None:
    npu = Npu("memory wall", 10**24, 1000 * GB, 80 * GB)
    assert parts(build(npu=npu, dp=8))["optimizer"] == 30 * PLAIN.parameters()
    sharded = parts(build(npu=npu, dp=8, zero_stage=1))["optimizer"]
    assert sharded == pytest.approx(30 * PLAIN.parameters() / 8, abs=1)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.tuples(*[st.integers(0, 9)] * 3),
    st.tuples(*[st.integers(0, 9)] * 3),
    st.integers(0, 7),
)
def test_flow_shop_closed_form_equals_its_simulation(
    end: tuple[int, int, int], layer: tuple[int, int, int], count: int
) -> None:
    from cosmic_opt.simulation.analytical.sharding import _advance

    clock = _advance(_advance(_advance((0, 0, 0), 1, *end), count, *layer), 1, *end)
    assert clock[2] == flow_shop([end, *[layer] * count, end], 1, 1)


# facts


def test_doubling_layers_doubles_layer_compute() -> None:
    once, twice = parts(build(dp=8)), parts(build(replace(PLAIN, layers=16), dp=8))
    for term in ("forward compute", "backward compute"):
        assert twice[term] == 2 * once[term]


def test_without_data_or_sequence_parallelism_there_is_no_gradient_traffic() -> None:
    for zero_stage in range(4):
        terms = parts(build(tp=4, pp=2, zero_stage=zero_stage))
        assert terms["gradient synchronisation (exposed)"] == terms["weight gathers (exposed)"] == 0


def test_weight_sharded_is_zero_stage_three() -> None:
    assert parts(build(dp=8, weight_sharded=1)) == parts(build(dp=8, zero_stage=3))
    assert parts(build(dp=8, weight_sharded=0)) == parts(build(dp=8, zero_stage=0))


def test_a_network_of_65536_npus_is_scored() -> None:
    assert parts(build(shape=(16, 16, 16, 16), tp=16, dp=4096, job={"global_batch": 4096}))["step"] > 0


def test_categories_may_be_text_or_codes() -> None:
    rng = random.Random(17)
    designs = [design for design, _ in scored([random_design(rng, SHAPES[0]) for _ in range(40)], TEXT, exact=False)]
    model, batch = shared_simulator(), columns(designs)
    coded = dict(batch)
    for name, values in batch.items():
        if values.dtype.kind == "U":
            names = {text: code for code, text in enumerate(_order(name))}
            coded[name] = np.array([names[value] for value in values])
    assert (model.evaluate(coded).step_ticks == model.evaluate(batch).step_ticks).all()


def test_scheduling_policy_is_inert_and_job_defaults_are_not_columns() -> None:
    domains = {"scheduling_policy": ("fifo", "lifo"), "chunks": (1, 2)}
    network = {"npus_per_dim[0]": 8, "topology[0]": "ring", "algorithm[0]": "ring"}
    constants = {**network, "bandwidth[0]": GB, "latency[0]": 0, "dp": 8}
    model = AnalyticalSimulator(PLAIN, {"global_batch": 64}, FAST_MEMORY, 1, constants, domains)
    assert model.inert == ("scheduling_policy",)
    assert model.structural == ("chunks",)


# errors


def test_degrees_that_do_not_fill_the_network_are_infeasible() -> None:
    for degrees in ({"dp": 4}, {"dp": 16}, {"dp": 6}):
        with pytest.raises(InfeasibleError, match="do not fill"):
            build(**degrees).evaluate({})


def test_a_step_beyond_the_range_of_a_tick_is_refused_and_never_wraps() -> None:
    slow = Npu("slow", 1000, 1000, 80 * GB)
    with pytest.raises(LimitError, match="46 days"):
        build(npu=slow, dp=8).evaluate({})
    with pytest.raises(LimitError, match="46 days"):
        build(dp=8, bandwidth__0=1, latency__0=10**17).evaluate({})


def test_a_step_of_twenty_days_is_scored() -> None:
    flops = PLAIN.training_flops(64, 1024)
    npu = Npu("slow", flops // (20 * 86400), 10**24, 80 * GB)
    assert 20 < parts(build(npu=npu, shape=(1,)))["step"] / 1e12 / 86400 < 22


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"topology__0": "rong"}, "unknown topology"),
        ({"bandwidth__0": "fast"}, "whole number"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"chunks": 0, "dp": 8}, "outside the domains"),
        ({"causal_half": 2}, "causal_half"),
    ],
)
def test_a_value_that_means_nothing_is_a_spec_error(constants: dict[str, int | str], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        build(**constants).evaluate({})
    assert caught.value.hint


def test_a_missing_column_a_missing_constant_and_unequal_lengths_are_named() -> None:
    with pytest.raises(SpecError, match=r"npus_per_dim\[0\]"):
        AnalyticalSimulator(PLAIN, {"global_batch": 64}, FAST_MEMORY, 1, {}, {})
    model, batch = shared_simulator(), columns([random_design(random.Random(1), SHAPES[0])])
    with pytest.raises(SpecError, match="column 'tp' is missing"):
        model.evaluate({name: values for name, values in batch.items() if name != "tp"})
    with pytest.raises(SpecError, match="tp must be whole numbers"):
        model.evaluate({**batch, "tp": np.array([1.5])})
    with pytest.raises(SpecError, match="differ in length"):
        model.evaluate({**batch, "tp": np.array([1, 2])})


def test_npus_outside_the_domains_are_refused() -> None:
    design = random_design(random.Random(1), (64, 1, 1))
    with pytest.raises(SpecError, match="outside the domains"):
        shared_simulator().evaluate(columns([design]))


# metrics


def test_model_flop_fraction_is_at_most_one_and_throughput_follows_the_step() -> None:
    model = build(shape=(1,))
    result = model.evaluate({})
    metrics = model.metrics(result, 1)
    assert 0.9 < metrics.model_flop_fraction[0] <= 1
    assert metrics.tokens_per_s[0] == pytest.approx(64 * 1024 / metrics.step_time_s[0])
    assert model_flops(PLAIN, model.job) == PLAIN.training_flops(64, 1024)


def test_causal_half_saves_half_of_the_attention_flops() -> None:
    job = build(shape=(1,)).job
    saved = model_flops(PLAIN, job) - model_flops(PLAIN, job, causal_half=True)
    assert saved == 3 * 8 * 64 * 1024 * 512 * PLAIN.attention_flops_per_key


# compilation


def test_importing_the_package_does_not_load_numba() -> None:
    code = "import sys, cosmic_opt.simulation.analytical; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_function_compiles_where_no_cache_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    from cosmic_opt.simulation.analytical._jit import jit

    compiler = numba.njit

    def without_locator(**options: object) -> object:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return compiler(**options)

    monkeypatch.setattr(numba, "njit", without_locator)

    def double(value: int) -> int:
        return 2 * value

    assert jit(double)(21) == 42


_SHARED: list[AnalyticalSimulator] = []


def shared_simulator() -> AnalyticalSimulator:
    if not _SHARED:
        _SHARED.append(simulator(TEXT, 3, SHAPES))
    return _SHARED[0]


def _order(name: str) -> tuple[str, ...]:
    from cosmic_opt.simulation.analytical.layout import CATEGORIES

    return CATEGORIES[name.split("[")[0]]
