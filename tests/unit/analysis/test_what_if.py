from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from cosmic_opt.analysis.sweep import breakpoints, parse_range
from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.memo import Proved, RegionMemo
from cosmic_opt.search.solve import Outcome, solve
from tests.unit.search.spaces import SPACES, SYSTEM1

BASE = SPACES["a budget and a lower limit"]


def test_the_changed_answer_equals_a_cold_solve() -> None:
    changed = BASE.set(memory_capacity="12 GB")
    difference = BASE.what_if(changed)
    cold = changed.solve()
    assert difference.changed.outcome.value == cold.value
    assert difference.changed.outcome.design.codes.tolist() == cold.design.codes.tolist()


def test_nothing_moves_when_nothing_changes() -> None:
    difference = BASE.what_if(BASE)
    assert difference.design == {}
    assert all(old == new for old, new in difference.terms_s.values())
    assert all(old == new for old, new in difference.metrics.values())


def test_the_terms_of_both_answers_add_up_to_their_steps() -> None:
    difference = BASE.what_if(BASE.set(peak="100 TFLOPS"))
    old, new = zip(*difference.terms_s.values(), strict=True)
    before, after = difference.metrics["step_time_s"]
    assert sum(old) == pytest.approx(before)
    assert sum(new) == pytest.approx(after)
    assert after is not None
    assert before is not None
    assert after > before


def test_an_infeasible_change_has_a_difference_without_a_design() -> None:
    difference = BASE.what_if(BASE.require("tp == 3"))
    assert difference.changed.design == {}
    assert difference.terms_s == {}
    assert difference.metrics["step_time_s"][1] is None
    assert difference.design["tp"][1] is None


CHANGES: dict[str, Callable[[Problem], Problem]] = {
    "less memory": lambda problem: problem.set(memory_capacity="14 GB"),
    "more memory": lambda problem: problem.set(memory_capacity="60 GB"),
    "another accelerator": lambda problem: problem.set(peak="100 TFLOPS"),
    "longer hops": lambda problem: problem.set(latency="3 us"),
    "a rule on a degree": lambda problem: problem.require("tp <= 2"),
    "a rule on an option": lambda problem: problem.require("bandwidth[0] <= 300 GB/s"),
    "a limit on the step": lambda problem: problem.require("step_time <= 11 s"),
    "another objective": lambda problem: problem.objective("step_time * total_bandwidth"),
}


def same(left: Outcome, right: Outcome) -> bool:
    return (left.status, left.value, left.bound, left.design.codes.tolist()) == (
        right.status,
        right.value,
        right.bound,
        right.design.codes.tolist(),
    )


@pytest.mark.parametrize("name", SPACES)
def test_searches_that_share_a_memo_answer_like_cold_ones(name: str) -> None:
    memo = RegionMemo()
    for change in (lambda problem: problem, *CHANGES.values(), lambda problem: problem):
        instance = change(SPACES[name]).instance
        assert same(solve(instance, memo=memo), solve(instance))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_full_stack_is_answered_like_a_cold_solve(change: str) -> None:
    baseline = Problem.load("cosmic/gpt3-175b-system2").require("memory_per_npu <= memory_capacity")
    changed = CHANGES[change](baseline.set(memory_capacity="40 GB"))
    assert same(baseline.what_if(changed).changed.outcome, changed.solve())


def test_what_a_search_proved_is_not_proved_again() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system1").objective("step_time * network_cost")
    memo = RegionMemo()
    cold = solve(problem.instance, memo=memo)
    warm = solve(problem.require("sp <= 512").instance, memo=memo, start=[next(cold.design.points())])
    assert warm.value == cold.value
    assert warm.nodes < cold.nodes / 10


def test_a_memo_keeps_the_higher_of_two_bounds() -> None:
    memo = RegionMemo()
    memo.learn([b"a", b"b"], [Proved(1, 2, 2), Proved(1, 2, 9)])
    memo.learn([b"a", b"b"], [Proved(1, 2, 5), Proved(1, 2, 7)])
    assert memo.recall([b"a", b"b", b"c"]) == [Proved(1, 2, 5), Proved(1, 2, 9), None]


def test_a_sweep_gives_every_optimum_and_the_breakpoints() -> None:
    problem = SYSTEM1.require("sp == 1")
    points = list(problem.sweep("memory_capacity=10GB,16GB,24GB"))
    cold = [problem.set(memory_capacity=point.value).solve() for point in points]
    assert [point.answer.outcome.value for point in points] == [outcome.value for outcome in cold]
    pairs = pairwise(cold)
    moved = [left.design.codes.tolist() != right.design.codes.tolist() for left, right in pairs]
    assert [point.changed for point in points[1:]] == moved
    assert len(breakpoints(points)) == sum(moved)


def test_a_parameter_can_be_swept() -> None:
    points = list(BASE.sweep("tp=1,2,4"))
    assert [point.answer.design["tp"] for point in points if point.answer.design] == [
        int(point.value) for point in points if point.answer.design
    ]


def test_a_range_is_equally_spaced_and_reads_back_exactly() -> None:
    assert parse_range("memory_capacity=24GB:192GB:8").values[:3] == ("24 GB", "48 GB", "72 GB")
    assert parse_range("latency=0 ns:1 us:3").values == ("0", "500 ns", "1 us")
    assert parse_range("tp=1,2, 4").values == ("1", "2", "4")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tp",
        "tp=",
        "=1,2",
        "tp=1,,2",
        "tp=1:2",
        "tp=1:2:3:4",
        "tp=1:8:1",
        "tp=1:8:99999",
        "x=1GB:2 s:3",
        "tp=1:8:-3",
        "x=a:b:3",
    ],
)
def test_a_range_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_range(text)
    assert error.value.hint


@pytest.mark.parametrize("over", ["nonsense=1,2", "tp=3,5", "memory_capacity=1 s,2 s", "memory_capacity=-1 GB,2 GB"])
def test_sweeping_what_does_not_exist_or_cannot_be_is_refused(over: str) -> None:
    with pytest.raises(SpecError):
        list(BASE.sweep(over))
