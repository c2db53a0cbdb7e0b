from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis import relaxed_table
from cosmic_opt.analysis.change import Drop
from cosmic_opt.analysis.explain import relaxable_of
from cosmic_opt.analysis.relaxation import cheapest_relaxations
from cosmic_opt.analysis.relaxed_problem import Costs
from cosmic_opt.api import Problem
from tests.strategies import FOCUSES, brute_force, sources, whole_grid
from tests.unit.analysis.relaxing import Running, after, every_way, expected_costs, is_simple, narrowed


@pytest.mark.parametrize(
    "focus", [each if each != "families" else pytest.param(each, marks=pytest.mark.slow) for each in FOCUSES]
)
@pytest.mark.parametrize("listed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_relaxations_are_those_of_brute_force_and_leave_a_design(
    focus: str, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(relaxed_table, "MOST_DESIGNS", -1)  # a solver looks for the cheapest
    infeasible = 0

    @settings(derandomize=True, deadline=None, max_examples=45, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal infeasible
        source = data.draw(sources(focus))
        wide = source.bind()
        assume(wide.grid_size <= 300)
        assume(all(map(is_simple, wide.constraints)))
        fixed = data.draw(st.lists(st.sampled_from(wide.columns), unique_by=lambda column: column.name, max_size=4))
        relaxable = narrowed(source, {c.name: (data.draw(st.sampled_from(c.values)),) for c in fixed})
        assume(len(brute_force(relaxable.own)) == 0)
        infeasible += 1
        costs = Costs(
            data.draw(st.sampled_from((Fraction(10), Fraction(3, 2)))),
            data.draw(st.sampled_from((Fraction(1), Fraction(1, 3)))),
        )
        found = cheapest_relaxations(relaxable, costs, 50).found
        assert [relaxation.cost for relaxation in found] == expected_costs(every_way(relaxable, costs), costs)
        for relaxation in found:
            assert relaxation.proved
            assert len(brute_force(after(source, relaxable, relaxation))) > 0
        for at, relaxation in enumerate(found):
            assert not any(other.changed <= relaxation.changed for other in found[:at])

    check()
    assert infeasible >= 40  # 200 and more over the focuses


@pytest.mark.parametrize("focus", ["logic", "sums", "products"])
@pytest.mark.parametrize("listed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_where_few_designs_run_relaxations_are_those_that_let_one_in(
    focus: str, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver (not `listed`) does not look for yet another number of a rule after one that lets nothing run in."""
    if not listed:
        monkeypatch.setattr(relaxed_table, "MOST_DESIGNS", -1)
    left_out = 0

    @settings(derandomize=True, deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal left_out
        source = data.draw(sources(focus))
        wide = source.bind()
        assume(wide.grid_size <= 300)
        assume(all(map(is_simple, wide.constraints)))
        fixed = data.draw(st.lists(st.sampled_from(wide.columns), unique_by=lambda column: column.name, max_size=3))
        relaxable = narrowed(source, {c.name: (data.draw(st.sampled_from(c.values)),) for c in fixed})
        assume(len(brute_force(relaxable.own)) == 0)
        grid = [tuple(codes) for codes in whole_grid(wide).tolist()]
        runs = frozenset(data.draw(st.lists(st.sampled_from(grid), max_size=8)))
        costs = Costs(Fraction(10), Fraction(1, 3))
        answer = cheapest_relaxations(relaxable, costs, 50, looks=Running(source, relaxable, runs))
        assume(answer.complete)
        left_out += answer.left_out
        expected = expected_costs(every_way(relaxable, costs, runs), costs)
        proved = [relaxation.proved for relaxation in answer.found]
        if listed or (proved and all(proved)):
            assert [relaxation.cost for relaxation in answer.found] == expected
        assert all(proved) or not listed

    check()
    assert left_out >= 20


def test_without_time_some_drops_are_still_named_and_not_called_proved() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2").require(
        "tp in {1}", "tp in {2}", "topology[0] == switch", "sp in {4}", "sp in {8}"
    )
    relaxable = relaxable_of(problem.spec, problem.edits, problem.instance)
    (relaxation,) = cheapest_relaxations(relaxable, Costs(), 5, time_limit_s=0).found
    assert not relaxation.proved
    dropped = [change.rule.name for change in relaxation.changes if isinstance(change, Drop)]
    assert problem.without(*dropped).count().value > 0
    for name in dropped:
        assert problem.without(*(other for other in dropped if other != name)).count().value == 0


def test_rules_that_only_drops_can_settle_cost_as_many_drops_as_it_takes() -> None:
    problem = Problem.load("cosmic/table1-1024").require("tp in {1}", "tp in {2}", "sp in {4}", "sp in {8}")
    explanation = problem.explain(limit=10)
    assert {repair.relaxation.cost for repair in explanation.repairs} == {Fraction(20)}
    assert len(explanation.repairs) == 4
    assert all(repair.relaxation.proved for repair in explanation.repairs)
