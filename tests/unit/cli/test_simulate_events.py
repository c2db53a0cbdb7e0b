"""`simulate --engine events`: the keys of an analytical score, what only events know, and a timeline."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.unit.cli.running import run

COSMIC = "cosmic/gpt3-175b-system2"
EVENTS = ("--engine", "events")
PIPELINE = ("--fix", "tp=16", "--fix", "dp=16", "--fix", "pp=4", "--fix", "sp=1")


def test_events_are_never_faster_than_the_closed_forms_and_add_up() -> None:
    for fixes in ((), PIPELINE):
        bound = run("simulate", COSMIC, *fixes, "--json").keys["metrics"]["step_time_s"]
        keys = run("simulate", COSMIC, *fixes, *EVENTS, "--json").keys
        assert keys["engine"] == "events"
        assert keys["analytical_step_time_s"] == bound <= keys["metrics"]["step_time_s"]
        assert math.isclose(sum(keys["breakdown"].values()), keys["metrics"]["step_time_s"], rel_tol=1e-12)


def test_the_answer_names_utilisation_and_exposed_communication() -> None:
    keys = run("simulate", COSMIC, *PIPELINE, *EVENTS, "--json").keys
    assert len(keys["utilisation"]) == 4
    assert all(0 <= share < 1 for share in keys["utilisation"])
    exposed, parts = keys["exposed_communication"], keys["breakdown"]
    assert exposed["tensor_s"] == parts["tensor_parallel_communication_s"] > 0
    assert exposed["pipeline_s"] == parts["pipeline_sends_s"] > 0
    out = run("simulate", COSMIC, *PIPELINE, *EVENTS).out
    for words in ("by events", "analytical lower bound", "dimension 3", "exposed communication"):
        assert words in out


def test_a_timeline_is_written_whole_and_replaced_only_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    done = run("simulate", COSMIC, *PIPELINE, *EVENTS, "--timeline", str(file))
    assert (done.code, "wrote" in done.err) == (0, True)
    trace = json.loads(file.read_text())
    names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert "network dimension 1: fully_connected of 8" in names
    again = run("simulate", COSMIC, *PIPELINE, *EVENTS, "--timeline", str(file))
    assert (again.code, "--force" in again.err) == (2, True)
    assert run("simulate", COSMIC, *PIPELINE, *EVENTS, "--timeline", str(file), "--force").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "event"), "did you mean"),
        (("--timeline", "step.json"), "needs the event simulator"),
        ((*EVENTS, "--timeline", "step.txt"), "no known format"),
        ((*EVENTS, "--timeline", "."), "is a folder"),
        ((*EVENTS, "--timeline", "no/such/step.json"), "no folder"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: tuple[str, ...], words: str) -> None:
    done = run("simulate", COSMIC, *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_rule_on_the_step_is_checked_against_the_events() -> None:
    keys = run("simulate", COSMIC, *EVENTS, "--json").keys
    bound, step = keys["analytical_step_time_s"], keys["metrics"]["step_time_s"]
    assert bound < step
    limit = f"step_time <= {round((bound + step) / 2 * 10**12)} ps"
    assert run("simulate", COSMIC, "--require", limit, "--json").code == 0
    done = run("simulate", COSMIC, "--require", limit, *EVENTS, "--json")
    assert (done.code, done.keys["metrics"]) == (3, None)
    assert done.keys["violations"][0]["constraint"] == "required"
