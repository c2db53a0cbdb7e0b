"""The simulator of served models: its metrics are the calibrated functions', its ticks add up, its limits hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.search.score import simulator_of
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.simulation.calibrated.disaggregated import disaggregated
from cosmic_opt.simulation.calibrated.servers import OneServer
from cosmic_opt.simulation.calibrated.serving import batch_terms, cosmic_terms, steady_state, total_s
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator

NAME = "llama3-70b/h100-8-serving"
POOLS = "llama3-70b/h200-16-pools-serving"
(EVERY,) = Problem.load(NAME).enumerate()


def simulator(problem: Problem) -> ServingSimulator:
    found = simulator_of(problem.instance)
    assert isinstance(found, ServingSimulator)
    return found


def metric(problem: Problem, name: str) -> float:
    return float(problem.simulate(problem.baseline()).metrics[name] or 0)


def test_the_metrics_of_every_point_are_those_of_the_steady_state() -> None:
    own = simulator(Problem.load(NAME))
    columns = EVERY.value_columns()
    designs = ServingDesigns.of(**{name: columns[name] for name in ("tp", "pp", "ep", "dp", "batch")})
    state = steady_state(own.setup, designs, own.serving.requests)
    found = own.metrics(columns)
    np.testing.assert_allclose(found["first_token_time_s"], state.first_token_s, rtol=1e-9)
    np.testing.assert_allclose(found["output_token_time_s"], state.output_token_s, rtol=1e-9)
    np.testing.assert_allclose(found["throughput_tokens_per_s"], state.output_tokens_per_s, rtol=1e-9)
    np.testing.assert_allclose(found["throughput_tokens_per_s_per_npu"], state.output_tokens_per_s_per_gpu, rtol=1e-9)
    np.testing.assert_allclose(found["users"], designs.dp * state.batch)
    for name, terms in (("batch_time_s", batch_terms), ("cosmic_time_s", cosmic_terms)):
        np.testing.assert_allclose(found[name], total_s(terms(own.setup, designs, own.serving.requests)), rtol=1e-9)


def test_the_metrics_of_two_pools_are_those_of_the_function() -> None:
    problem = Problem.load(POOLS)
    own, batch = simulator(problem), problem.sample(200, seed=1)
    columns, requests = batch.value_columns(), simulator(problem).serving.requests
    first, second = (
        ServingDesigns.of(**{knob: columns.get(f"{pool}_{knob}", 1) for knob in ("tp", "pp", "ep", "dp", "batch")})
        for pool in ("prefill", "decode")
    )
    pools = disaggregated(own.setup, first, own.setup, second, requests)
    found = own.metrics(columns)
    np.testing.assert_allclose(found["first_token_time_s"], pools.first_token_s, rtol=1e-9)
    np.testing.assert_allclose(found["output_token_time_s"], pools.output_token_s, rtol=1e-9)
    np.testing.assert_allclose(found["requests_per_s"], pools.requests_per_s, rtol=1e-9)
    np.testing.assert_allclose(found["throughput_tokens_per_s_per_npu"], pools.output_tokens_per_s_per_gpu, rtol=1e-9)
    assert set(pools.decode_share >= 1) == {True, False}
    np.testing.assert_array_equal(found["users"], np.rint(pools.requests))
    assert found["users"].min() >= 1


def test_between_tokens_of_short_answers_lies_the_prefill_of_all_newcomers_but_the_own() -> None:
    """32 answers of 8 tokens take a cycle of 949.2 ms, of which 42.6 ms read the own prompt: 7 gaps of 129.5 ms."""
    problem = Problem.load("llama3-70b/h200-8-serving").set(prompt=1000, output=8).fix(dp=1, tp=8, pp=1, batch=32)
    report = problem.simulate(problem.baseline())
    cycle, own = 32 / float(report.metrics["requests_per_s"] or 1), report.first_token_s["prefill"]
    assert (cycle, own) == (pytest.approx(949.2e-3, rel=1e-3), pytest.approx(42.6e-3, rel=1e-3))
    assert report.metrics["output_token_time_s"] == pytest.approx((cycle - own) / 7, rel=1e-9)


def test_replicas_that_are_alike_are_computed_once_and_alike() -> None:
    own, columns = simulator(Problem.load(NAME)), EVERY.value_columns()
    server = own.server(columns)
    assert isinstance(server, OneServer)
    alone = steady_state(own.setup, server.designs, own.serving.requests)
    assert len(server.state.batch) < len(EVERY)
    for name, each in server.output_token_time().items():
        np.testing.assert_array_equal(each, alone.token[name])


@pytest.mark.parametrize("name", [NAME, POOLS, "deepseek-v3/h200-8-serving"])
@pytest.mark.parametrize(
    "objective", ["throughput", "throughput_per_npu", "first_token_time", "batch_time", "cosmic_time"]
)
def test_the_terms_of_every_score_add_up_to_the_tick(name: str, objective: str) -> None:
    problem = Problem.load(name).objective(objective)
    evaluation = simulator(problem).evaluate(problem.sample(50, seed=3).value_columns())
    assert np.array_equal(evaluation.terms.sum(axis=1), evaluation.step_ticks)
    assert evaluation.terms.shape[1] == len(simulator(problem).terms)


def test_the_breakdowns_of_a_report_add_up_and_the_interval_holds_the_token() -> None:
    for name in (NAME, POOLS):
        report = Problem.load(name).simulate(Problem.load(name).baseline())
        token, first = report.metrics["output_token_time_s"], report.metrics["first_token_time_s"]
        assert sum(round(seconds * 1e12) for seconds in report.terms_s.values()) == round(float(token or 0) * 1e12)
        assert sum(round(part * 1e12) for part in report.first_token_s.values()) == round(float(first or 0) * 1e12)
        assert report.prediction is not None
        low, high = report.prediction.interval
        assert low < float(token or 0) < high


def test_a_limit_takes_the_time_of_what_breaks_it_unless_asked_strictly() -> None:
    free, limited = (
        simulator(p) for p in (Problem.load(NAME), Problem.load(NAME).require("output_token_time <= 30 ms"))
    )
    columns = EVERY.value_columns()
    slow = free.metrics(columns)["output_token_time_s"] > 30e-3
    ticks = limited.evaluate(columns, strict=False).step_ticks
    assert 0 < slow.sum() < len(slow)
    assert np.array_equal(ticks == NO_TIME, slow)
    assert np.array_equal(limited.evaluate(columns).step_ticks, free.evaluate(columns).step_ticks)


@pytest.mark.parametrize(
    ("rule", "metric_name", "holds"),
    [
        ("first_token_time <= 100 ms", "first_token_time_s", lambda value: value <= 0.1),
        ("throughput >= 2000", "throughput_tokens_per_s", lambda value: value >= 2000),
        ("throughput_per_npu > 300", "throughput_tokens_per_s_per_npu", lambda value: value > 300),
        ("batch_time < 5 s", "batch_time_s", lambda value: value < 5),
        ("cosmic_time <= 5 s", "cosmic_time_s", lambda value: value <= 5),
    ],
)
def test_a_rule_keeps_exactly_the_designs_whose_metric_obeys(rule, metric_name, holds) -> None:  # type: ignore[no-untyped-def]
    problem = Problem.load(NAME)
    obeying = holds(simulator(problem).metrics(EVERY.value_columns())[metric_name])
    kept = np.concatenate([batch.codes for batch in problem.require(rule).enumerate()])
    assert 0 < len(kept) < len(EVERY)
    assert np.array_equal(kept, EVERY.codes[obeying])


def test_a_design_on_which_nothing_fits_is_infeasible_by_name() -> None:
    problem = Problem.load("llama3-405b/h100-8-serving").without("fits").fix(tp=1)
    with pytest.raises(InfeasibleError, match="no sequence fits"):
        problem.simulate(problem.baseline())
    assert simulator(problem).evaluate(problem.baseline().value_columns(), strict=False).step_ticks[0] == NO_TIME


def test_a_time_beyond_the_clock_is_refused() -> None:
    problem = (
        Problem.load(NAME).set(prompt=10**7, memory_capacity="100 PB", peak="1 GFLOPS").objective("first_token_time")
    )
    with pytest.raises(LimitError, match="46 days"):
        problem.simulate(problem.baseline())


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SpecError, match="'tp' is missing"):
        simulator(Problem.load(NAME)).evaluate({"dp": np.array([1])})


# --- mechanisms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("datum", ["memory_bandwidth", "bandwidth[0]", "peak"])
def test_more_of_the_hardware_never_slows(datum: str) -> None:
    own = Problem.load(NAME).objective("output_token_time")
    units = {"peak": "TFLOPS"}.get(datum, "GB/s")
    amounts = (50, 200, 450, 900, 1800, 3350, 8000)
    for name in ("first_token_time_s", "output_token_time_s"):
        times = [metric(own.set(**{datum: f"{amount} {units}"}), name) for amount in amounts]
        assert all(later <= earlier for earlier, later in pairwise(times))
        assert times[-1] < times[0]


def test_faster_network_cards_never_slow_a_replica_that_spans_nodes() -> None:
    problem = Problem.load("llama3-70b/h100-8-serving").set(npus=16).fix(dp=1, tp=8, pp=2)
    rates = [f"{rate} GB/s" for rate in (5, 12, 25, 50, 100)]
    times = [metric(problem.set(**{"bandwidth[1]": rate}), "output_token_time_s") for rate in rates]
    assert all(later <= earlier for earlier, later in pairwise(times))
    assert times[-1] < times[0]


@given(
    st.sampled_from([NAME, "llama3-8b/h200-8-serving", "mixtral-8x7b/h100-8-serving", "deepseek-v3/h200-8-serving"]),
    st.integers(0, 10**9),
)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_a_larger_batch_never_lowers_the_rate_by_two_percent_nor_the_time_between_tokens(name: str, seed: int) -> None:
    """Without stages, whose micro-batches are cut as a batch divides."""
    problem = Problem.load(name).fix(pp=1)
    point = next(problem.sample(1, seed=seed).points())
    batches = problem.parameter_set.column("batch").values
    every = {key: np.full(len(batches), value) for key, value in point.items()} | {"batch": np.array(batches)}
    found = simulator(problem).metrics(every)
    alone = found["users"] < np.array(batches) * int(point["dp"]) * int(point["ep"])  # more than fits changes nothing
    rates, times = found["throughput_tokens_per_s"][~alone], found["output_token_time_s"][~alone]
    assert np.all(rates[1:] >= 0.98 * rates[:-1])
    assert np.all(times[1:] >= times[:-1])


def test_replicas_multiply_the_rate_and_change_no_time() -> None:
    problem = Problem.load("llama3-8b/h100-8-serving").fix(tp=1, pp=1, batch=64)
    one, eight = (problem.fix(dp=dp) for dp in (1, 8))
    assert metric(eight, "throughput_tokens_per_s") == pytest.approx(8 * metric(one, "throughput_tokens_per_s"))
    assert metric(eight, "output_token_time_s") == metric(one, "output_token_time_s")
    assert metric(eight, "throughput_tokens_per_s_per_npu") == metric(one, "throughput_tokens_per_s_per_npu")


def test_pools_keep_prefill_out_of_the_time_between_tokens() -> None:
    report = Problem.load(POOLS).simulate(Problem.load(POOLS).baseline())
    assert report.terms_s["prefill"] == 0
    assert report.first_token_s["transfer"] > 0
    assert "no pair of pools was measured" in report.prediction.extrapolates  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "batch", "flag"),
    [
        ("llama3-70b/h200-8-serving", 1, "no measured latency of a given batch"),
        ("llama3-70b/h200-8-serving", 64, "no measured latency of a given batch"),
        ("llama3-70b/h100-8-serving", 32, None),
        ("llama3-70b/h100-8-serving", 256, "no measured saturated server"),  # all that the engine admits
    ],
)
def test_a_batch_below_what_is_admitted_counts_as_a_latency(name: str, batch: int, flag: str | None) -> None:
    problem = Problem.load(name).fix(tp=4, dp=2, pp=1, ep=1, batch=batch)
    (points,) = problem.enumerate()
    found = simulator(problem).predict(points.value_columns())
    said = [each for each in found.extrapolates if each.startswith("no measured")]
    assert (len(said), bool(flag) and flag in "".join(said)) == ((1, True) if flag else (0, False))
