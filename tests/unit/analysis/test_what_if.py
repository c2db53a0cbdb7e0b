from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from cosmic_opt.analysis.sweep import parse_range
from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.solve import solve
from cosmic_opt.units import Unit, parse
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
    memo.learn([b"a", b"b"], [2, 9])
    memo.learn([b"a", b"b"], [5, 7])
    assert memo.recall([b"a", b"b", b"c"]) == [5, 9, 0]


def values_of(problem: Problem, over: str, solves: int = 16) -> list[tuple[str, str, bool]]:
    sweep = problem.sweep(over)
    found = problem.breakpoints(sweep, list(sweep.points()), solves=solves)
    return [(change.low.value, change.high.value, change.exact) for change in found]


def test_a_sweep_gives_every_optimum_and_the_breakpoints() -> None:
    problem = SYSTEM1.require("sp == 1")
    sweep = problem.sweep("memory_capacity=10GB,16GB,24GB")
    points = list(sweep.points())
    cold = [problem.set(memory_capacity=point.value).solve() for point in points]
    assert [point.answer.outcome.value for point in points] == [outcome.value for outcome in cold]
    pairs = pairwise(cold)
    moved = [left.design.codes.tolist() != right.design.codes.tolist() for left, right in pairs]
    assert [point.changed for point in points[1:]] == moved
    assert len(problem.breakpoints(sweep, points, solves=0)) == sum(moved)


def test_a_breakpoint_is_exact_to_the_byte() -> None:
    problem = SYSTEM1.require("sp == 1")
    sweep = problem.sweep("memory_capacity=12GB,12.7GB")
    found = problem.breakpoints(sweep, list(sweep.points()), solves=40)
    assert len(found) > 2
    assert all(change.exact for change in found)
    for change in found:
        low, high = (parse(point.value, Unit.BYTES) for point in (change.low, change.high))
        assert high - low == 1
        designs = [problem.set(memory_capacity=f"{size} B").solve().design.codes.tolist() for size in (low, high)]
        assert designs[0] != designs[1]
    assert (
        parse(found[0].high.value, Unit.BYTES)
        == problem.set(memory_capacity="24 GB").optimise("memory_per_npu_cosmic").value
    )
    for left, right in pairwise(found):
        assert left.high.answer.design == right.low.answer.design


def test_without_searches_left_a_breakpoint_is_an_interval() -> None:
    assert values_of(SYSTEM1.require("sp == 1"), "memory_capacity=10GB,24GB", solves=0) == [("10GB", "24GB", False)]
    few = values_of(SYSTEM1.require("sp == 1"), "memory_capacity=4GB,24GB", solves=3)
    assert not all(exact for _, _, exact in few)
    assert [high for _, high, _ in few[:-1]] == sorted(
        (high for _, high, _ in few[:-1]), key=lambda v: parse(v, Unit.BYTES)
    )


def test_a_coarse_sweep_finds_the_breakpoints_of_the_whole_domain() -> None:
    problem = SYSTEM1.require("sp == 1")
    assert values_of(problem, "tp=1,16") == values_of(problem, "tp=1,2,4,8,16")
    assert values_of(problem, "bandwidth[0]=50GB/s,500GB/s") == values_of(
        problem, "bandwidth[0]=50GB/s:500GB/s:50GB/s", solves=0
    )


def test_where_only_the_objective_changes_the_interval_is_halved_each_time() -> None:
    problem = BASE.objective("step_time * network_cost")
    assert values_of(problem, "peak=1 TFLOPS,100000 TFLOPS", solves=4) == [("1 TFLOPS", "6.2509375 PFLOPS", False)]
    for low, high, exact in values_of(problem, "peak=1 TFLOPS,100000 TFLOPS", solves=60):
        assert exact == (parse(high, Unit.FLOP_PER_S) - parse(low, Unit.FLOP_PER_S) == 1)


def test_names_of_data_have_no_grid() -> None:
    assert values_of(SYSTEM1.require("sp == 1"), "price_rule=cosmic,libra") in ([], [("cosmic", "libra", False)])


def test_a_parameter_can_be_swept() -> None:
    points = list(BASE.sweep("tp=1,2,4").points())
    assert [point.answer.design["tp"] for point in points if point.answer.design] == [
        int(point.value) for point in points if point.answer.design
    ]


def test_a_range_is_equally_spaced_and_reads_back_exactly() -> None:
    assert parse_range("memory_capacity=24GB:192GB:8").values[:3] == ("24 GB", "48 GB", "72 GB")
    assert parse_range("memory_capacity=90GB:65GB:10GB").values == ("90 GB", "80 GB", "70 GB")
    assert parse_range("memory_capacity=90GB:70GB:3").values == ("90 GB", "80 GB", "70 GB")
    assert parse_range("latency=0 ns:1 us:3").values == ("0 ps", "500 ns", "1 us")
    assert parse_range("bandwidth[3]=50GB/s:220GB/s:50GB/s").values == ("50 GB/s", "100 GB/s", "150 GB/s", "200 GB/s")
    assert parse_range("npus=2:8:4").values == ("2", "4", "6", "8")
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
        "x=1GB:9GB:2 s",
        "x=1GB:9GB:0GB",
        "x=1GB:9GB:-1GB",
        "x=1GB:9GB:1.5",
    ],
)
def test_a_range_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_range(text)
    assert error.value.hint


@pytest.mark.parametrize("over", ["nonsense=1,2", "tp=3,5", "memory_capacity=1 s,2 s", "memory_capacity=-1 GB,2 GB"])
def test_sweeping_what_does_not_exist_or_cannot_be_is_refused(over: str) -> None:
    with pytest.raises(SpecError):
        list(BASE.sweep(over).points())
