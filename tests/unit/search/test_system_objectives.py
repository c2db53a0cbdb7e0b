"""What a system costs and draws, as objective, rule and front, against every design tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.analysis.what_if import answer, what_if
from cosmic_opt.api import Problem
from cosmic_opt.search.objective import energy_of
from cosmic_opt.search.report import Report
from cosmic_opt.search.verify import verify
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.units import TICKS_PER_SECOND
from tests.unit.catalog.files import write

TRAINED, SERVED = Problem.load("llama3-70b/h100-64"), Problem.load("llama3-70b/h100-8-serving")


def small(folder: Path) -> Problem:
    """Eight NPUs of 1,000 $ and 300 W; every block and bandwidth free."""
    return Problem.load(str(write(folder))).set(device_price="1000 $", device_power="300 W")


def own_score(problem: Problem) -> Report:
    return problem.simulate(problem.parameter_set.design(problem.instance.baseline))


def columns(problem: Problem, *names: str) -> list[np.ndarray]:
    """Metrics of every feasible design."""
    source = problem.designs(*names)
    block = source.block(0, source.size)
    return [np.array(metric.plain(), dtype=float) for metric in block.metrics]


def test_energy_is_board_power_times_time() -> None:
    metrics = own_score(TRAINED).metrics
    assert metrics["system_power_w"] == 64 * 700
    assert metrics["energy_j"] == pytest.approx(64 * 700 * float(metrics["step_time_s"] or 0), rel=1e-12)


def test_energy_of_a_token_is_board_power_over_throughput() -> None:
    metrics = own_score(SERVED).metrics
    rate = float(metrics["throughput_tokens_per_s"] or 0)
    assert metrics["energy_per_token_j"] == pytest.approx(8 * 700 / rate, rel=1e-12)
    assert metrics["system_cost"] == 8 * 30_000 + int(metrics["network_cost"] or 0)


def test_energy_of_ticks_is_exact() -> None:
    assert energy_of(TICKS_PER_SECOND, TRAINED.parameter_set) == 64 * 700 * 10**6
    assert energy_of(1000 * TICKS_PER_SECOND, SERVED.parameter_set) == 8 * 700 * 10**6


@pytest.mark.parametrize("objective", ["step_time * system_cost", "energy"])
def test_a_small_space_is_solved_as_by_trying_every_design(tmp_path: Path, objective: str) -> None:
    problem = small(tmp_path).objective(objective)
    step, cost, energy = columns(problem, "step_time", "system_cost", "energy")
    outcome = problem.solve()
    assert outcome.status is SolveStatus.OPTIMAL
    assert outcome.value is not None
    best = (energy if objective == "energy" else step * cost).min()
    assert outcome.objective.show(outcome.value) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("percentile", [3, 50, 90])
def test_rules_on_cost_and_energy_leave_what_trying_every_design_leaves(tmp_path: Path, percentile: int) -> None:
    problem = small(tmp_path)
    step, cost, energy = columns(problem.objective("step_time * system_cost"), "step_time", "system_cost", "energy")
    dollars, joules = int(np.percentile(cost, percentile)), float(np.percentile(energy, percentile))
    limited = problem.require(f"system_cost <= {dollars} $", f"energy <= {round(joules * 1e6)} uJ")
    allowed = (cost <= dollars) & (energy * 1e6 <= round(joules * 1e6))
    outcome = limited.solve()
    assert sum(len(batch) for batch in limited.enumerate()) == allowed.sum()
    if allowed.any():
        assert outcome.value is not None
        assert outcome.objective.show(outcome.value) == pytest.approx(step[allowed].min(), rel=1e-12)
    else:
        assert outcome.status is SolveStatus.INFEASIBLE


def test_the_cheapest_system_within_a_time_is_that_of_every_design(tmp_path: Path) -> None:
    problem = small(tmp_path)
    step, cost = columns(problem.objective("step_time * system_cost"), "step_time", "system_cost")
    limit = float(np.median(step))
    optimum = problem.require(f"step_time <= {round(limit * 1e12)} ps").optimise("system_cost")
    assert optimum.status is SolveStatus.OPTIMAL
    assert optimum.value == cost[step <= round(limit * 1e12) / 1e12].min()


def test_the_front_of_time_and_system_cost_is_that_of_every_design(tmp_path: Path) -> None:
    problem = small(tmp_path)
    step, cost = columns(problem.objective("step_time * system_cost"), "step_time", "system_cost")
    points = sorted(set(zip(np.rint(step * 1e12), cost, strict=True)))
    front, least = [], np.inf
    for ticks, dollars in points:
        if dollars < least:
            front.append((ticks, dollars))
            least = dollars
    found = problem.pareto("system_cost")
    assert list(zip(found.step_ticks.tolist(), found.amounts[:, 0].tolist(), strict=True)) == front


@pytest.mark.parametrize("solver", ["exhaustive", "cp_sat", "milp"])
def test_every_solver_finds_the_least_energy(solver: str) -> None:
    (energy,) = columns(SERVED, "energy")
    optimum = SERVED.optimise("energy", solver=solver)
    assert float(optimum.value or 0) / 1e6 == pytest.approx(energy.min(), rel=1e-12)


def test_a_limit_on_the_energy_of_a_token_is_one_on_its_time() -> None:
    (energy,) = columns(SERVED, "energy")
    limit = round(float(np.median(energy)) * 1e6)
    limited = SERVED.require(f"energy <= {limit} uJ")
    assert sum(len(batch) for batch in limited.enumerate()) == (energy * 1e6 <= limit).sum()
    best = limited.optimise("npus_used")
    assert best.status is SolveStatus.OPTIMAL
    assert limited.fix(next(best.design.points())).solve().status is SolveStatus.OPTIMAL


def test_energy_may_be_an_axis_of_a_served_models_front() -> None:
    energy, wait = columns(SERVED, "energy", "output_token_time")
    front = SERVED.pareto("energy", "output_token_time")
    assert front.scored.show(int(front.step_ticks[0])) == pytest.approx(energy.min(), rel=1e-12)
    assert len(front.designs) > 1
    assert front.amounts[:, 0].min() / 1e12 == pytest.approx(wait.min(), rel=1e-9)


@pytest.mark.parametrize("objective", ["step_time * system_cost", "energy"])
def test_other_numbers_of_npus_are_answered_as_by_themselves(objective: str) -> None:
    for npus in (32, 128):
        problem = TRAINED.set(npus=npus).objective(objective)
        step, cost, energy = columns(problem, "step_time", "system_cost", "energy")
        outcome = answer(problem.instance).outcome
        best = (energy if objective == "energy" else step * cost).min()
        assert outcome.value is not None
        assert outcome.objective.show(outcome.value) == pytest.approx(best, rel=1e-12)
        assert set(cost) == {npus * (30_000 + 10_520)}


@pytest.mark.parametrize("change", [{"device_price": "0 $"}, {"device_price": "90000 $"}, {"price_rule": "libra"}])
def test_another_price_is_answered_as_by_a_search_of_its_own(tmp_path: Path, change: dict[str, str]) -> None:
    problem = small(tmp_path).objective("step_time * system_cost")
    changed = problem.set(**change)
    step, cost = columns(changed, "step_time", "system_cost")
    outcome = what_if(problem.instance, changed.instance).changed.outcome
    assert outcome.value is not None
    assert outcome.objective.show(outcome.value) == pytest.approx((step * cost).min(), rel=1e-12)


@pytest.mark.parametrize("objective", ["step_time * system_cost", "energy"])
def test_an_answer_about_a_system_is_certified(tmp_path: Path, objective: str) -> None:
    problem = small(tmp_path).objective(objective).require("system_cost <= 30000 $", "energy <= 1 MJ")
    certificate = problem.certificate(problem.solve())
    assert certificate.status is SolveStatus.OPTIMAL
    checks = verify(certificate, samples=64)
    assert all(check.passed for check in checks), checks


def test_a_certificate_of_other_prices_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path, "parts/prices.yaml", "tiers:", "devices: {own: 1000 $}\ntiers:")
    problem = Problem.load(str(path)).objective("step_time * system_cost")
    certificate = problem.certificate(problem.solve())
    write(tmp_path, "parts/prices.yaml", "tiers:", "devices: {own: 1001 $}\ntiers:")
    assert "problem" in {check.name for check in verify(certificate, samples=16) if not check.passed}


def test_the_least_energy_that_explain_asks_for_is_enough(tmp_path: Path) -> None:
    problem = small(tmp_path)
    repairs = problem.require("energy <= 1 uJ").explain().repairs
    (change,) = next(repair.relaxation.changes for repair in repairs if repair.edits.require)
    (energy,) = columns(problem, "energy")
    assert change.new == int(np.ceil(energy.min() * 1e6))
