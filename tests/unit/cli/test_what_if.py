"""`what-if`, `sweep` and `pareto` on the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.unit.cli.running import run

NAME = "cosmic/gpt3-13b-system1"
SMALL = ("--fix", "sp=1", "--fix", "pp=1")


def test_what_if_gives_both_answers_and_their_difference() -> None:
    done = run("what-if", NAME, "--set", "memory_capacity=12GB", "--require", "tp <= 8", "--json")
    assert done.code == 0
    keys = done.keys
    assert keys["schema"] == "cosmic-opt/what-if@1"
    before, after = keys["baseline"], keys["changed"]
    assert (before["status"], after["status"]) == ("optimal", "optimal")
    assert after["design"]["tp"] <= 8
    delta = keys["delta"]
    assert delta["feasible_designs"] == after["feasible_designs"] - before["feasible_designs"]
    step = delta["metric"]["step_time_s"]
    assert step == pytest.approx(after["metrics"]["step_time_s"] - before["metrics"]["step_time_s"])
    assert sum(delta["terms"].values()) == pytest.approx(step, abs=1e-9)
    for moved in keys["design_diff"].values():
        assert moved["from"] != moved["to"]


def test_a_knob_that_only_one_side_has_is_shown_with_a_dash_on_the_other() -> None:
    fsdp = ("llama3-8b/h200-32-fsdp", "--quiet")
    for change in (("--free", "shard_replicas"), ("--fix", "shard_replicas=4")):
        done = run("what-if", *fsdp, *change)
        assert done.code == 0, done.err
        assert "shard_replicas" in done.out
    keys = run("what-if", *fsdp, "--fix", "shard_replicas=4", "--json").keys
    assert keys["design_diff"]["shard_replicas"] == {"from": None, "to": 4}


def test_an_infeasible_change_is_an_answer_with_exit_code_3() -> None:
    done = run("what-if", NAME, "--require", "tp == 3")
    assert done.code == 3
    assert "infeasible" in done.out


def test_a_sweep_lists_every_value_and_where_the_design_changes() -> None:
    done = run("sweep", NAME, *SMALL, "--over", "memory_capacity=6GB:24GB:3", "--json")
    assert done.code == 0
    points = done.keys["points"]
    assert [point["value"] for point in points] == ["6 GB", "15 GB", "24 GB"]
    values = [point["objective"]["value"] for point in points if point["objective"]["value"] is not None]
    assert values == sorted(values, reverse=True)
    changes = done.keys["breakpoints"]
    assert len(changes) >= sum(point["changed"] for point in points)
    assert all(change["exact"] and change["design_diff"] for change in changes)
    text = run("sweep", NAME, *SMALL, "--over", "memory_capacity=6GB:24GB:3").out
    assert all(f"at {change['to']} " in text for change in changes)
    rough = run("sweep", NAME, *SMALL, "--over", "memory_capacity=6GB:24GB:3", "--refine", "0")
    assert "between 6 GB and 15 GB" in rough.out


def test_a_sweep_is_also_written_to_a_file(tmp_path: Path) -> None:
    table, answer = tmp_path / "sweep.csv", tmp_path / "sweep.json"
    sweep = ("sweep", NAME, *SMALL, "--over", "bandwidth[3]=50GB/s:200GB/s:50GB/s", "--refine", "2", "--json")
    done = run(*sweep, "--out", str(table))
    header, *rows = list(csv.reader(table.read_text(encoding="utf-8").splitlines()))
    assert [row[0] for row in rows] == ["50 GB/s", "100 GB/s", "150 GB/s", "200 GB/s"]
    assert [int(row[header.index("bandwidth[3]")]) for row in rows] == [n * 50 * 10**9 for n in (1, 2, 3, 4)]
    values = [point["objective"]["value"] for point in done.keys["points"]]
    assert [float(row[header.index("step_time (s)")]) for row in rows] == values
    assert run(*sweep, "--out", str(table)).code == 2
    assert run(*sweep, "--out", str(table), "--force").code == 0
    assert run(*sweep, "--out", str(answer)).keys == json.loads(answer.read_text(encoding="utf-8"))


def test_the_front_is_sorted_and_every_point_has_a_design() -> None:
    done = run("pareto", NAME, *SMALL, "--objectives", "network_cost,step_time", "--json")
    assert done.code == 0
    points = done.keys["points"]
    assert len(points) > 3
    times, costs = ([point[key] for point in points] for key in ("step_time_s", "network_cost"))
    assert times == sorted(times)
    assert costs == sorted(costs, reverse=True)
    assert all(point["design"]["sp"] == 1 for point in points)
    assert "Pareto-optimal" in run("pareto", NAME, *SMALL).out


def test_a_front_of_three_objectives_has_all_three_at_every_point() -> None:
    three = ("pareto", NAME, *SMALL, "--objectives", "step_time,memory_per_npu,network_cost")
    done = run(*three, "--json")
    assert (done.code, done.keys["status"], done.keys["stop"]) == (0, "optimal", "proved")
    assert done.keys["objectives"] == ["step_time", "memory_per_npu", "network_cost"]
    assert all(point["memory_per_npu"] > 0 and point["network_cost"] > 0 for point in done.keys["points"])
    assert "memory_per_npu" in run(*three).out


def test_a_front_cut_short_says_so() -> None:
    done = run("pareto", NAME, "--time-limit", "1 us", "--json")
    assert (done.code, done.keys["status"], done.keys["points"]) == (4, "unknown", [])
    assert "no region was closed before the limit: time limit" in run("pareto", NAME, "--time-limit", "1 us").out
    assert run("pareto", NAME, "--require", "tp == 3").code == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("what-if", NAME),
        ("what-if", "no/such", "--set", "npus=4"),
        ("what-if", NAME, "--set", "memory_capacity=80"),
        ("what-if", NAME, "--set", "memory_capacty=80GB"),
        ("what-if", NAME, "--set", "memory_capacity=-1GB"),
        ("what-if", NAME, "--set", "memory_capacity=NaN"),
        ("what-if", NAME, "--fix", "tp=7"),
        ("what-if", NAME, "--require", "tp <="),
        ("what-if", NAME, "--without", "fit"),
        ("what-if", NAME, "--set", ""),
        ("sweep", NAME),
        ("sweep", NAME, "--over", ""),
        ("sweep", NAME, "--over", "memory_capacity"),
        ("sweep", NAME, "--over", "memory_capacity=1GB:2GB"),
        ("sweep", NAME, "--over", "memory_capacity=1GB:2s:3"),
        ("sweep", NAME, "--over", "memory_capacity=1GB:2GB:1000000"),
        ("sweep", NAME, "--over", "nothing=1,2"),
        ("sweep", NAME, "--over", "tp=3,5,7"),
        ("sweep", NAME, "--over", "tp=1,2", "--out", "sweep.txt"),
        ("sweep", NAME, "--over", "tp=1,2", "--refine", "-1"),
        ("sweep", NAME, "--over", "bandwidth[9]=50GB/s,100GB/s"),
        ("pareto", NAME, "--objectives", ""),
        ("pareto", NAME, "--objectives", "step_time"),
        ("pareto", NAME, "--objectives", "step_time,step_time"),
        ("pareto", NAME, "--objectives", "network_cost,total_bandwidth"),
        ("pareto", NAME, "--objectives", "step_time,netwrk_cost"),
        ("pareto", NAME, "--objectives", "step_time,throughput"),
        ("pareto", NAME, "--objectives", "step_time,tp"),
        ("pareto", NAME, "--objectives", "step_time,network_cost,network_cost"),
        ("pareto", NAME, "--objectives", "step_time,network_cost,total_bandwidth"),
        ("pareto", NAME, "--objectives", "step_time,network_cost,memory_per_npu,total_bandwidth"),
        ("pareto", NAME, "--time-limit", "0"),
        ("pareto", NAME, "--require", "step_time >= 1 s"),
    ],
)
def test_hostile_input_is_refused_with_a_hint(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == 2, done.out + done.err
    assert "hint:" in done.err


SERVED, LLAMA = "llama3-70b/h100-8-serving", "llama3-70b/h100-64"
SOON = ("--require", "first_token_time <= 200 ms")


def test_designs_that_break_a_rule_on_a_simulated_time_are_not_counted_where_every_one_is_scored() -> None:
    counted = run("count", SERVED, *SOON, "--json").keys["value"]
    whole = run("count", SERVED, "--json").keys["value"]
    assert 0 < counted < whole
    solved = run("solve", SERVED, *SOON, "--json").keys
    assert (solved["feasible_designs"], solved["before_simulated_rules"]) == (counted, False)
    assert f"{counted:,} feasible designs of" in run("solve", SERVED, *SOON).out
    changed = run("what-if", SERVED, *SOON, "--json").keys
    assert changed["delta"]["feasible_designs"] == counted - whole
    assert run("pareto", SERVED, *SOON, "--json").keys["feasible_designs"] == counted
    (point, _) = run("sweep", SERVED, *SOON, "--over", "memory_capacity=80GB,90GB", "--json").keys["points"]
    there = run("count", SERVED, *SOON, "--set", "memory_capacity=80GB", "--json").keys["value"]
    assert (point["feasible_designs"], point["before_simulated_rules"]) == (there, False)
    part = run("solve", SERVED, *SOON, "--evaluations", "100", "--json").keys
    assert (part["feasible_designs"], part["before_simulated_rules"]) == (whole, True)


def test_designs_counted_before_rules_on_simulated_times_are_called_so(tmp_path: Path) -> None:
    within = ("--require", "step_time <= 460 s")
    keys = run("what-if", NAME, *SMALL, *within, "--json").keys
    assert keys["changed"]["before_simulated_rules"]
    assert not keys["baseline"]["before_simulated_rules"]
    assert keys["delta"]["feasible_designs"] is None
    assert "feasible designs before rules on simulated times" in run("what-if", NAME, *SMALL, *within).out
    assert "feasible designs before rules on simulated times of" in run("solve", NAME, *SMALL, *within).out
    sweep = ("sweep", NAME, *SMALL, *within, "--over", "memory_capacity=15GB,24GB", "--out", str(tmp_path / "s.csv"))
    assert "feasible designs before rules on simulated times" in run(*sweep).out
    rows = list(csv.DictReader((tmp_path / "s.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["before_simulated_rules"] for row in rows] == ["1", "1"]
    none = run("solve", NAME, *SMALL, "--require", "step_time <= 1 ps", "--json").keys
    assert (none["status"], none["feasible_designs"], none["before_simulated_rules"]) == ("infeasible", 0, False)


@pytest.mark.parametrize(
    ("name", "objectives", "said"),
    [
        (NAME, "bogus", "unknown quantity 'bogus'"),
        (NAME, "step_time,network_cots", "did you mean 'network_cost'"),
        (SERVED, "bogus", "unknown quantity 'bogus'"),
        (SERVED, "throughput,first_token_tim", "did you mean 'first_token_time'"),
        (LLAMA, "step_time,energy", "'energy' cannot be beside step_time\n  hint: known: device_cost, memory_per_npu,"),
        (
            LLAMA,
            "step_time,bogus",
            "unknown quantity 'bogus'\n  hint: known: device_cost, memory_per_npu, network_cost,",
        ),
        (NAME, "step_time", "not step_time and one or two quantities"),
        (SERVED, "throughput", "not two or three quantities"),
        (NAME, "step_time,", "not step_time and one or two quantities"),
        (NAME, "", "not step_time and one or two quantities"),
    ],
)
def test_an_objective_that_is_none_is_named(name: str, objectives: str, said: str) -> None:
    done = run("pareto", name, "--objectives", objectives)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_sweep_does_not_call_a_row_without_a_design_new() -> None:
    done = run("sweep", "llama3-70b/h100-64", "--over", "memory_capacity=80GB,4GB,90GB", "--refine", "0", "--quiet")
    last = {row.split()[0]: row.split()[-2:] for row in done.out.splitlines() if row.startswith("  ")}
    assert (last["4GB"], last["90GB"]) == (["no", "design"], ["new", "design"])
