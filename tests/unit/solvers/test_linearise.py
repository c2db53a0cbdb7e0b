"""The 0-1 program of a lowered model, by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.ir.model import Conditional, IRColumn, Linear, LoweredModel, Product
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers import linearise
from cosmic_opt.solvers.linearise import Goal, Linearisation, Row
from tests.unit.solvers.small import ORIGIN, model_of, table


def last_row(program: Linearisation) -> Row:
    return program.rows[-1]


def test_each_code_is_a_binary_and_exactly_one_is_chosen() -> None:
    program = Linearisation(model_of((2, 3)))
    assert program.literals == [{0: 0, 1: 1}, {0: 2, 1: 3, 2: 4}]
    assert program.rows == [Row({0: 1, 1: 1}, 1, 1), Row({2: 1, 3: 1, 4: 1}, 1, 1)]
    assert program.integer == [True] * 5


def test_a_helper_column_is_continuous_since_its_table_decides_it() -> None:
    columns = (IRColumn("a", 2), IRColumn("twice", 2, helper=True))
    codes = np.arange(2, dtype=np.int32)
    model = LoweredModel(columns, (), (codes, codes), (table((0, 1), (0, 0), (1, 1)),), 1)
    assert Linearisation(model).integer == [True, True, False, False, False, False]


def test_weights_lose_their_least_value_and_their_common_divisor() -> None:
    rule = Linear((0, 1), ((100, 150), (200, 300)), None, 449, ORIGIN)
    program = Linearisation(model_of((2, 2), rule))
    assert last_row(program) == Row({1: 1, 3: 2}, None, 2)


def test_a_code_that_alone_passes_the_bound_is_excluded() -> None:
    rule = Linear((0, 1), ((0, 1, 10**15), (0, 1)), None, 1, ORIGIN)
    program = Linearisation(model_of((3, 2), rule))
    assert program.upper[program.literals[0][2]] == 0
    assert last_row(program) == Row({1: 1, 4: 1}, None, 1)


def test_a_sum_that_always_holds_adds_no_row() -> None:
    rules = (Linear((0,), ((0, 1),), 0, 1, ORIGIN), Linear((), (), None, 0, ORIGIN))
    assert len(Linearisation(model_of((2,), *rules)).rows) == 1


@pytest.mark.parametrize(
    "rule",
    [
        Linear((0,), ((0, 2),), 1, 1, ORIGIN),
        Linear((0,), ((0, 2),), 3, None, ORIGIN),
        Linear((0,), ((0, 2),), None, -1, ORIGIN),
        Linear((), (), 1, None, ORIGIN),
        table((0,)),
    ],
    ids=["divisor", "too little", "too much", "false", "empty table"],
)
def test_what_integers_rule_out_needs_no_solver(rule: Linear) -> None:
    program = Linearisation(model_of((2,), rule))
    assert program.infeasible or last_row(program) == Row({1: -1}, 0, 0)


def test_a_guarded_sum_gets_a_weight_of_the_guard_that_makes_room() -> None:
    rule = Conditional(0, Linear((1,), ((0, 1, 2),), None, 0, ORIGIN), ORIGIN)
    program = Linearisation(model_of((2, 3), rule))
    assert last_row(program) == Row({3: 1, 4: 2, 1: 2}, None, 2)


def test_a_guard_that_cannot_hold_adds_nothing() -> None:
    rule = Conditional(0, Linear((1,), ((0, 1),), None, 0, ORIGIN), ORIGIN)
    model = model_of((2, 2), rule)
    only_zero = LoweredModel(model.columns, model.constraints, (np.array([0]), model.allowed[1]), (), 2)
    assert len(Linearisation(only_zero).rows) == 2


def test_a_product_is_a_flow_whose_settled_states_are_one() -> None:
    """2^i * 2^j * 2^k <= 4: partial products 1, 2 (open) and 4 (then only 1s fit), or settled."""
    factors = ((1, 2), (1, 2), (1, 2))
    program = Linearisation(model_of((2, 2, 2), Product((0, 1, 2), factors, None, 4, ORIGIN)))
    arcs = len(program.upper) - 6
    assert arcs == 2 + 4 + 3  # settled after (1), (2); then settled-settled, 2*1 settled, 2*2 = 4; then 4*1 only


def test_a_table_is_one_variable_per_row_and_a_wider_table_absorbs_it() -> None:
    wide = table((0, 1), (0, 0), (0, 1), (1, 0), (1, 1))
    program = Linearisation(model_of((2, 2), wide, table((1,), (1,))))
    assert len(program.upper) == 4 + 2
    assert len(program.rows) == 2 + 1 + 4


@pytest.mark.parametrize("slack", [True, False])
@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 80), min_size=2, max_size=4), st.integers(0, 120))
def test_digits_and_carries_hold_exactly_for_the_sums_that_fit(slack: bool, weights: list[int], room: int) -> None:
    """A 0-1 point extends to digits and carries that solve the rows if and only if its sum fits."""
    program = Linearisation(model_of((2,) * len(weights)))
    groups = [{program.literals[at][1]: weight} for at, weight in enumerate(weights) if weight]
    before, first_row = len(program.upper), len(program.rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linearise, "BASE", 5)
        program.compare_by_digits(groups, room, slack=slack)
    rows = program.rows[first_row:]
    for point in itertools.product((0, 1), repeat=len(weights)):
        total = sum(a * b for a, b in zip(point, weights, strict=True))
        chosen = {program.literals[at][1]: value for at, value in enumerate(point)}
        fits = total <= room if slack else total == room
        assert _solvable(rows, chosen, program.upper, before) == fits


def _solvable(rows: list[Row], values: dict[int, int], upper: list[int], first_extra: int) -> bool:
    """Tell whether whole digits and carries in their ranges solve the rows, row by row (a carry links to the next)."""
    states = [dict(values)]
    for row in rows:
        extra = [at for at in row.terms if at >= first_extra and at not in states[0]]
        states = [
            {**state, **dict(zip(extra, choice, strict=True))}
            for state in states
            for choice in itertools.product(*(range(upper[at] + 1) for at in extra))
            if row.lower
            == sum(w * {**state, **dict(zip(extra, choice, strict=True))}[at] for at, w in row.terms.items())
        ]
        if not states:
            return False
    return True


def test_a_goal_gives_the_objective_back_exactly() -> None:
    model = model_of((2, 2))
    objective = LinearObjective((0, 1, 0), ((10, 30), (5, 65), (0, 40)), maximise=True, constant=2)
    goal = Linearisation(model).goal(objective)
    assert goal == Goal({0: 1, 2: 1}, -137, 60, -1, 2)
    assert [goal.value(total) for total in (0, 1, 2)] == [137, 77, 17]
    assert [goal.total(value) for value in (137, 77, 17)] == [0, 1, 2]
