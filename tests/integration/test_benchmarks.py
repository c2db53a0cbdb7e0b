"""Benchmarks still run: every one loads, and those of rates score a few designs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / name), run_name="loaded")


@pytest.mark.parametrize("name", ["score_rate.py", "calibrated_rate.py"])
def test_rates_are_measured_on_designs_that_can_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / name), run_name="loaded")["main"](50)
    assert "/s" in capsys.readouterr().out
