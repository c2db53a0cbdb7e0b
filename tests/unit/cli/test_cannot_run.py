"""What each command says of designs that obey the rules and cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.running import run
from tests.unit.search.six import NO_PIPELINE, NOTHING_RUNS, ONE_RUNS, written, written_wide

REASON = "halving_doubling needs groups of a power of two, and dimension 0 has 6 NPUs"
NOTHING = "none of the 160 designs that obey the rules can run: " + REASON


@pytest.fixture
def six(tmp_path: Path) -> str:
    return written(tmp_path)


def test_count_is_of_designs_that_obey_the_rules(six: str) -> None:
    assert run("count", six, *NOTHING_RUNS, "--json").keys["value"] == 160


def test_solve_answers_infeasible_and_shows_a_design(six: str) -> None:
    done = run("solve", six, *NOTHING_RUNS, "--json")
    keys = done.keys
    assert (done.code, keys["status"], keys["stop"], keys["conflict"]) == (3, "infeasible", "proved", [])
    assert (keys["feasible_designs"], keys["cannot_run"]["designs"]) == (160, 160)
    assert keys["cannot_run"]["reason"] == REASON
    assert "implies npus_per_dim[d] in" in keys["cannot_run"]["hint"]
    shown = keys["cannot_run"]["design"]
    assert (shown["algorithm"][0], shown["dp"] * shown["tp"]) == ("halving_doubling", 48)
    text = run("solve", six, *NOTHING_RUNS)
    assert (text.code, text.err) == (3, "")
    assert "minimise step_time: no design can run, proved" in text.out
    assert NOTHING in text.out
    assert "design 0" not in text.out
    refused = run("simulate", six, "--design", "-", "--fix", "pp=1", stdin=json.dumps(shown))
    assert (refused.code, REASON in refused.err) == (3, True)


@pytest.mark.parametrize(
    "command",
    [
        ("solve", "--engine", "events"),
        ("pareto", "--objectives", "step_time,total_bandwidth"),
        ("optimise", "--minimise", "step_time"),
    ],
)
def test_other_searches_give_the_same_reason(six: str, command: tuple[str, ...]) -> None:
    name, *options = command
    done = run(name, six, *NOTHING_RUNS, *options, "--json")
    assert (done.code, done.keys["status"]) == (3, "infeasible")
    assert done.keys["cannot_run"]["reason"] == REASON
    text = run(name, six, *NOTHING_RUNS, *options)
    assert "no design can run, proved" in text.out
    assert NOTHING in text.out


def test_an_optimum_that_cannot_run_says_so(six: str) -> None:
    least = ("optimise", six, *NOTHING_RUNS, "--minimise", "total_bandwidth")
    keys = run(*least, "--json").keys
    assert (keys["status"], keys["objective"]["value"], keys["cannot_run"]["reason"]) == ("optimal", 10**11, REASON)
    assert f"it cannot run, though it obeys every rule: {REASON}" in run(*least).out
    runs = run("optimise", six, *NO_PIPELINE, "--fix", "algorithm=ring", "--minimise", "total_bandwidth", "--json")
    assert runs.keys["cannot_run"] is None


def test_solve_warns_of_the_half_that_cannot_run(six: str) -> None:
    done = run("solve", six, *NO_PIPELINE, "--json")
    (*_, warning) = done.keys["warnings"]
    assert (done.code, done.keys["feasible_designs"]) == (0, 640)
    assert warning.startswith("320 of 640 feasible designs cannot run, such as dp ")
    assert REASON in warning
    assert f"warning: {warning}" in run("solve", six, *NO_PIPELINE).out


def test_validate_and_explain_warn_as_solve_does(six: str) -> None:
    (*_, warning) = run("validate", six, *NO_PIPELINE, "--json").keys["warnings"]
    assert warning.startswith("320 of 640 feasible designs cannot run")
    assert run("explain", six, *NO_PIPELINE, "--json").keys["cannot_run"]["designs"] == 320
    assert "320 of 640 feasible designs cannot run" in run("explain", six, *NO_PIPELINE).out
    nothing = run("explain", six, *NOTHING_RUNS)
    assert NOTHING in nothing.out
    assert "nothing excludes it" not in nothing.out


def test_explain_says_why_one_design_that_obeys_the_rules_cannot_run(six: str) -> None:
    asked = json.dumps({"algorithm": ["halving_doubling", "ring"]})
    done = run("explain", six, *NO_PIPELINE, "--design", "-", stdin=asked)
    assert f"the design breaks no rule, and cannot run: {REASON}" in done.out
    keys = run("explain", six, *NO_PIPELINE, "--design", "-", "--json", stdin=asked).keys
    assert (keys["violations"], keys["design_cannot_run"]["reason"]) == ([], REASON)


def test_a_sweep_goes_on_over_values_where_nothing_runs(six: str) -> None:
    over = ("sweep", six, *NO_PIPELINE, "--over", "algorithm[0]=ring,halving_doubling,direct")
    keys = run(*over, "--json").keys
    assert [point["status"] for point in keys["points"]] == ["optimal", "infeasible", "optimal"]
    assert keys["points"][1]["cannot_run"]["reason"] == REASON
    text = run(*over)
    assert (text.code, NOTHING in text.out) == (0, True)
    none = run("sweep", six, *NOTHING_RUNS, "--over", "global_batch=512,1024")
    assert none.code == 3
    assert "one design is best throughout" not in none.out


def test_what_if_compares_with_a_problem_where_nothing_runs(six: str) -> None:
    base = Path(six)
    base.write_text(base.read_text(encoding="utf-8").replace("job:", "constraints: {flat: pp == 1}\njob:"))
    done = run("what-if", six, "--fix", "algorithm[0]=halving_doubling", "--json")
    assert (done.code, done.keys["changed"]["status"], done.keys["baseline"]["status"]) == (3, "infeasible", "optimal")
    assert done.keys["changed"]["cannot_run"]["reason"] == REASON
    assert f"changed: {NOTHING}" in run("what-if", six, "--fix", "algorithm[0]=halving_doubling").out


def test_the_certificate_that_nothing_runs_is_verified(six: str, tmp_path: Path) -> None:
    file = tmp_path / "nothing.json"
    assert run("solve", six, *NOTHING_RUNS, "--certificate", str(file)).code == 3
    assert run("verify", str(file)).code == 0


@pytest.mark.parametrize("command", [("solve",), ("pareto", "--objectives", "step_time,total_bandwidth")])
def test_what_rests_on_a_sample_is_a_warning_and_not_proved(tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    one = ("--quiet", "--require", ONE_RUNS, "--require", "step_time <= 1 s", *options)
    done = run(name, written_wide(tmp_path), *one)
    assert done.code == 3
    assert "no feasible design, proved" in done.out
    assert "no design can run" not in done.out
    assert "warning: none of 4,096 feasible designs drawn can run, such as dp " in done.out
    assert "this rule excludes every design:" in done.out
    assert "step_time <= 1 s" in done.out


def test_the_keys_say_that_a_sample_is_one(tmp_path: Path) -> None:
    one = ("--quiet", "--require", ONE_RUNS, "--require", "step_time <= 1 s")
    keys = run("pareto", written_wide(tmp_path), *one, "--objectives", "step_time,total_bandwidth", "--json").keys
    assert keys["status"] == "infeasible"
    assert (keys["cannot_run"]["looked_at"], keys["cannot_run"]["exact"]) == (4_096, False)


def test_a_sweep_says_of_no_value_what_a_sample_shows(tmp_path: Path) -> None:
    one = ("--quiet", "--require", ONE_RUNS, "--require", "step_time <= 1 s")
    done = run("sweep", written_wide(tmp_path), *one, "--over", "global_batch=512,1024")
    assert (done.code, "can run" in done.out) == (3, False)
