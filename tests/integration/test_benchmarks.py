"""Benchmarks still run: every one loads, and those of rates score a few designs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / name), run_name="loaded")


READERS = [path.name for path in sorted(FOLDER.glob("*.py")) if "path_given(" in path.read_text(encoding="utf-8")]
READERS.remove("arguments.py")
COUNTERS = ["calibrated_rate.py", "enumerate_rate.py", "score_rate.py"]


def test_no_benchmark_takes_its_first_argument_unseen() -> None:
    assert len(READERS) == 4
    for path in FOLDER.glob("*.py"):
        assert path.name == "arguments.py" or "sys.argv[1]" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, given) for name in READERS for given in ([], ["nowhere.json"], [str(FOLDER), "more"])),
        *((name, given) for name in COUNTERS for given in (["many"], ["-1"], ["0"], ["5", "6"])),
    ],
)
def test_a_benchmark_without_its_argument_says_what_it_takes(
    name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"usage: python benchmarks/{name} ")


@pytest.mark.parametrize("name", ["score_rate.py", "calibrated_rate.py"])
def test_rates_are_measured_on_designs_that_can_run(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / name), run_name="loaded")["main"](50)
    assert "/s" in capsys.readouterr().out
