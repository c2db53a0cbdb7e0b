from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.nearest import nearest_designs
from cosmic_opt.api import Problem
from cosmic_opt.psa.evaluate import feasible
from tests.strategies import FOCUSES, brute_force, declare, sources

MODEL = """
schema: cosmic-opt/model@1
name: small
parameters:
  u: {stack: workload, domain: [1, 2, 4, 8]}
  v: {stack: workload, domain: [1, 2, 4, 8]}
  w: {stack: workload, domain: [0, 1]}
constraints:
  both: u * v == 8
"""


def test_the_nearest_designs_change_other_knobs_each() -> None:
    found = nearest_designs(declare(MODEL), {"u": 4, "v": 4, "w": 0}, 5)
    assert [dict(neighbour.changes) for neighbour in found] in (
        [{"u": (4, 2)}, {"v": (4, 2)}],
        [{"v": (4, 2)}, {"u": (4, 2)}],
    )


def test_a_value_outside_its_domain_always_changes_to_the_closest() -> None:
    (found,) = nearest_designs(declare(MODEL), {"u": 5, "v": 2, "w": 1}, 5)
    assert dict(found.changes) == {"u": (5, 4)}


def test_no_design_is_near_when_none_is_feasible() -> None:
    assert nearest_designs(declare(MODEL.replace("== 8", "== 3")), {"u": 4, "v": 4, "w": 0}, 5) == []


def test_the_full_stack_has_a_neighbour_that_shares_all_but_one_knob() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2")
    values = {**next(problem.baseline().points()), "tp": 16}
    for neighbour in problem.why_not(values).nearest:
        assert neighbour.distance == 1
        assert feasible(neighbour.design).all()


@pytest.mark.parametrize("focus", FOCUSES)
def test_no_feasible_design_is_nearer_than_the_first(focus: str) -> None:
    asked = 0

    @settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal asked
        parameter_set = data.draw(sources(focus)).bind()
        designs = brute_force(parameter_set)
        assume(len(designs))
        wanted = np.array([data.draw(st.integers(0, len(column.values) - 1)) for column in parameter_set.columns])
        assume(not (designs == wanted).all(axis=1).any())
        asked += 1
        values = {c.name: c.values[code] for c, code in zip(parameter_set.columns, wanted, strict=True)}
        found = nearest_designs(parameter_set, values, 20)
        moved = designs != wanted
        assert found[0].distance == moved.sum(axis=1).min()
        sets = {frozenset(np.flatnonzero(row).tolist()) for row in moved}
        minimal = {changed for changed in sets if not any(other < changed for other in sets)}
        listed = [frozenset(parameter_set.positions[name] for name in neighbour.changes) for neighbour in found]
        assert set(listed) == set(sorted(minimal, key=len)[: len(listed)]) or len(minimal) > 20
        assert [len(changed) for changed in listed] == sorted(map(len, minimal))[: len(listed)]

    check()
    assert asked >= 10
