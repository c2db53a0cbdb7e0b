"""`optimise` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

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
    "text", ["nan", "inf", "-inf", "abc", "", " ", "1 hour", "5 GB", "0", "-1 s", "1e60", "1e99 s"]
)
def test_what_is_no_time_limit_is_answered_with_times(text: str) -> None:
    done = run("optimise", SYSTEM2, "--minimise", "tp", "--time-limit", text)
    assert (done.code, done.out) == (2, "")
    assert "hint: write 60, '90 s', '5 min' or '1 h'" in done.err


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


# --- under the simulator --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["exhaustive", "cp_sat", "milp"])
def test_the_least_memory_within_a_step_is_that_of_the_front(solver: str) -> None:
    points = run("pareto", LLAMA, "--objectives", "step_time,memory_per_npu", "--json").keys["points"]
    middle = points[len(points) // 2]
    rule = f"step_time <= {middle['step_time_s']:.12f} s"
    keys = run("optimise", LLAMA, "--minimise", "memory_per_npu", "--require", rule, "--solver", solver, "--json").keys
    assert (keys["status"], keys["objective"]["value"]) == ("optimal", middle["memory_per_npu"])
    assert 0 < keys["table_rows"] < 968


def test_a_step_is_shown_with_its_picoseconds_and_its_table() -> None:
    done = run("optimise", LLAMA, "--minimise", "step_time")
    fastest = run("solve", LLAMA, "--quiet", "--json").keys["metrics"]["step_time_s"]
    assert done.code == 0
    assert f"({round(fastest * 10**12):,} ps), proved optimal" in done.out
    assert "with what is simulated as a table of 968 rows" in done.out


def test_a_throughput_is_a_number_with_its_unit() -> None:
    done = run("optimise", LLAMA, "--maximise", "throughput")
    keys = run("optimise", LLAMA, "--maximise", "throughput", "--json").keys
    best = run("solve", LLAMA, "--objective", "throughput", "--quiet", "--json").keys["objective"]["value"]
    assert keys["objective"]["value"] == keys["bound"] == pytest.approx(best, rel=1e-12)
    assert f"maximise throughput: {best:.6g} sequences/s, proved optimal" in done.out
    assert run("optimise", LLAMA, "--maximise", " (throughput)").out.splitlines()[1] == done.out.splitlines()[1]


def test_a_step_that_no_design_reaches_names_the_rule_and_ends_with_three() -> None:
    done = run("optimise", LLAMA, "--minimise", "memory_per_npu", "--require", "step_time <= 1 ms", "--json")
    assert (done.code, done.keys["status"], done.keys["bound"]) == (3, "infeasible", None)
    assert [rule["constraint"] for rule in done.keys["conflict"]] == ["required"]


def test_too_large_a_table_ends_with_four_and_names_columns_to_fix() -> None:
    done = run("optimise", SYSTEM2, "--minimise", "total_bandwidth", "--require", "step_time <= 460 s")
    assert (done.code, done.out) == (4, "")
    assert "in 5,432,942,592,000 combinations; up to 1,000,000 are simulated" in done.err
    assert "hint: fix some of them: bandwidth[0] (11 values)" in done.err


# --- a start --------------------------------------------------------------------------------------------------


def test_a_start_is_read_from_an_answer_and_is_never_lost(tmp_path: Path) -> None:
    best = run("optimise", SYSTEM2, "--minimise", "network_cost", "--json")
    (tmp_path / "best.json").write_text(best.out)
    short = ("optimise", SYSTEM2, "--minimise", "network_cost", "--solver", "milp", "--time-limit", "1 ns", "--json")
    without = run(*short).keys
    keys = run(*short, "--start", str(tmp_path / "best.json")).keys
    assert without["start"] > keys["start"] == keys["objective"]["value"] == best.keys["objective"]["value"]
    assert run(*short, "--start", "-", stdin=best.out).keys["start"] == keys["start"]


@pytest.mark.parametrize(
    ("design", "rules", "said"),
    [
        ("{tp: 8, dp: 64}", ("--require", "tp <= 4"), "; it breaks the rule required: tp <= 4"),
        ("{tp: 8}", ("--fix", "dp=64"), "passed over: it breaks the rule world_size"),
        ("{bandwidth: [50 GB/s, 50 GB/s, 50 GB/s, 100 GB/s]}", ("--scope", "workload"), "passed over: bandwidth"),
    ],
)
def test_a_start_that_is_not_allowed_is_passed_over_and_said(design: str, rules: tuple[str, ...], said: str) -> None:
    arguments = ("optimise", SYSTEM2, "--minimise", "10 * tp + dp", *rules, "--start", "-", "--json")
    done = run(*arguments, stdin=design)
    assert (done.code, said in done.err) == (0, True), done.err
    (why,) = done.keys["passed_over"]
    assert f"passed over: {why}" in done.err
    assert run(*arguments, "--quiet", stdin=design).err == ""


def test_a_start_that_breaks_a_rule_on_the_step_is_passed_over_and_said() -> None:
    done = run("optimise", LLAMA, "--minimise", "dp", "--require", "step_time <= 5 s", "--start", "-", stdin="{tp: 1}")
    assert done.code in (0, 3)
    assert "the start is passed over: " in done.err


@pytest.mark.parametrize(
    ("design", "named"),
    [
        ('{"dp": NaN}', "'dp'"),
        ('{"dp": 3}', "'dp'"),
        ('{"dp": -1}', "'dp'"),
        ('{"dp": 100000000000000000000000}', "'dp'"),
        ("{bandwidth: [50 GB/s, 50 GB/s, 50 GB/s, 51 GB/s]}", "'bandwidth[3]'"),
        ("{multidim: nonsense}", "'multidim'"),
    ],
)
def test_a_start_with_a_value_outside_every_domain_ends_with_two(design: str, named: str) -> None:
    done = run("optimise", SYSTEM2, "--minimise", "network_cost", "--start", "-", "--quiet", stdin=design)
    assert (done.code, done.out) == (2, "")
    assert f"is not in the domain of {named}" in done.err
    assert "hint: allowed: " in done.err


def test_what_the_start_proves_is_not_called_the_work_of_a_solver() -> None:
    arguments = ("optimise", SYSTEM2, "--minimise", "total_bandwidth", "--solver", "milp")
    best = run(*arguments, "--json")
    again = (*arguments, "--start", "-")
    keys = run(*again, "--json", stdin=best.out).keys
    assert (keys["proved_by_start"], keys["passed_over"], keys["least_code"]) == (True, [], True)
    assert "by its start, no solver needed, in " in run(*again, stdin=best.out).out
    assert "by milp in" in run("optimise", SYSTEM2, "--minimise", "network_cost", "--solver", "milp").out


def test_a_tie_that_the_time_limit_leaves_open_is_said() -> None:
    arguments = ("optimise", SYSTEM2, "--minimise", "total_bandwidth", "--solver", "milp")
    design = run(*arguments, "--json").keys["design"]
    assert design["scheduling_policy"] == "lifo"
    equal = json.dumps({**design, "scheduling_policy": "fifo"})
    short = (*arguments, "--start", "-", "--time-limit", "1 ns")
    keys = run(*short, "--json", stdin=equal).keys
    assert (keys["status"], keys["least_code"], keys["design"]["scheduling_policy"]) == ("optimal", False, "fifo")
    assert "an equally good design may have less code: time limit" in run(*short, stdin=equal).out
    assert "less code" not in run(*arguments).out


def test_a_time_limit_that_ends_before_the_simulator_is_a_table_leaves_no_answer() -> None:
    short = ("optimise", "llama3-8b/h100-8", "--minimise", "step_time", "--time-limit", "1 us", "--quiet")
    done = run(*short, "--json")
    assert (done.code, done.keys["status"], done.keys["stop"]) == (4, "unknown", "time limit")
    assert done.keys["design"] == {}
    assert {done.keys[key] for key in ("bound", "gap", "solver", "table_rows", "start")} == {None}
    text = run(*short).out
    assert "minimise step_time: no design found yet: time limit\n" in text
    assert "before what is simulated was a table that a solver could be given, in " in text


def test_one_condition_counted_is_a_number() -> None:
    hint = run("optimise", SYSTEM2, "--minimise", "topology[0]").err
    assert "count(topology[0] == ring)" in hint
    for sense, value in (("--minimise", 0), ("--maximise", 1)):
        keys = run("optimise", SYSTEM2, sense, "count(topology[0] == ring)", "--json").keys
        assert (keys["status"], keys["objective"]["value"]) == ("optimal", value)
        assert (keys["design"]["topology"][0] == "ring") == bool(value)
    for condition in ("topology[0] == ring", "all(topology[d] == ring for d in dim)", "tp == 1 or tp == 2"):
        assert "is a condition, not a number" in run("optimise", SYSTEM2, "--minimise", condition).err


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ("{tq: 8}", "unknown parameter 'tq'"),
        ("[1, 2]", "expected 'key: value' lines"),
        ("{tp: .nan}", "tp"),
        ("{tp: 8 GB}", "tp"),
        ("{tp: 8, tp: 8}", "tp"),
        ("{'bandwidth[9]': 50 GB/s}", "bandwidth[9] does not exist"),
        ("tp: [", "not YAML"),
    ],
)
def test_a_start_that_is_no_design_ends_with_two(design: str, message: str) -> None:
    done = run("optimise", SYSTEM2, "--minimise", "tp", "--start", "-", stdin=design)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_start_that_is_no_file_ends_with_two() -> None:
    done = run("optimise", SYSTEM2, "--minimise", "tp", "--start", "nowhere.json")
    assert (done.code, "--start" in done.err) == (2, True)
