from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.outcome import LogLine, Stop
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.search.spaces import BASE, LARGE, RINGS, SPACES, SYSTEM1, brute_force, scorer_of


@pytest.mark.parametrize("name", SPACES)
def test_solve_returns_the_brute_force_optimum_with_the_least_code(name: str) -> None:
    problem = SPACES[name]
    assert 10**3 < problem.feasible.size < 10**6
    outcome = problem.solve()
    expected = brute_force(problem)
    assert expected is not None
    assert (outcome.status, outcome.stop, outcome.gap) == (SolveStatus.OPTIMAL, Stop.PROVED, 0.0)
    assert outcome.value == outcome.bound == expected.value
    assert tuple(outcome.design.codes[0]) == expected.code


def test_three_of_the_spaces_have_between_1e5_and_1e6_designs() -> None:
    assert sum(10**5 <= problem.feasible.size <= 10**6 for problem in SPACES.values()) >= 3


@pytest.mark.slow
def test_solve_agrees_with_brute_force_on_a_million_designs() -> None:
    outcome, expected = LARGE.solve(), brute_force(LARGE)
    assert expected is not None
    assert LARGE.feasible.size > 10**6
    assert (outcome.value, tuple(outcome.design.codes[0])) == (expected.value, expected.code)


@pytest.mark.parametrize("objective", ["step_time", "step_time * total_bandwidth", "step_time * network_cost"])
def test_the_full_stack_of_gpt3_on_system_2_is_proved_optimal(objective: str) -> None:
    outcome = Problem.load("cosmic/gpt3-175b-system2").objective(objective).solve()
    assert outcome.status is SolveStatus.OPTIMAL
    assert outcome.value == outcome.bound
    assert outcome.feasible_designs == 10_865_885_184_000


def test_throughput_and_step_time_have_the_same_optimum() -> None:
    by_time = SPACES["a budget and a lower limit"].solve()
    by_rate = SPACES["a budget and a lower limit"].objective("throughput").solve()
    assert np.array_equal(by_time.design.codes, by_rate.design.codes)
    assert by_time.value is not None
    assert by_rate.value is not None
    assert by_rate.objective.show(by_rate.value) == pytest.approx(1024 / by_time.objective.show(by_time.value))


def test_every_seed_and_every_repeat_give_the_same_answer() -> None:
    problem = SPACES["an order between dimensions, naive dominance fails"]
    codes = [problem.solve(seed=seed).design.codes.tolist() for seed in (0, 1, 2, 0)]
    assert codes[0] == codes[1] == codes[2] == codes[3]


def test_an_empty_problem_is_infeasible_and_has_no_design() -> None:
    outcome = SYSTEM1.require("tp == 3").solve()
    assert (outcome.status, outcome.stop, len(outcome.design)) == (SolveStatus.INFEASIBLE, Stop.PROVED, 0)


def test_an_impossible_step_limit_is_proved_infeasible() -> None:
    outcome = SPACES["a limit on the step"].require("step_time <= 1 ms").solve()
    assert (outcome.status, outcome.value) == (SolveStatus.INFEASIBLE, None)


@pytest.mark.parametrize("rule", ["step_time >= 1 s", "step_time <= 1 s or tp == 1", "step_time == 3 s"])
def test_a_simulated_rule_that_is_no_limit_on_the_step_is_refused(rule: str) -> None:
    with pytest.raises(SpecError, match="not a limit on the step"):
        SYSTEM1.require(rule).solve()


def test_a_throughput_rule_limits_the_step_exactly() -> None:
    problem = BASE.fix(RINGS).require("sp == 1", "tp <= 4", "bandwidth[3] <= 200 GB/s")
    problem = problem.objective("step_time * total_bandwidth")
    fast = problem.require("throughput >= 90").solve()
    assert fast.scores is not None
    assert 1024 / (fast.scores.evaluation.step_ticks[0] / 10**12) >= 90
    expected = brute_force(problem.require("throughput >= 90"))
    assert expected is not None
    assert fast.value == expected.value


def test_bound_and_incumbent_enclose_the_optimum_in_every_log_line() -> None:
    lines: list[LogLine] = []
    outcome = SPACES["structure limits options"].solve(log=lines.append)
    assert outcome.value is not None
    assert lines[-1].bound == lines[-1].incumbent == outcome.value
    for line in lines:
        assert line.incumbent is None or line.incumbent >= outcome.value
        assert line.bound is None or line.bound <= outcome.value
    assert [line.seconds for line in lines] == sorted(line.seconds for line in lines)


def test_a_spent_node_budget_leaves_a_feasible_design_and_an_honest_bound() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system3").objective("step_time * network_cost")
    outcome = problem.solve(budget=Budget(evaluations=6144 + 50))
    assert (outcome.status, outcome.stop) == (SolveStatus.FEASIBLE, Stop.EVALUATIONS)
    assert outcome.value is not None
    assert outcome.bound is not None
    assert outcome.gap is not None
    assert outcome.bound < outcome.value
    assert outcome.gap > 0
    assert problem.violations(outcome.design) == []


@pytest.mark.parametrize("agent", ["random", "genetic"])
def test_an_agent_alone_finds_a_feasible_design_and_proves_nothing(agent: str) -> None:
    outcome = SYSTEM1.solve(agent=agent, budget=Budget(evaluations=1000))
    assert (outcome.status, outcome.stop, outcome.bound) == (SolveStatus.FEASIBLE, Stop.EVALUATIONS, None)
    assert outcome.evaluations == 1000
    assert SYSTEM1.violations(outcome.design) == []


def test_an_agent_alone_without_a_budget_is_refused() -> None:
    with pytest.raises(SpecError, match="never stops"):
        SYSTEM1.solve(agent="random")


def test_an_unknown_agent_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SpecError, match="genetic"):
        SYSTEM1.solve(agent="genetc", budget=Budget(evaluations=10))


def test_a_step_beyond_the_clock_is_a_limit_not_a_number() -> None:
    slow = SYSTEM1.set(peak="1 MFLOPS")
    assert slow.solve(budget=Budget(evaluations=10), agent="random").status is SolveStatus.UNKNOWN
    found = slow.cannot_run()
    assert found is not None
    assert (found.every, found.too_long) == (True, True)
    with pytest.raises(LimitError, match="longer than"):
        slow.solve()


def test_a_start_design_changes_the_effort_but_not_the_answer() -> None:
    problem = SPACES["a budget and a lower limit"]
    cold = problem.solve()
    optimum = next(cold.design.points())
    warm = problem.solve(start=[{}, {**optimum, "tp": 3}, optimum])
    assert np.array_equal(warm.design.codes, cold.design.codes)
    assert warm.nodes <= cold.nodes


@pytest.mark.parametrize("evaluations", [1, 100, 600])
def test_a_small_budget_is_not_overrun(evaluations: int) -> None:
    outcome = SYSTEM1.solve(budget=Budget(evaluations=evaluations))
    assert outcome.evaluations + outcome.nodes <= evaluations + 8
    assert outcome.status is SolveStatus.FEASIBLE


def test_designs_that_cannot_run_are_passed_over_not_fatal(tmp_path: Path) -> None:
    model = (Path(__file__).parents[3] / "models" / "cosmic.yaml").read_text(encoding="utf-8")
    model = model.replace("domain: [4, 8, 16]", "domain: [3, 4, 6]").replace(
        "powers_of: 2, from: 1, to: npus", "divisors_of: npus"
    )
    (tmp_path / "twelve.yaml").write_text(model, encoding="utf-8")
    instance = (Path(__file__).parents[3] / "instances" / "cosmic" / "vit-base-system1.yaml").read_text(
        encoding="utf-8"
    )
    instance = instance.replace("model: cosmic", "model: twelve.yaml").replace("scope: full_stack", "scope: full_stack")
    (tmp_path / "mine.yaml").write_text(instance, encoding="utf-8")
    problem = (
        Problem.load(str(tmp_path / "mine.yaml"))
        .set(npus=144)
        .fix({"npus_per_dim[0]": 3, "npus_per_dim[1]": 4, "npus_per_dim[2]": 3, "npus_per_dim[3]": 4})
        .fix(
            sp=1, pp=1, weight_sharded=0, scheduling_policy="lifo", chunks=4, multidim="baseline", bandwidth="100 GB/s"
        )
        .without("fits", "runnable_tp", "runnable_dp")
    )
    outcome = problem.solve()
    assert outcome.status is SolveStatus.OPTIMAL
    scorer = scorer_of(problem)
    best = min(scorer.score(batch, strict=False).evaluation.step_ticks.min() for batch in problem.enumerate())
    assert outcome.value == best
    algorithms = {outcome.design.values(f"algorithm[{d}]")[0] for d in (0, 2)}
    assert not algorithms & {"halving_doubling", "double_binary_tree"}
    only = problem.fix(algorithm="halving_doubling")
    nothing = only.solve()
    assert (nothing.status, nothing.designs) == (SolveStatus.INFEASIBLE, only.count().value)
    assert nothing.cannot_run is not None
    assert "needs groups of a power of two" in nothing.cannot_run.reason


def test_a_world_that_does_not_fill_the_network_is_an_answer_that_says_so() -> None:
    outcome = SYSTEM1.without("world_size", "fits").fix(dp=1, tp=1, sp=1, pp=1).solve()
    assert outcome.status is SolveStatus.INFEASIBLE
    assert outcome.cannot_run is not None
    assert "do not fill" in outcome.cannot_run.reason
