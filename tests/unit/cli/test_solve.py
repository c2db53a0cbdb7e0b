"""`solve`: answers with a proof state; limits, agents and infeasible problems say what they are."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.search.score import simulator_of
from tests.unit.cli.running import interrupt_at_second_look, run

LLAMA = "llama3-405b/h100-16k"


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    return run("solve", LLAMA, "--json").keys


def test_the_optimum_is_the_best_of_every_design(answer: dict[str, Any]) -> None:
    problem = Problem.load(LLAMA)
    batches = list(problem.enumerate())
    simulator = simulator_of(problem.instance)
    best = min(int(simulator.evaluate(batch.value_columns()).step_ticks.min()) for batch in batches)
    assert answer["status"] == "optimal"
    assert answer["objective"] == {"name": "step_time", "value": best / 1e12, "unit": "s"}
    assert (answer["bound"], answer["gap"], answer["stop"]) == (best / 1e12, 0, "proved")


def test_the_answer_carries_the_contract_keys(answer: dict[str, Any]) -> None:
    assert answer["schema"] == "cosmic-opt/solve@1"
    assert answer["feasible_designs"] == 968
    assert answer["feasible_designs_text"] == "968"
    assert answer["grid_size"] == 246_960
    assert answer["study"] is None
    for key in ("step_time_s", "memory_bytes", "network_cost", "total_bandwidth_bytes_per_s"):
        assert answer["metrics"][key] > 0
    for key in ("evaluations", "nodes", "regions", "seconds", "seed", "inert"):
        assert key in answer
    assert math.isclose(sum(answer["breakdown"].values()), answer["metrics"]["step_time_s"])


def test_the_answer_is_a_design_file_that_scores_the_same(answer: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    file.write_text(json.dumps(answer))
    scored = run("simulate", LLAMA, "--design", str(file), "--json").keys
    assert scored["metrics"] == answer["metrics"]
    assert scored["design"] == answer["design"]


def test_an_optimum_whose_ties_a_limit_left_open_says_so() -> None:
    limited = ("solve", "cosmic/gpt3-13b-system1", "--scope", "workload", "--evaluations", "300", "--quiet")
    keys = run(*limited, "--json").keys
    assert (keys["status"], keys["gap"], keys["stop"], keys["least_code"]) == ("optimal", 0, "evaluation limit", False)
    proved, less = run(*limited).out.splitlines()[1:3]
    assert proved.endswith("proved optimal (bound = value)")
    assert less == "an equally good design may have less code: evaluation limit"


def test_the_same_seed_gives_the_same_answer(answer: dict[str, Any]) -> None:
    again = run("solve", LLAMA, "--json").keys
    assert {**again, "seconds": 0} == {**answer, "seconds": 0}


def test_the_log_reads_like_that_of_a_mip_solver_and_goes_to_stderr() -> None:
    done = run("solve", LLAMA)
    assert "968 / 968" in done.err
    assert "incumbent" in done.err
    assert "incumbent" not in done.out
    assert "proved optimal (bound = value)" in done.out
    assert "968 feasible designs of 246,960 in the grid" in done.out
    assert run("solve", LLAMA, "--quiet").err == ""


def test_an_objective_of_cost_is_reported_in_its_unit() -> None:
    keys = run("solve", LLAMA, "--objective", "step_time*network_cost", "--json", "--quiet").keys
    assert (keys["objective"]["name"], keys["objective"]["unit"]) == ("step_time * network_cost", "s $")
    assert math.isclose(keys["objective"]["value"], keys["metrics"]["step_time_s"] * keys["metrics"]["network_cost"])


def test_throughput_is_maximised() -> None:
    done = run("solve", LLAMA, "--objective", "throughput", "--quiet")
    assert "maximise throughput" in done.out
    assert "sequences/s, proved optimal" in done.out


def test_an_agent_alone_proves_nothing_and_says_so() -> None:
    done = run("solve", LLAMA, "--agent", "random", "--no-hybrid", "--evaluations", "64", "--json", "--quiet")
    assert done.code == 0
    assert (done.keys["status"], done.keys["bound"], done.keys["gap"]) == ("feasible", None, None)
    assert done.keys["evaluations"] == 64


def test_structural_infeasibility_names_its_rules() -> None:
    done = run("solve", LLAMA, "--fix", "tp=16", "--json")
    assert (done.code, done.keys["status"], done.keys["design"]) == (3, "infeasible", {})
    assert [rule["constraint"] for rule in done.keys["conflict"]] == ["whole_kv_heads"]
    assert done.keys["metrics"] is None


def test_a_step_that_no_design_reaches_is_proved_infeasible() -> None:
    done = run("solve", LLAMA, "--require", "step_time <= 1 ms", "--json")
    assert (done.code, done.keys["status"]) == (3, "infeasible")
    assert [rule["constraint"] for rule in done.keys["conflict"]] == ["required"]


def test_no_time_for_any_design_ends_with_four() -> None:
    done = run("solve", LLAMA, "--agent", "random", "--no-hybrid", "--time-limit", "1 ps", "--json")
    assert (done.code, done.keys["status"], done.keys["stop"]) == (4, "unknown", "time limit")


def test_knobs_without_effect_are_named() -> None:
    keys = run("solve", "cosmic/gpt3-13b-system1", "--scope", "collective", "--json", "--quiet").keys
    assert keys["inert"] == ["scheduling_policy", "multidim"]  # its gradients are sharded: nothing is all-reduced
    text = run("solve", "cosmic/gpt3-13b-system1", "--scope", "collective", "--quiet").out
    assert (
        "free, but without effect on the objective wherever the rules leave a choice: scheduling_policy, multidim"
        in text
    )


def test_a_spent_time_limit_leaves_no_search_for_knobs_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Problem, "dead_knobs", lambda *_: pytest.fail("looked for"))
    wide = ("solve", "llama3-70b/h100-8-serving", "--set", "npus=10000", "--time-limit", "50 ms", "--quiet")
    done = run(*wide, "--json")
    assert (done.keys["stop"], done.keys["inert"], done.keys["undecided"]) == ("time limit", None, None)
    assert "knobs without effect were not looked for: no time was left" in run(*wide).out


@pytest.mark.parametrize(
    "options",
    [
        ("--agent", "nope", "--no-hybrid", "--evaluations", "3"),
        ("--agent", "genetic"),
        ("--no-hybrid",),
        ("--agent", "random", "--no-hybrid"),
        ("--evaluations", "0"),
        ("--evaluations", "x"),
        ("--time-limit", "-1"),
        ("--time-limit", "nan"),
        ("--time-limit", "5 GB"),
        ("--time-limit", "1e60"),
        ("--time-limit", ""),
        ("--require", "step_time >= 3 s"),
        ("--require", "step_time * 2 <= 3 s"),
        ("--objective", "cost"),
    ],
)
def test_options_that_mean_nothing_are_refused_with_a_hint(options: tuple[str, ...]) -> None:
    done = run("solve", LLAMA, *options)
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


def test_an_interrupt_reports_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = run("solve", LLAMA, "--agent", "random", "--no-hybrid", "--evaluations", "1", "--json").keys
    interrupt_at_second_look(monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    done = run("solve", LLAMA, "--agent", "random", "--no-hybrid", "--evaluations", "100000", "--json")
    assert (done.code, done.keys["status"], done.keys["stop"]) == (130, "feasible", "interrupted")
    assert agents["evaluations"] <= done.keys["evaluations"] < 100_000
    assert signal.getsignal(signal.SIGINT) == before
