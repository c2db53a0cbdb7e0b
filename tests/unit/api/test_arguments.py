"""What a program gives a problem is checked where it comes in, with an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError

PROBLEM: Any = Problem.load("llama3-8b/h200-32-fsdp")  # untyped: what is given below has wrong types
ASKED: dict[str, Callable[[], object]] = {
    "a design that is a mapping": lambda: PROBLEM.simulate({"tp": 2}),
    "violations of a mapping": lambda: PROBLEM.violations({"tp": 1}),
    "fewer than no designs": lambda: PROBLEM.sample(-1),
    "one and a half designs": lambda: PROBLEM.sample(1.5),
    "true designs": lambda: PROBLEM.sample(True),
    "a negative seed of a sample": lambda: PROBLEM.sample(1, seed=-1),
    "a negative seed of a search": lambda: PROBLEM.solve(seed=-1),
    "a negative seed of a comparison": lambda: PROBLEM.what_if(PROBLEM, seed=-1),
    "a seed that is text": lambda: PROBLEM.optimise("memory_per_npu", seed="1"),
    "a negative rank": lambda: next(PROBLEM.enumerate(-1)),
    "a comparison with a number": lambda: PROBLEM.what_if(3),
    "the surroundings of a number": lambda: PROBLEM.near(-1),
    "the certificate of nothing": lambda: PROBLEM.certificate(None),
    "an expression that is a number": lambda: PROBLEM.optimise(3),
    "a range that is a number": lambda: PROBLEM.sweep(3),
    "a front of a number": lambda: PROBLEM.pareto(3),
    "why not a number": lambda: PROBLEM.why_not(3),
    "no explanation at all": lambda: PROBLEM.explain(limit=0),
    "an unknown parameter": lambda: PROBLEM.fix(zz=3),
    "a parameter that is a number": lambda: PROBLEM.fix({3: 4}),
    "freeing a number": lambda: PROBLEM.free(7),
    "freeing an unknown parameter": lambda: PROBLEM.free("bandwith"),
    "an unknown scope": lambda: PROBLEM.scope("nope"),
    "a scope that is a list": lambda: PROBLEM.scope(["framework"]),
    "half a rule": lambda: PROBLEM.require("tp <= "),
    "a rule that is a number": lambda: PROBLEM.require(3),
    "a capacity per second": lambda: PROBLEM.set(memory_capacity="80 GB/s"),
    "an unknown datum": lambda: PROBLEM.set(nope=3),
    "a parameter as a datum": lambda: PROBLEM.set(tp=2),
    "an unknown objective": lambda: PROBLEM.objective("fastest"),
}


@pytest.mark.parametrize("what", ASKED)
def test_it_is_refused_at_once_with_a_hint(what: str) -> None:
    with pytest.raises(SpecError) as refused:
        ASKED[what]()
    assert refused.value.hint or "^" in str(refused.value)  # a rule shows the place


def test_what_depends_on_other_changes_is_refused_when_the_problem_is_asked() -> None:
    late = (PROBLEM.fix(tp=3), PROBLEM.without("nope"))
    for problem in late:
        with pytest.raises(SpecError):
            _ = problem.instance


def test_changes_may_come_in_any_order() -> None:
    """64 NPUs are not there until the second change, and the first is fine all the same."""
    wide = PROBLEM.fix(dp=64, tp=1, cp=1).set(npus=64)
    assert wide.instance.data["npus"] == 64


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert len(PROBLEM.sample(np.int64(2), seed=np.int32(1))) == 2
    assert len(PROBLEM.sample(0)) == 0
