"""`what-if`, `sweep` and `pareto` on the command line."""

from __future__ import annotations

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
    assert len(done.keys["breakpoints"]) == sum(point["changed"] for point in points)


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
        ("sweep", NAME, "--over", "bandwidth[9]=50GB/s,100GB/s"),
        ("pareto", NAME, "--objectives", ""),
        ("pareto", NAME, "--objectives", "step_time"),
        ("pareto", NAME, "--objectives", "step_time,step_time"),
        ("pareto", NAME, "--objectives", "network_cost,total_bandwidth"),
        ("pareto", NAME, "--objectives", "step_time,netwrk_cost"),
        ("pareto", NAME, "--objectives", "step_time,throughput"),
        ("pareto", NAME, "--objectives", "step_time,tp"),
        ("pareto", NAME, "--require", "step_time >= 1 s"),
    ],
)
def test_hostile_input_is_refused_with_a_hint(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    if arguments == ("what-if", NAME, "--set", "memory_capacity=80"):
        assert done.code == 3  # eighty bytes: a clear question, and a clear answer
        return
    assert done.code == 2, done.out + done.err
    assert "hint:" in done.err
