"""What a problem refuses, and what it answers design by design."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from tests.unit.search.six import written

NAMES = ("llama3-8b/h200-32-fsdp", "llama3-8b/h200-8-serving", "cosmic/gpt3-13b-system1")


@pytest.mark.parametrize("name", NAMES)
def test_several_designs_are_refused_as_one(name: str) -> None:
    problem = Problem.load(name)
    several = next(problem.enumerate())
    for ask in (problem.simulate, problem.violations):
        with pytest.raises(SpecError, match=f"{len(several)} designs, expected one") as caught:
            ask(several)
        assert caught.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_no_design_is_refused_as_one(name: str) -> None:
    problem = Problem.load(name)
    none = problem.parameter_set.batch(problem.baseline().codes[:0])
    with pytest.raises(SpecError, match="0 designs, expected one"):
        problem.simulate(none)


@pytest.mark.parametrize("name", NAMES)
def test_the_designs_of_a_batch_are_simulated_one_by_one(name: str) -> None:
    problem = Problem.load(name)
    points = next(problem.enumerate()).points()
    designs = [problem.parameter_set.design(next(points)) for _ in range(2)]
    for design in designs:
        assert problem.violations(design) == []
        assert problem.simulate(design).terms_s


def test_an_instance_without_a_design_has_no_baseline(tmp_path: Path) -> None:
    path = Path(written(tmp_path))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("design: {dp: 48, tp: 1, pp: 1}", "design: {dp: 48}"), encoding="utf-8")
    problem = Problem.load(str(path))
    with pytest.raises(SpecError, match=r"six.yaml:13: design: .*nothing gives tp, pp a value") as caught:
        problem.baseline()
    assert "problem.fix(tp=8)" in str(caught.value.hint)
    assert next(problem.fix(tp=1, pp=1).baseline().points())["dp"] == 48
