"""An agent alone, over the feasible designs and over the raw grid; and what is refused."""

from __future__ import annotations

import sys

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.agents import AGENTS, find_agent
from cosmic_opt.search.budget import Budget
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.cli.running import run

NAME = "cosmic/gpt3-175b-system2"
PROBLEM = Problem.load(NAME).objective("step_time * network_cost")


@pytest.mark.parametrize("name", AGENTS.names())
def test_an_agent_over_feasible_designs_wastes_no_evaluation(name: str) -> None:
    outcome = PROBLEM.solve(agent=name, budget=Budget(evaluations=100))
    assert (outcome.evaluations, outcome.wasted) == (100, 0)
    assert outcome.status is SolveStatus.FEASIBLE


@pytest.mark.parametrize("name", [*AGENTS.names(), "optuna:NSGAIISampler"])
def test_a_native_agent_pays_for_infeasible_proposals(name: str) -> None:
    outcome = PROBLEM.solve(agent=name, native=True, budget=Budget(evaluations=100))
    assert outcome.evaluations == 100
    assert outcome.wasted >= 90  # one combination in 876 is feasible


def test_the_native_genetic_agent_ends_at_a_feasible_design() -> None:
    outcome = PROBLEM.solve(agent="genetic", native=True, budget=Budget(evaluations=4096))
    assert outcome.status is SolveStatus.FEASIBLE
    assert 0 < outcome.wasted < 4096
    assert not PROBLEM.violations(outcome.design)


def test_a_feasible_agent_is_far_ahead_of_its_native_twin() -> None:
    native = PROBLEM.solve(agent="genetic", native=True, budget=Budget(evaluations=2048))
    ours = PROBLEM.solve(agent="genetic", budget=Budget(evaluations=204))
    assert ours.value is not None
    assert native.value is None or ours.value < native.value


@pytest.mark.parametrize("evaluations", [0, 1])
@pytest.mark.parametrize("agent", [None, "genetic", "bayesian"])
def test_the_smallest_budgets_give_what_they_can(evaluations: int, agent: str | None) -> None:
    outcome = PROBLEM.solve(agent=agent, budget=Budget(evaluations=evaluations))
    assert outcome.evaluations == evaluations
    assert outcome.status is (SolveStatus.FEASIBLE if evaluations else SolveStatus.UNKNOWN)


def test_a_huge_budget_ends_with_the_time_limit() -> None:
    outcome = PROBLEM.solve(agent="random", budget=Budget(seconds=0.3, evaluations=10**15))
    assert 0 < outcome.evaluations < 10**9


@pytest.mark.parametrize("name", ["optuna:", "optuna:TPE", "optuna:GridSampler", "optuna:BaseSampler", "genetics", ""])
def test_an_unknown_agent_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SpecError, match=r"hint: (known|did you mean)"):
        find_agent(name)


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("bayesian", "sklearn", "bo"), ("optuna:TPESampler", "optuna", "optuna")]
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.samplers", None)
    done = run("solve", NAME, "--agent", name, "--no-hybrid", "--evaluations", "8")
    assert done.code == 2
    assert f"pip install 'cosmic-opt[{extra}]'" in done.err
    assert "--agent" in done.err


def test_a_sampler_that_needs_one_more_library_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cmaes", None)
    with pytest.raises(SpecError, match=r"CmaEsSampler needs another library: .*cmaes"):
        find_agent("optuna:CmaEsSampler")


@pytest.mark.parametrize(
    "options",
    [
        ("--native",),
        ("--native", "--evaluations", "8"),
        ("--agent", "genetic", "--native"),
        ("--agent", "genetic", "--native", "--evaluations", "0"),
        ("--agent", "genetic", "--native", "--evaluations", "-5"),
        ("--agent", "genetic", "--native", "--evaluations", "8", "--certificate", "x.json"),
    ],
)
def test_native_options_that_mean_nothing_are_refused(options: tuple[str, ...]) -> None:
    assert run("solve", NAME, *options).code == 2


def test_the_command_line_counts_infeasible_evaluations() -> None:
    arguments = ("solve", NAME, "--agent", "random", "--native", "--evaluations", "2000", "--seed", "1")
    keys = run(*arguments, "--json", "--quiet").keys
    assert keys["evaluations"] == 2000
    assert 1900 < keys["wasted"] <= 2000
    assert f"2,000 designs scored, {keys['wasted']:,} of them infeasible" in run(*arguments).out


def test_an_optuna_sampler_runs_from_the_command_line() -> None:
    keys = run("solve", NAME, "--agent", "optuna:TPESampler", "--no-hybrid", "--evaluations", "40", "--json").keys
    assert (keys["status"], keys["evaluations"], keys["wasted"]) == ("feasible", 40, 0)
