"""The page on training accuracy: its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cosmic_opt.api import Problem

PAGE = Path(__file__).resolve().parents[4] / "docs" / "validation.md"


def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(program, {})
    first, second = capsys.readouterr().out.splitlines()
    assert "hidden input" in first
    assert second.startswith("[")


def test_the_numbers_of_the_readme_are_the_program_s() -> None:
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    problem = Problem.load("llama3-70b/h100-64")
    outcome = problem.solve()
    best, own = (
        float(str(problem.simulate(each).metrics["step_time_s"])) for each in (outcome.design, problem.baseline())
    )
    assert f"proves {best:.2f} s the fastest of {problem.count().value:,} designs" in readme
    assert f"predicted at {own:.2f} s and was measured at {128 * 8192 / (64 * 1619):.2f} s" in readme
