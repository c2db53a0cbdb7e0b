"""`optimise` on the command line."""

from __future__ import annotations

import pytest

from tests.unit.cli.running import run

SYSTEM2 = "cosmic/gpt3-175b-system2"
LLAMA = "llama3-405b/h100-16k"


@pytest.mark.parametrize("solver", ["cp_sat", "milp"])
def test_least_cost_is_proved_and_priced_by_hand(solver: str) -> None:
    done = run("optimise", SYSTEM2, "--minimise", "network_cost", "--solver", solver, "--json")
    keys = done.keys
    assert (done.code, done.err) == (0, "")
    assert keys["schema"] == "cosmic-opt/optimise@1"
    assert (keys["status"], keys["stop"], keys["gap"], keys["solver"]) == ("optimal", "proved", 0.0, solver)
    assert keys["objective"] == {"name": "network_cost", "sense": "minimise", "value": 911_360, "unit": "$"}
    assert keys["bound"] == 911_360
    assert keys["design"]["bandwidth"] == [50 * 10**9] * 4
    assert (keys["name"], keys["scope"]) == (SYSTEM2, "full_stack")


def test_text_shows_the_value_exactly_and_the_design() -> None:
    done = run("optimise", LLAMA, "--maximise", "memory_capacity - memory_per_npu")
    assert done.code == 0
    assert "maximise memory_capacity - memory_per_npu: 76.2825 GB (76,282,510,768 B), proved optimal" in done.out
    assert "zero_stage 3" in done.out


def test_no_feasible_design_names_the_rules_and_ends_with_three() -> None:
    arguments = ("optimise", SYSTEM2, "--minimise", "network_cost", "--require", "tp >= 2048")
    done = run(*arguments, "--json")
    assert (done.code, done.keys["status"], done.keys["design"]) == (3, "infeasible", {})
    assert done.keys["objective"]["value"] is None
    assert [rule["constraint"] for rule in done.keys["conflict"]] == ["required"]
    assert "this rule excludes every design" in run(*arguments).out


def test_no_time_gives_the_start_with_a_bound_and_a_gap() -> None:
    arguments = ("optimise", SYSTEM2, "--minimise", "network_cost", "--solver", "milp", "--time-limit", "1 ns")
    done = run(*arguments)
    assert (done.code, "not proved: time limit, bound $ " in done.out, "gap " in done.out) == (0, True, True)
    keys = run(*arguments, "--json").keys
    assert (keys["status"], keys["stop"]) == ("feasible", "time limit")
    assert keys["objective"]["value"] == keys["start"] >= 911_360 >= keys["bound"]
    assert keys["gap"] == (keys["start"] - keys["bound"]) / keys["start"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to optimise"),
        (("--minimise", "tp", "--maximise", "tp"), "--minimise and --maximise are both given"),
        (("--minimise", "tp", "--minimise", "dp"), "the option is given twice"),
        (("--minimise", ""), "the expression is empty"),
        (("--minimise", "2 * step_time"), "is simulated: no solver calculates with it"),
        (("--minimise", "tp", "--solver", "gurobi"), "unknown solver 'gurobi'"),
        (("--minimise", "tp", "--time-limit", "0"), "not a time limit"),
        (("--minimise", "tp", "--time-limit", "-1 s"), "not a time limit"),
        (("--minimise", "tp", "--time-limit", "5 GB"), "not a time limit"),
        (("--minimise", "tp", "--time-limit", "soon"), "not a number with a unit"),
    ],
)
def test_bad_input_ends_with_two_and_a_hint(arguments: tuple[str, ...], message: str) -> None:
    done = run("optimise", SYSTEM2, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "hint:" in done.err


def test_the_milp_solver_counts_what_the_diagram_counts() -> None:
    fixed = ("--fix", "tp=8", "--fix", "sp=1", "--fix", "zero_stage=1", "--json")
    milp = run("count", LLAMA, "--solver", "milp", *fixed).keys
    assert milp["value"] == run("count", LLAMA, *fixed).keys["value"] > 0
    assert milp["engine"] == "milp"


def test_a_space_too_large_for_the_milp_solver_to_list_ends_with_four_at_once() -> None:
    done = run("count", SYSTEM2, "--solver", "milp")
    assert done.code == 4
    assert "more than 500 designs" in done.err
