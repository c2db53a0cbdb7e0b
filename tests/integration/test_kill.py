"""Searches killed with SIGKILL at random moments and started again end as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.search import bounding, frontier
from tests.unit.search.studies import PROBLEM, facts, held, in_child, solve

ROOT = Path(__file__).resolve().parents[2]
ASKED = ("solve", "cosmic/gpt3-175b-system3", "--objective", "step_time * network_cost", "--json", "--quiet")
KILLS = 50
SAME = ("status", "stop", "design", "objective", "bound", "gap", "evaluations", "regions", "nodes", "feasible_designs")


class Watch:
    """Checks, after every kill, that what was recorded before is still there, once."""

    def __init__(self, path: Path) -> None:
        self.path, self.before = path, dict[str, list[tuple[Any, ...]]]()

    def look(self) -> int:
        """Return how many results are recorded."""
        if not self.path.exists() or not self.path.stat().st_size:
            assert not self.before
            return 0
        now = held(self.path)
        for table, rows in self.before.items():
            assert now[table][: len(rows)] == rows, table
        designs = [design for _, design, _, _ in now["evaluations"]]
        assert len(designs) == len(set(designs))
        self.before = now
        return sum(len(rows) for rows in now.values())


def test_three_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounding, "BLOCK", 4)
    monkeypatch.setattr(frontier, "SOLVE_CHUNK", 2)
    solve(tmp_path / "first.study")  # compiles
    began = time.monotonic()
    solve(tmp_path / "whole.study")
    seconds = time.monotonic() - began
    rng, watch, killed = random.Random(7), Watch(tmp_path / "a.study"), 0
    while killed < 3:
        delay = rng.uniform(0.1, 0.9) * seconds

        def kill(child: int, delay: float = delay) -> None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)

        killed += os.WIFSIGNALED(in_child(partial(solve, watch.path), kill))
        watch.look()
        if watch.before.get("answers"):  # the search had ended before it was killed: begin another study
            watch = Watch(tmp_path / f"{killed}.study")
    assert facts(solve(watch.path)) == facts(solve())
    watch.look()
    whole = held(tmp_path / "whole.study")
    assert {row[1:] for row in watch.before["evaluations"]} == {row[1:] for row in whole["evaluations"]}
    assert PROBLEM.solve(study=watch.path).value == solve().value


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "cosmic_opt.cli", *ASKED, *more]


@pytest.mark.slow
def test_fifty_kills_at_random_moments_of_the_command_change_no_answer(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*more: str) -> dict[str, Any]:
        done = subprocess.run(command(*more), check=True, capture_output=True, text=True, env=environment)
        keys = json.loads(done.stdout)
        return {name: keys[name] for name in SAME}

    run()  # compiled code is kept for the next
    began = time.monotonic()
    expected = run("--study", str(tmp_path / "whole.study"))
    seconds = time.monotonic() - began
    whole = {row[1:] for row in held(tmp_path / "whole.study")["evaluations"]}
    rng, kills, studies, lengths = random.Random(50), 0, 0, list[int]()
    while kills < KILLS:
        studies += 1
        watch = Watch(tmp_path / f"{studies}.study")
        for _ in range(rng.randint(1, 5)):
            process = subprocess.Popen(
                command("--study", str(watch.path)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            try:
                process.wait(timeout=rng.uniform(0.3, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
            process.wait()
            lengths.append(watch.look())
        assert run("--study", str(watch.path)) == expected
        watch.look()
        assert {row[1:] for row in watch.before["evaluations"]} == whole
    assert len(set(lengths)) > 5, "the kills came at different moments"
