"""Search by scoring every design, against a plain loop over all of them; and the calibrated instances it is for."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.api import Problem
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.store import data_root, instance_names
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.search import every
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.certificate import read_certificate
from cosmic_opt.search.executor import threads
from cosmic_opt.search.score import simulator_of
from cosmic_opt.search.verify import verify
from cosmic_opt.solvers.base import SolveStatus

NAME = "llama3-70b/h100-64"


def ranked(problem: Problem) -> list[tuple[int, tuple[int, ...]]]:
    """Every design by (step, code), from text columns, one simulator call."""
    codes = np.concatenate([batch.codes for batch in problem.enumerate()])
    batch = problem.parameter_set.batch(codes)
    ticks = simulator_of(problem.instance).evaluate(batch.value_columns()).step_ticks
    return sorted((int(tick), tuple(code)) for tick, code in zip(ticks, codes.tolist(), strict=True))


@pytest.mark.parametrize("name", [NAME, "mixtral-8x22b/h100-128", "llama3-8b/h200-32-fsdp"])
def test_solve_finds_what_a_loop_over_every_design_finds(name: str) -> None:
    problem = Problem.load(name)
    best, codes = ranked(problem)[0]
    outcome = problem.solve()
    assert outcome.status is SolveStatus.OPTIMAL
    assert (outcome.value, outcome.bound, outcome.gap) == (best, best, 0.0)
    assert tuple(outcome.design.codes[0].tolist()) == codes
    assert outcome.evaluations == outcome.feasible_designs == problem.count().value
    assert outcome.regions == 0


def test_chunks_workers_and_given_designs_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.load(NAME)
    whole = problem.solve(engine=threads(1))
    worst = problem.parameter_set.batch(np.array([ranked(problem)[-1][1]], dtype=np.int32))
    monkeypatch.setattr(every, "CHUNK", 100)
    cut = problem.solve(engine=threads(2), start=list(worst.points()))
    assert np.array_equal(cut.design.codes, whole.design.codes)
    assert cut.proof is not None
    assert len(cut.proof.blocks) == -(-whole.feasible_designs // 100)
    assert sum(block.designs for block in cut.proof.blocks) == whole.feasible_designs


def test_the_best_few_and_those_within_a_share_are_those_of_the_loop() -> None:
    problem = Problem.load(NAME)
    order, near = ranked(problem), problem.near(problem.solve())
    top = near.top(7)
    assert list(top.values) == [value for value, _ in order[:7]]
    assert [tuple(row) for row in top.designs.codes.tolist()] == [code for _, code in order[:7]]
    limit = order[0][0] * 105 // 100
    within = near.within("5%")
    assert within.exact
    assert within.designs == sum(value <= limit for value, _ in order)
    for knob in within.parameters:
        assert sum(knob.values.values()) == within.designs


def test_a_limit_on_the_step_is_enforced_and_counted() -> None:
    problem = Problem.load(NAME)
    order = ranked(problem)
    middle = order[100][0]
    limited = problem.require(f"step_time <= {middle} ps")
    count = limited.count()
    assert count.exact
    assert count.value == sum(value <= middle for value, _ in order)
    assert limited.solve().value == order[0][0]
    assert problem.require(f"step_time < {order[0][0]} ps").solve().status is SolveStatus.INFEASIBLE


def test_a_spent_budget_leaves_the_best_so_far_without_a_bound() -> None:
    problem = Problem.load(NAME)
    outcome = problem.solve(budget=Budget(evaluations=50))
    assert outcome.status is SolveStatus.FEASIBLE
    assert (outcome.evaluations, outcome.bound) == (50, None)
    assert outcome.value is not None
    assert outcome.value >= ranked(problem)[0][0]
    with pytest.raises(SpecError, match="not scored"):
        problem.certificate(outcome)


def test_too_many_designs_are_left_to_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "EVERY_LIMIT", 100)
    problem = Problem.load(NAME)
    with pytest.raises(LimitError, match="at most 100") as caught:
        problem.solve()
    assert "--agent" in (caught.value.hint or "")
    alone = problem.solve(agent="genetic", budget=Budget(evaluations=200))
    assert alone.status is SolveStatus.FEASIBLE


def test_a_certificate_is_derived_again_and_a_wrong_one_is_not_accepted() -> None:
    problem = Problem.load(NAME)
    certificate = read_certificate(problem.certificate(problem.solve()).text(), "own")
    assert all(check.passed for check in verify(certificate, samples=64))
    assert certificate.proof is not None
    (block,) = certificate.proof.blocks
    assert block.least is not None
    wrong = replace(certificate.proof, blocks=(block._replace(least=block.least - 1),))
    failed = {check.name for check in verify(replace(certificate, proof=wrong), samples=64) if not check.passed}
    assert failed == {"scores"}


def test_the_front_holds_exactly_what_nothing_beats() -> None:
    problem = Problem.load(NAME)
    front = problem.pareto("memory_per_npu")
    codes = np.concatenate([batch.codes for batch in problem.enumerate()])
    batch = problem.parameter_set.batch(codes)
    steps = simulator_of(problem.instance).evaluate(batch.value_columns()).step_ticks
    (term,) = front.quantities[0].terms
    memory = term.evaluate({name: batch.values(name) for name in term.names})
    points = np.unique(np.column_stack([steps, memory]), axis=0)
    beaten = [((points <= one).all(axis=1) & (points != one).any(axis=1)).any() for one in points]
    expected = points[~np.array(beaten)]
    assert np.array_equal(np.column_stack([front.step_ticks, front.amounts]), expected)
    three = problem.pareto("memory_per_npu", "total_bandwidth")
    assert np.array_equal(three.amounts[:, 0], front.amounts[:, 0])


def test_what_if_names_the_term_that_moved() -> None:
    problem = Problem.load(NAME)
    difference = problem.what_if(problem.set(**{"bandwidth[1]": "400 GB/s"}))
    before, after = difference.metrics["step_time_s"]
    assert before is not None
    assert after is not None
    assert after <= before
    assert set(difference.terms_s) == set(simulator_of(problem.instance).terms)


def test_a_dead_knob_is_named_and_live_ones_have_a_witness() -> None:
    knobs = Problem.load(NAME).dead_knobs()
    assert "recompute" in knobs.live
    assert knobs.dead == ()


# --- the shipped instances -------------------------------------------------------------------------------------

CALIBRATED = [name for name in instance_names() if isinstance(Problem.load(name).instance.calibrated, Calibrated)]


def test_the_models_and_machines_of_a_practitioner_are_shipped() -> None:
    assert len(CALIBRATED) >= 12


@pytest.mark.parametrize("name", CALIBRATED)
def test_the_breakdown_of_every_shipped_design_adds_up_and_the_interval_holds_it(name: str) -> None:
    problem = Problem.load(name)
    report = problem.simulate(problem.baseline())
    step = report.metrics["step_time_s"]
    assert step is not None
    assert sum(round(seconds * 1e12) for seconds in report.terms_s.values()) == round(step * 1e12)
    assert report.prediction is not None
    low, high = report.prediction.interval
    assert low < step < high
    assert report.memory.total_bytes[0] == report.metrics["memory_bytes"]


@pytest.mark.parametrize(
    ("row_id", "name", "changes"),
    [
        ("mlperf-ad368cbd", "gpt3-175b/h100-1536", {"vocabulary": "51200"}),
        ("mlperf-0534fcec", "llama3-405b/h200-1024", {}),
    ],
)
def test_an_instance_predicts_what_validation_predicts_of_the_same_run(
    row_id: str, name: str, changes: dict[str, str]
) -> None:
    path = data_root() / "benchmarks" / "data" / "training.json"
    (row,) = (row for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if row["id"] == row_id)
    problem = Problem.load(name).without("fits").fix(recompute="none").set(**changes)
    report = problem.simulate(problem.baseline())
    assert report.metrics["step_time_s"] == pytest.approx(predict_training(row).predicted, rel=1e-11)
    assert report.metrics["step_time_s"] == pytest.approx(row["value"], rel=0.05)


# --- mechanisms ------------------------------------------------------------------------------------------------


def step_s(problem: Problem) -> float:
    step = problem.simulate(problem.baseline()).metrics["step_time_s"]
    assert step is not None
    return float(step)


def test_more_bandwidth_never_slows_a_step() -> None:
    problem = Problem.load("deepseek-v3/h100-1024")
    for link in (0, 1):
        rates = [f"{rate} GB/s" for rate in (10, 25, 37, 40, 50, 100, 400, 900)]
        steps = [step_s(problem.set(**{f"bandwidth[{link}]": rate})) for rate in rates]
        assert all(later <= earlier for earlier, later in pairwise(steps))
        assert steps[-1] < steps[0]


def test_doubling_the_batch_hardly_lowers_throughput() -> None:
    problem = Problem.load(NAME)
    rates = [batch / step_s(problem.set(global_batch=batch)) for batch in (64, 128, 256, 512)]
    assert all(later >= 0.98 * earlier for earlier, later in pairwise(rates))


def test_more_recompute_takes_longer_and_less_memory() -> None:
    problem = Problem.load("deepseek-v3/h100-1024").without("fits")
    reports = [problem.fix(recompute=name) for name in ("none", "selective", "full")]
    scored = [each.simulate(each.baseline()) for each in reports]
    times, bytes_ = ([float(each.metrics[name] or 0) for each in scored] for name in ("step_time_s", "memory_bytes"))
    assert times == sorted(times)
    assert bytes_ == sorted(bytes_, reverse=True)
    assert bytes_[0] == bytes_[1]  # flash attention keeps no scores that selective recompute could drop


def test_one_replica_exchanges_no_gradients() -> None:
    problem = Problem.load(NAME).fix(dp=1, cp=1, tp=8, pp=8)
    assert problem.simulate(problem.baseline()).terms_s["gradients"] == 0


@pytest.mark.parametrize("stack", ["megatron-2021", "megatron-te-2025"])
def test_tensor_parallelism_beyond_the_node_is_slower_than_within_it(tmp_path: Path, stack: str) -> None:
    steps = []
    for gpus in (16, 8):
        path = tmp_path / f"node{gpus}.yaml"
        outside = "{topology: switch, npus: 8, bandwidth: 50 GB/s, latency: 1 us}"
        inside = f"{{topology: switch, npus: {gpus}, bandwidth: 450 GB/s, latency: 1 us}}"
        path.write_text(
            "schema: cosmic-opt/instance@1\nmodel: megatron\nworkload: llama3-70b\n"
            f"system: {{name: own, device: h100-sxm, dimensions: [{inside}, {outside}]}}\n"
            f"stack: {stack}\njob: {{global_batch: 128}}\ndata: {{npus: 64}}\nscope: framework\n"
            "design: {dp: 1, tp: 16, pp: 4, cp: 1, ep: 1, interleave: 1, micro_batch: 1, recompute: full, "
            "zero_stage: 1, sequence_parallel: 1}\n",
            encoding="utf-8",
        )
        steps.append(step_s(Problem.load(str(path))))
    assert steps[0] < steps[1]


def test_agents_and_samples_stay_within_the_rules() -> None:
    problem = Problem.load("mixtral-8x7b/h100-64")
    batch = problem.sample(50, seed=3)
    for point in batch.points():
        assert problem.violations(problem.parameter_set.design(point)) == []
        dp, tp, cp, ep = (int(point[name]) for name in ("dp", "tp", "cp", "ep"))
        assert dp * tp * cp % ep == 0
        assert 8 % ep == 0


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("whole_batch", {"global_batch": 127}),
        ("whole_sequence", {"seq": 8190}),
        ("world_size", {"npus": 96}),
    ],
)
def test_a_broken_rule_of_the_framework_is_named(rule: str, changes: dict[str, int]) -> None:
    problem = Problem.load(NAME).without("fits").set(**changes)
    if rule == "whole_sequence":
        problem = problem.fix(cp=2, dp=1, sequence_parallel=0)
    assert rule in {each.name for each in problem.violations(problem.baseline())}


def test_what_needs_regions_or_events_is_refused_with_a_reason() -> None:
    from cosmic_opt.search.events import event_report

    problem = Problem.load(NAME)
    with pytest.raises(SpecError, match="analytical simulator only"):
        event_report(problem.instance, problem.baseline())
