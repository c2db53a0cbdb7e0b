from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.unit.cli.running import Done, run

GPT3 = "cosmic/gpt3-175b-system2"
LLAMA = "llama3-405b/h100-16k"
GUIDE = (Path(__file__).resolve().parents[3] / "docs/guide/explain.md").read_text(encoding="utf-8")


def typed(line: str) -> Done:
    """Run a line of the guide: `cosmic-opt ...` or `echo TEXT | cosmic-opt ...`."""
    before, _, command = line.rpartition("cosmic-opt ")
    stdin = shlex.split(before)[1] if before else ""
    return run(*shlex.split(command), stdin=stdin)


def test_of_edits_that_nothing_excludes_what_if_shows_the_cost() -> None:
    said = "  nothing excludes it; --design FILE asks about one design"
    plain = run("explain", "llama3-8b/h100-8")
    edited = run("explain", "llama3-8b/h100-8", "--fix", "tp=8", "--require", "pp == 1")
    assert plain.out.endswith(f"{said}\n")
    assert edited.out.endswith(f"{said}\n  what-if --fix tp=8 --require 'pp == 1' shows what it costs\n")


def test_a_capacity_too_small_is_explained() -> None:
    done = run("explain", GPT3, "--set", "memory_capacity=1GB", "--json")
    keys = done.keys
    assert (done.code, keys["schema"], keys["feasible"], keys["feasible_designs"]) == (
        0,
        "cosmic-opt/explain@1",
        False,
        0,
    )
    assert [rule["constraint"] for rule in keys["conflict"]] == ["world_size", "fits"]
    assert keys["conflicts"] == [keys["conflict"]]
    assert keys["conflict"][0].keys() == {"constraint", "rule", "where", "why"}
    costs = [relaxation["cost"] for relaxation in keys["relaxations"]]
    assert costs == sorted(costs)
    assert all(relaxation["proved"] for relaxation in keys["relaxations"])


@pytest.mark.parametrize(
    "options",
    [
        ("--set", "memory_capacity=1GB"),
        ("--require", "tp == 3"),
        ("--fix", "tp=1", "--fix", "sp=1", "--fix", "dp=1"),
        ("--require", "network_cost <= 1000", "--set", "memory_capacity=2GB"),
        ("--require", "tp == 2", "--require", "pp * sp > 600", "--scope", "workload"),
    ],
)
def test_the_options_of_every_relaxation_leave_the_designs_it_says(options: tuple[str, ...]) -> None:
    relaxations = run("explain", GPT3, *options, "--json", "--limit", "3").keys["relaxations"]
    assert relaxations
    for relaxation in relaxations:
        counted = run("count", GPT3, *relaxation["edits"], "--json")
        assert counted.keys["value"] == relaxation["feasible_designs"] > 0


def test_a_feasible_problem_says_so() -> None:
    done = run("explain", GPT3)
    assert done.code == 0
    assert "10,865,885,184,000" in done.out
    assert run("explain", GPT3, "--json").keys["relaxations"] == []


def test_a_bad_design_is_explained_with_both_sides_and_the_nearest_designs() -> None:
    design = json.dumps({"tp": 1, "sp": 1, "dp": 1024})
    keys = run("explain", GPT3, "--design", "-", "--json", stdin=design).keys
    (violation,) = keys["violations"]
    assert (violation["constraint"], violation["operator"], violation["right"]) == ("fits", "<=", 24 * 10**9)
    assert violation["left"] > violation["right"]
    distances = [neighbour["distance"] for neighbour in keys["nearest"]]
    assert distances == sorted(distances)
    for neighbour in keys["nearest"]:
        assert len(neighbour["changes"]) == neighbour["distance"]
        again = run("explain", GPT3, "--design", "-", "--json", stdin=json.dumps(neighbour["design"])).keys
        assert (again["violations"], again["nearest"]) == ([], [])


def test_the_answer_of_solve_breaks_no_rule() -> None:
    best = run("solve", LLAMA, "--quiet", "--json").out
    done = run("explain", LLAMA, "--design", "-", stdin=best)
    assert "it breaks no rule" in done.out


def test_a_fixed_parameter_wins_over_the_design() -> None:
    keys = run("explain", GPT3, "--fix", "tp=4", "--design", "-", "--json", stdin='{"tp": 3}').keys
    assert keys["violations"] == []


def test_weights_turn_the_order_round() -> None:
    options = ("explain", GPT3, "--require", "tp == 3", "--json", "--limit", "1")
    assert "becomes" in run(*options).keys["relaxations"][0]["change"]
    assert "drop" in run(*options, "--weights", "drop=0.25").keys["relaxations"][0]["change"]


@pytest.mark.parametrize(
    "options",
    [("--set", "memory_capacity=1GB"), ("--require", "tp == 3"), ("--require", "step_time <= 1 ms"), ()],
)
def test_the_answer_fits_on_one_screen(options: tuple[str, ...]) -> None:
    assert len(run("explain", LLAMA if "step_time" in str(options) else GPT3, *options).out.splitlines()) <= 30


@pytest.mark.parametrize(
    ("options", "stdin", "said"),
    [
        (("--weights", "drop=0"), "", "not a weight"),
        (("--weights", "drop=-1"), "", "not a weight"),
        (("--weights", "drop=1e9"), "", "not a weight"),
        (("--weights", "dorp=1"), "", "did you mean 'drop'"),
        (("--weights", "drop=1,drop=2"), "", "twice"),
        (("--weights", ""), "", "unknown weight"),
        (("--limit", "0"), "", "--limit"),
        (("--limit", "101"), "", "--limit"),
        (("--design", "no-such-file.json"), "", "no file"),
        (("--design", "-"), "[1, 2]", "list"),
        (("--design", "-"), "", "stdin"),
        (("--design", "-"), '{"tpp": 3}', "did you mean"),
        (("--design", "-"), '{"tp": 2.5}', "whole number"),
        (("--design", "-"), '{"bandwidth": ["50 GB/s"]}', "4 dimensions"),
        (("--design", "-"), "\x00", "stdin"),
        (("--require", "tp =="), "", "expected"),
        (("--fix", "tp=3"), "", "not in the domain"),
        (("--require", "step_time >= 1 ms"), "", "not a limit on the step"),
        (("--without", "no_rule"), "", "no rule"),
    ],
)
def test_hostile_input_ends_with_two_and_a_hint(options: tuple[str, ...], stdin: str, said: str) -> None:
    done = run("explain", GPT3, *options, stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "hint:" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "rule",
    ["false", "tp * 0 == 1", "memory_per_npu <= -5 GB", f"tp == {10**30}", "npus >= 2048", "- 3 >= tp", "tp != tp"],
)
def test_a_rule_nobody_can_meet_is_named_alone(rule: str) -> None:
    keys = run("explain", GPT3, "--require", rule, "--json", "--limit", "2").keys
    assert [[r["constraint"] for r in conflict] for conflict in keys["conflicts"]] == [["required"]]
    for relaxation in keys["relaxations"]:
        assert run("count", GPT3, *relaxation["edits"], "--json").keys["value"] > 0


@pytest.mark.parametrize("console", re.findall(r"^```console\n\$ (.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
def test_the_guide_shows_what_the_command_prints(console: str) -> None:
    line, _, expected = console.partition("\n")
    done = typed(line)
    assert done.code == 0, done.err
    assert done.out == expected


def test_the_python_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    exec(program, {})
    assert capsys.readouterr().out.startswith("['required'] 1/3 tp == ")


def test_every_json_key_is_in_the_guide() -> None:
    slow = run("explain", LLAMA, "--require", "step_time <= 1 ms", "--json").keys
    bad = run("explain", GPT3, "--design", "-", "--json", stdin='{"tp": 3}').keys
    text = GUIDE.split("## JSON")[1]
    for key in (slow.keys() | bad.keys()) - {"schema", "name", "scope"}:
        assert f"`{key}`" in text, key
    for item in (slow["relaxations"][0], bad["violations"][0], bad["nearest"][0]):
        assert all(re.search(rf"\b{key}\b", text) for key in item)


@pytest.mark.parametrize("text", ["", "  \n", "# nothing yet\n"], ids=["empty", "blank", "a comment"])
@pytest.mark.parametrize("command", [("explain", "--design"), ("optimise", "--minimise", "tp", "--start")])
def test_a_design_file_without_a_design_gets_a_hint_about_designs(
    command: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    file = tmp_path / "design.yaml"
    file.write_text(text)
    name, *options = command
    for source, stdin in ((str(file), ""), ("-", text)):
        done = run(name, LLAMA, *options, source, stdin=stdin)
        assert (done.code, done.out) == (2, "")
        assert "is empty" in done.err
        assert "hint: a design gives parameters their values, {dp: 64, tp: 8}" in done.err


@pytest.mark.parametrize(
    ("problem", "kept", "offered"),
    [
        (("llama3-8b/h100-8", "--scope", "split", "--set", "npus=7"), "world_size", "drop norms_need_tp"),
        (("cosmic/gpt3-13b-system2", "--set", "memory_capacity=4GB"), "world_size", "drop fits"),
        (("cosmic/gpt3-13b-system2", "--set", "npus=100"), "shape", "no change was found"),
    ],
)
def test_what_equates_degrees_and_npus_is_never_dropped(problem: tuple[str, ...], kept: str, offered: str) -> None:
    out = run("explain", *problem).out
    assert f"drop {kept}" not in out
    assert f"--without {kept}" not in out
    assert offered in out


def test_a_server_of_more_npus_than_there_are_is_named_as_such() -> None:
    out = run("explain", "llama3-70b/h100-8-serving", "--set", "memory_capacity=10GB").out
    assert "drop npus_given (dp * tp * pp * ep <= npus): then designs are of another number of NPUs\n" in out


def test_the_best_of_each_simulated_quantity_that_a_rule_names_is_reported() -> None:
    """64 boards of 700 W for the shortest step: 44,800 W times 9.6324 s are 431.53 kJ."""
    done = run("explain", "llama3-70b/h100-64", "--require", "energy <= 400 kJ")
    assert "best achievable energy without rules on it: 431.532 kJ, proved" in done.out
    assert "best achievable step_time" not in done.out
    both = run("explain", "llama3-70b/h100-64", "--require", "throughput >= 170 and step_time <= 9 s")
    assert "best achievable step_time without such rules: 9.6324 s, proved" in both.out
    assert "best achievable throughput without such rules: 13.2885 sequences/s, proved" in both.out


def test_changes_beside_a_rule_on_simulated_times_are_not_called_proved() -> None:
    """The step rule alone excludes every design, too: no change of the other one leaves any."""
    asked = ("llama3-70b/h100-64", "--require", "step_time <= 5 s", "--require", "tp == 3")
    done = run("explain", *asked)
    assert "cheapest changes that leave a design before rules on simulated times, which may leave none:" in done.out
    assert "proved: nothing costs less" not in done.out
    assert not any(each["proved"] for each in run("explain", *asked, "--json").keys["relaxations"])
    assert "proved: nothing costs less" in run("explain", *asked[:1], *asked[3:]).out
