"""The first Ctrl-C of a search leaves what it found."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event

import pytest
import typer

from cosmic_opt.analysis.sweep import Point, Sweep
from cosmic_opt.cli import options
from cosmic_opt.cli.interrupt import StoppableBudget, stop_on_interrupt
from tests.unit.cli.running import interrupt_at_second_look, run

TRAINED = "llama3-8b/h100-8"


def test_the_first_ctrl_c_is_remembered_and_the_second_is_one() -> None:
    stopped, before = Event(), signal.getsignal(signal.SIGINT)
    with stop_on_interrupt(stopped):
        signal.raise_signal(signal.SIGINT)
        assert stopped.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_a_budget_ends_with_its_time_or_an_interrupt() -> None:
    assert StoppableBudget(0).out_of_time()
    budget = StoppableBudget(1e9)
    assert not budget.out_of_time()
    budget.stopped.set()
    assert budget.out_of_time()


def test_an_interrupted_front_is_that_of_the_designs_scored_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_opt.search.every_front.BLOCK", 16)
    interrupt_at_second_look(monkeypatch)
    keys = (done := run("pareto", TRAINED, "--objectives", "step_time,memory_per_npu", "--json")).keys
    assert (done.code, keys["status"], keys["stop"]) == (130, "feasible", "interrupted")
    assert 0 < keys["designs_scored"] < keys["feasible_designs"]
    interrupt_at_second_look(monkeypatch)
    done = run("pareto", TRAINED, "--objectives", "step_time,memory_per_npu")
    assert "not proved (interrupted): the best of" in done.out


def test_a_front_that_was_proved_before_the_interrupt_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted_late(budget: StoppableBudget) -> bool:
        budget.stopped.set()
        return False

    monkeypatch.setattr(StoppableBudget, "out_of_time", interrupted_late)
    done = run("pareto", TRAINED, "--objectives", "step_time,memory_per_npu", "--json")
    assert (done.code, done.keys["status"], done.keys["stop"]) == (0, "optimal", "proved")


def test_an_interrupted_sweep_keeps_the_values_that_were_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved = Sweep.points

    def two(sweep: Sweep) -> Iterator[Point]:
        yield from islice(solved(sweep), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(Sweep, "points", two)
    sweep = ("sweep", TRAINED, "--over", "memory_capacity=60GB:80GB:3")
    done = run(*sweep, "--json", "--out", str(tmp_path / "sweep.json"))
    assert (done.code, done.keys["interrupted"], done.keys["breakpoints"]) == (130, True, [])
    assert [point["value"] for point in done.keys["points"]] == ["60 GB", "70 GB"]
    assert json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8")) == done.keys
    assert "interrupted: more values may follow" in run(*sweep).out


def test_a_sweep_interrupted_before_its_first_value_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(sweep: Sweep) -> Iterator[Point]:
        raise KeyboardInterrupt
        yield from solved(sweep)

    solved = Sweep.points
    monkeypatch.setattr(Sweep, "points", none)
    done = run("sweep", TRAINED, "--over", "memory_capacity=60GB:80GB:3", "--json")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


@pytest.mark.parametrize("moment", ["Commands.make_context", "Command.make_context", "Command.parse_args"])
def test_an_interrupt_before_a_command_runs_is_a_word(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = moment.split(".")

    def pressed(*arguments: object, **keys: object) -> None:
        raise KeyboardInterrupt

    target = typer.core.TyperGroup if owner == "Commands" else options.Command
    monkeypatch.setattr(target, name, pressed)
    done = run("list")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")
