from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.relaxation import cheapest_relaxations
from cosmic_opt.analysis.relaxed_problem import Costs
from tests.strategies import FOCUSES, brute_force, sources
from tests.unit.analysis.relaxing import after, every_way, expected_costs, is_simple, narrowed


@pytest.mark.parametrize("focus", FOCUSES)
def test_relaxations_are_those_of_brute_force_and_leave_a_design(focus: str) -> None:
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
        found = cheapest_relaxations(relaxable, costs, 50)
        assert [relaxation.cost for relaxation in found] == expected_costs(every_way(relaxable, costs), costs)
        for relaxation in found:
            assert relaxation.proved
            assert len(brute_force(after(source, relaxable, relaxation))) > 0
        for at, relaxation in enumerate(found):
            assert not any(other.changed <= relaxation.changed for other in found[:at])

    check()
    assert infeasible >= 40  # 200 and more over the focuses
