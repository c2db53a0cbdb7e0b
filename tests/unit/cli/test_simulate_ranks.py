"""`simulate --slow-rank` and `--every-rank`: what slow ranks cost and who waits, from the command line."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.unit.cli.running import run

SMALL = ("simulate", "cosmic/vit-base-system2", "--set", "global_batch=256")
EVENTS = ("--engine", "events")
PIPELINE = ("--fix", "chunks=2", "--fix", "tp=4", "--fix", "dp=64", "--fix", "pp=4")
GROUPS = ("tensor_s", "context_s", "data_s", "pipeline_s", "step_s")


def test_without_slow_ranks_every_rank_takes_the_folded_step() -> None:
    done = run(*SMALL, *EVENTS, "--every-rank")
    assert (done.code, "the step is the folded one to the tick" in done.out) == (0, True)
    keys = run(*SMALL, *EVENTS, "--every-rank", "--json").keys
    ranks = keys["every_rank"]
    assert ranks["step_time_s"] == ranks["equal_step_time_s"] == keys["metrics"]["step_time_s"]
    assert (ranks["equals_folded"], ranks["cost_s"], ranks["slow"], ranks["ranks"]) == (True, 0, [], 1024)
    assert "every_rank" not in run(*SMALL, *EVENTS, "--json").keys


def test_a_slow_rank_waits_least_and_the_cost_is_the_difference() -> None:
    keys = run(*SMALL, *EVENTS, *PIPELINE, "--slow-rank", "17=1.25", "--json").keys
    ranks = keys["every_rank"]
    assert ranks["slow"] == [{"rank": 17, "tp": 1, "sp": 0, "dp": 4, "stage": 0, "factor": 1.25}]
    assert ranks["equal_step_time_s"] == keys["metrics"]["step_time_s"] < ranks["step_time_s"]
    assert math.isclose(ranks["cost_s"], ranks["step_time_s"] - ranks["equal_step_time_s"], rel_tol=1e-9)
    assert ranks["wait_least"][0]["rank"] == 17
    assert set(ranks["waits"]) == set(GROUPS)
    for row in (*ranks["wait_longest"], *ranks["wait_least"]):
        assert math.isclose(row["wait_s"], sum(row[group] for group in GROUPS), rel_tol=1e-9)
        assert row["rank"] == row["tp"] + 4 * (row["sp"] + row["dp"] + 64 * row["stage"])


def test_the_text_names_slow_ranks_costs_and_waits() -> None:
    out = run(*SMALL, *EVENTS, *PIPELINE, "--slow-rank", "17=1.25", "--slow-rank", "400=2").out
    for words in (
        *("rank 17 (1.25 times as long), 400 (2 times as long)", "without slow ranks", "longer"),
        *("messages from other stages", "longest and least", "mostly for"),
    ):
        assert words in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--slow-rank", "17=1.25"), "add --engine events"),
        (("--every-rank",), "add --engine events"),
        ((*EVENTS, "--slow-rank", "17"), "RANK=FACTOR"),
        ((*EVENTS, "--slow-rank", "=2"), "RANK=FACTOR"),
        ((*EVENTS, "--slow-rank", "-1=2"), "RANK=FACTOR"),
        ((*EVENTS, "--slow-rank", "1=nan"), "RANK=FACTOR"),
        ((*EVENTS, "--slow-rank", "1=1e9"), "RANK=FACTOR"),
        ((*EVENTS, "--slow-rank", "17=1e3"), "no exponent"),
        ((*EVENTS, "--slow-rank", "17=1.0000000001"), "9 decimals at most"),
        ((*EVENTS, "--slow-rank", "1024=2"), "--slow-rank: there is no rank 1024"),
        ((*EVENTS, "--slow-rank", "1=0"), "from 0.001 to 1000"),
        ((*EVENTS, "--slow-rank", "1=1001"), "from 0.001 to 1000"),
        ((*EVENTS, "--slow-rank", "1=2", "--slow-rank", "1=2"), "named twice"),
        ((*EVENTS, "--slow-rank", "1024=2"), "ranks 0 to 1023"),
        ((*EVENTS, "--every-rank", "--timeline", "step.json"), "one NPU of each stage"),
    ],
)
def test_what_means_nothing_is_refused(options: tuple[str, ...], words: str) -> None:
    done = run(*SMALL, *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_step_of_too_many_events_is_refused() -> None:
    done = run("simulate", "cosmic/gpt3-175b-system3", *EVENTS, "--every-rank")
    assert (done.code, "events are more than" in done.err) == (4, True)


def test_an_instance_without_events_refuses_every_rank() -> None:
    done = run("simulate", "llama3-8b/h100-8", *EVENTS, "--every-rank")
    assert (done.code, done.out) == (2, "")
    assert "leave out --engine events" in done.err


def test_ctrl_c_while_ranks_are_played_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of events ends, and the signal that came meanwhile is seen."""

    @contextmanager
    def interrupted(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
        yield lambda done: signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("cosmic_opt.cli.simulate.progress_bar", interrupted)
    done = run(*SMALL, *EVENTS, "--every-rank")
    assert (done.code, done.out) == (130, "")


def test_a_terminal_is_told_how_many_events_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[tuple[int, int]]()

    @contextmanager
    def watched(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
        assert quiet
        yield lambda done: told.append((done, total))

    monkeypatch.setattr("cosmic_opt.cli.simulate.progress_bar", watched)
    ranks = run(*SMALL, *EVENTS, "--every-rank", "--quiet", "--json").keys["every_rank"]
    assert told[-1] == (ranks["events"], ranks["events"])
    assert len(told) > 1
