"""Where the best design changes between two swept values: few looks find the place, to the byte."""

from __future__ import annotations

import pytest

from cosmic_opt.analysis import what_if
from cosmic_opt.analysis.breakpoints import Breakpoint
from cosmic_opt.analysis.sweep import Sweep
from cosmic_opt.api import Problem
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.psa.evaluate import feasible

SERVED = Problem.load("llama3-70b/h100-8-serving")


def narrowed(problem: Problem, over: str) -> tuple[Sweep, list[Breakpoint], list[str]]:
    """Return a sweep, its breakpoints, and the values that were bound to find them."""
    sweep, bound = problem.sweep(over), list[str]()
    points = list(sweep.points())

    bind_at = sweep.bind_at

    def counted(value: str) -> BoundInstance:
        bound.append(value)
        return bind_at(value)

    sweep.bind_at = counted
    return sweep, problem.breakpoints(sweep, points), bound


def test_a_rule_on_memory_is_located_in_a_few_looks_each() -> None:
    """Halving 10 GB to the byte takes 33 looks; a rule whose sides are straight takes few, and none twice."""
    _, found, bound = narrowed(SERVED, "memory_capacity=34GB,35GB")
    assert len(found) >= 4
    assert all(change.exact for change in found)
    searches = 2 * len(found)
    assert len(bound) <= searches + 8 * len(found)


def test_a_falling_sweep_finds_the_places_of_the_rising_one() -> None:
    (_, rising, _), (_, falling, _) = (
        narrowed(SERVED, f"memory_capacity={over}") for over in ("34GB,34.3GB", "34.3GB,34GB")
    )
    up = [(each.low.value, each.high.value, each.exact) for each in rising]
    down = [(each.high.value, each.low.value, each.exact) for each in falling]
    assert up == down[::-1] != []
    designs = [each.low.answer.design for each in falling], [each.high.answer.design for each in falling]
    assert designs[0][1:] == designs[1][:-1]  # each change begins with the design that the one before it led to


def test_at_a_breakpoint_the_new_design_begins_to_fit() -> None:
    sweep, found, _ = narrowed(SERVED, "memory_capacity=34GB,35GB")
    for change in found:
        design = change.high.answer.design
        below, at = (sweep.bind_at(point.value).parameter_set for point in (change.low, change.high))
        assert not feasible(below.design(design))[0]
        assert feasible(at.design(design))[0]


def test_where_the_rule_is_no_inequality_the_same_places_are_found_by_halving() -> None:
    either = SERVED.without("fits").require("kv_cache_per_npu <= cache_room_per_npu or dp > npus")
    places = [
        [(change.low.value, change.high.value) for change in narrowed(problem, "memory_capacity=34GB,34.3GB")[1]]
        for problem in (SERVED, either)
    ]
    assert places[0] == places[1] != []


def test_a_design_is_scored_in_full_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[BoundInstance] = []
    score = what_if.report

    def counted(instance: BoundInstance, design: object) -> object:
        asked.append(instance)
        return score(instance, design)

    monkeypatch.setattr(what_if, "report", counted)
    sweep = SERVED.sweep("memory_capacity=34GB,35GB")
    points = list(sweep.points())
    SERVED.breakpoints(sweep, points)
    assert asked == []
    report = points[0].answer.report
    assert report is points[0].answer.report
    assert len(asked) == 1


def test_an_answer_without_a_design_has_no_report() -> None:
    point = next(SERVED.sweep("memory_capacity=1GB,2GB").points())
    assert point.answer.report is None
