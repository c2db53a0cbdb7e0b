"""Enumeration as a process: killed and resumed without loss, watched on a terminal, in constant memory."""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset as dataset
import pytest

from cosmic_opt.cli.progress import exact_percent, progress_bar
from tests.integration.pages import DOCS

ROOT = Path(__file__).resolve().parents[2]
FULL_STACK = "cosmic/gpt3-175b-system2"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PEAK = """
import resource, sys
from cosmic_opt.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cosmic_opt.cli", "enumerate", *arguments]


def content(out: Path) -> object:
    """Return all that a file or a folder of designs says, in order."""
    if out.is_dir():
        return dataset.dataset(sorted(out.glob("part-*.parquet"))).to_table()
    return out.read_bytes()


def written(folder: Path) -> int:
    """Return how many bytes are on the disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".tmp")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_a_run_killed_at_three_random_points_and_resumed_has_the_same_content(name: str, tmp_path: Path) -> None:
    limit = 6 * (1 << 18) if name == "a.parquet" else 1_000_000
    metrics = ["--with", "memory_per_npu"] if name == "a.parquet" else []
    whole = tmp_path / "whole" / name
    whole.parent.mkdir()
    asked = [FULL_STACK, "--limit", str(limit), *metrics, "--quiet"]
    subprocess.run(command(*asked, "--out", str(whole)), check=True, capture_output=True, env=ENVIRONMENT)
    out = tmp_path / "killed" / name
    out.parent.mkdir()
    rng, total = random.Random(name), written(whole.parent)
    for third in range(3):
        process = subprocess.Popen(
            command(*asked, "--out", str(out), "--resume"), stdout=subprocess.DEVNULL, env=ENVIRONMENT
        )
        wanted = total * (third + rng.random()) / 3.5
        deadline = time.monotonic() + 60
        while written(out.parent) < wanted and process.poll() is None and time.monotonic() < deadline:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not out.is_file()
    subprocess.run(command(*asked, "--out", str(out), "--resume"), check=True, capture_output=True, env=ENVIRONMENT)
    assert content(out) == content(whole)


@pytest.mark.slow
def test_ten_times_as_many_designs_need_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for number in (1_000_000, 10_000_000):
        asked = [
            "enumerate",
            FULL_STACK,
            "--limit",
            str(number),
            "--out",
            str(tmp_path / f"{number}.parquet"),
            "--quiet",
        ]
        done = subprocess.run(
            [sys.executable, "-c", PEAK, *asked], check=True, capture_output=True, text=True, env=ENVIRONMENT
        )
        peaks.append(int(done.stderr.split()[-1]))
    assert peaks[1] < 1.2 * peaks[0]


def test_a_terminal_shows_the_exact_percentage_and_a_pipe_nothing(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    asked = [FULL_STACK, "--limit", "300000", "--out", str(tmp_path / "a.parquet")]
    subprocess.run(command(*asked), check=True, stdout=subprocess.DEVNULL, stderr=theirs, env=ENVIRONMENT)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "100.00 %  300,000 of 300,000" in shown
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    piped = subprocess.run(command(*asked), check=True, capture_output=True, text=True, env=ENVIRONMENT)
    assert "%" not in piped.stderr


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (0, 3, "0.00 %"),
        (1, 3, "33.33 %"),
        (2, 3, "66.66 %"),
        (10**30 - 1, 10**30, "99.99 %"),
        (10**30, 10**30, "100.00 %"),
        (0, 0, "100.00 %"),
    ],
)
def test_a_percentage_never_rounds_up(done: int, total: int, text: str) -> None:
    assert exact_percent(done, total) == text


def test_a_quiet_bar_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(10, quiet=True) as show:
        show(5)
    assert capsys.readouterr().err == ""


def test_the_python_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "guide/enumerate.md").read_text(encoding="utf-8")
    program = text.split("```python\n")[1].split("```")[0]
    exec(program, {})
    assert "{'tp': 8}" in capsys.readouterr().out
