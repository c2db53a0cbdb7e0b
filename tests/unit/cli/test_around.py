"""`solve --within` and `--top`: the designs around the optimum, and what is asked wrongly."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.cli import solve as command
from cosmic_opt.cli.around import Around, Asked, look_around
from cosmic_opt.search import census
from tests.unit.cli.running import run

LLAMA = "llama3-405b/h100-16k"


def test_the_answer_counts_and_samples_the_designs_within_a_share() -> None:
    keys = run("solve", LLAMA, "--within", "5 %", "--json", "--quiet").keys
    near = keys["near"]
    best = keys["objective"]["value"]
    assert (near["within"], near["exact"], near["stop"]) == (0.05, True, "proved")
    assert near["designs"] == near["designs_upper"] == int(near["designs_text"])
    assert near["sample"][0] == {"design": keys["design"], "value": best, "behind": 0}
    assert all(best <= member["value"] <= near["limit"] <= best * 1.05 + 1e-9 for member in near["sample"])
    for parameter in near["parameters"]:
        numbers = [value["designs"] for value in parameter["values"]]
        assert sum(numbers) == near["designs"]
        assert parameter["every_value"] == all(numbers)
    assert "top" not in keys


def test_the_answer_lists_the_best_few_in_order() -> None:
    keys = run("solve", LLAMA, "--top", "7", "--json", "--quiet").keys
    values = [member["value"] for member in keys["top"]]
    assert values == sorted(values)
    assert len({json.dumps(member["design"]) for member in keys["top"]}) == 7
    assert (keys["top"][0]["design"], keys["top_stop"]) == (keys["design"], "proved")
    assert "near" not in keys


def test_a_member_of_the_sample_is_a_design_file_that_scores_its_value(tmp_path: Path) -> None:
    member = run("solve", LLAMA, "--within", "9%", "--json", "--quiet").keys["near"]["sample"][-1]
    file = tmp_path / "near.json"
    file.write_text(json.dumps(member["design"]))
    scored = run("simulate", LLAMA, "--design", str(file), "--json").keys
    assert scored["metrics"]["step_time_s"] == member["value"]


def test_the_best_of_throughput_are_behind_by_what_they_lose() -> None:
    keys = run("solve", LLAMA, "--objective", "throughput", "--top", "50", "--json", "--quiet").keys
    best, *_, last = keys["top"]
    assert last["value"] < best["value"]
    assert last["behind"] == pytest.approx(1 - last["value"] / best["value"])


def test_text_says_how_many_designs_and_which_knobs_are_free() -> None:
    out = run("solve", LLAMA, "--within", "1%", "--top", "2000", "--quiet").out
    assert "within 1 % of the optimum" in out
    assert "designs, exactly" in out
    assert "a diverse sample:" in out
    assert "the 968 best designs of 2,000 asked for (there are no more), those of equal value by code:" in out
    assert "and 962 more, in the answer of --json" in out
    assert len(out.splitlines()) < 120


def test_boxes_that_run_out_leave_certified_limits() -> None:
    asked = ("solve", "cosmic/gpt3-175b-system1", "--within", "1%", "--json", "--quiet")
    whole, cut = run(*asked).keys["near"], run(*asked, "--evaluations", "9000").keys
    near = cut["near"]
    assert (cut["status"], near["stop"], near["exact"]) == ("optimal", "evaluation limit", False)
    assert near["designs"] < whole["designs"] < near["designs_upper"]
    assert "designs (evaluation limit)" in run(*asked[:4], "--quiet", "--evaluations", "9000").out


def test_an_interrupt_while_counting_keeps_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Around:
        signal.raise_signal(signal.SIGINT)
        return look_around(*arguments, **options)

    monkeypatch.setattr(census, "CHUNK", 1)
    monkeypatch.setattr(command, "look_around", interrupted)
    done = run("solve", LLAMA, "--within", "50%", "--top", "400", "--json", "--quiet")
    assert (done.code, done.keys["status"], done.keys["stop"]) == (130, "optimal", "proved")
    assert (done.keys["near"]["stop"], done.keys["top_stop"]) == ("interrupted", "interrupted")
    assert done.keys["top"][0]["design"] == done.keys["design"]


def test_an_optimum_that_is_not_proved_has_no_neighbourhood() -> None:
    arguments = ("cosmic/gpt3-175b-system3", "--objective", "step_time * network_cost", "--evaluations", "6150")
    done = run("solve", *arguments, "--within", "1%", "--top", "3", "--json", "--quiet")
    assert (done.code, done.keys["status"], done.keys["near"], done.keys["top"]) == (0, "feasible", None, None)
    text = run("solve", *arguments, "--within", "1%", "--quiet").out
    assert "the designs around it are not known: the optimum is not proved" in text


def test_an_infeasible_problem_has_nothing_around_its_optimum() -> None:
    done = run("solve", LLAMA, "--fix", "tp=16", "--within", "1%", "--top", "3", "--json")
    assert (done.code, done.keys["near"], done.keys["top"]) == (3, None, None)


def test_nothing_asked_adds_nothing() -> None:
    around = Around(Asked.of(None, None, "genetic"))
    assert around.complete


@pytest.mark.parametrize(
    "options",
    [
        ("--within", "-1%"),
        ("--within", "nan%"),
        ("--within", "inf%"),
        ("--within", "1"),
        ("--within", ""),
        ("--within", "1 GB%"),
        ("--within", "1e99%"),
        ("--within", "1%", "--within", "2%"),
        ("--within", "1%", "--agent", "genetic", "--no-hybrid", "--evaluations", "9"),
        ("--top", "0"),
        ("--top", "-3"),
        ("--top", "10001"),
        ("--top", "1e3"),
        ("--top", "9" * 50),
        ("--top", "3", "--agent", "genetic", "--no-hybrid", "--evaluations", "9"),
    ],
)
def test_what_means_nothing_is_refused_before_the_search(options: tuple[str, ...]) -> None:
    done = run("solve", LLAMA, *options)
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err
    assert "incumbent" not in done.err


def test_a_billion_percent_is_everything_that_runs() -> None:
    near = run("solve", LLAMA, "--within", "1e9%", "--json", "--quiet").keys["near"]
    assert (near["designs"], near["exact"]) == (968, True)
