from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.objective import Objective, quantity_values
from cosmic_opt.search.pareto import pareto_front
from cosmic_opt.search.score import Scorer, simulator_of
from tests.unit.search.spaces import SPACES, SYSTEM1


def brute_force_front(problem: Problem, quantity: str) -> list[tuple[int, int]]:
    """Every point that no other beats, by scoring all designs."""
    amount = problem.parameter_set.quantities[quantity]
    scorer = Scorer(simulator_of(problem.instance), Objective("step_time"))
    points: set[tuple[int, int]] = set()
    for batch in problem.enumerate():
        if len(batch):
            ticks = scorer.score(batch).evaluation.step_ticks
            points |= set(zip(ticks.tolist(), quantity_values(amount, batch).tolist(), strict=True))
    front: list[tuple[int, int]] = []
    for ticks, value in sorted(points):
        if not front or value < front[-1][1]:
            front.append((ticks, value))
    return front


@pytest.mark.parametrize("quantity", ["network_cost", "total_bandwidth", "memory_per_npu"])
@pytest.mark.parametrize("name", SPACES)
def test_the_front_is_that_of_brute_force(name: str, quantity: str) -> None:
    problem = SPACES[name].objective("step_time * network_cost")
    front = pareto_front(problem.instance, quantity)
    found = list(zip(front.step_ticks.tolist(), front.amounts.tolist(), strict=True))
    assert found == brute_force_front(problem, quantity)
    assert front.feasible_designs == problem.feasible.size


def test_both_ends_of_the_full_stack_s_front_are_proved_optima() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2").objective("step_time * network_cost")
    front = pareto_front(problem.instance, "network_cost")
    fastest = Problem.load("cosmic/gpt3-175b-system2").solve()
    assert front.step_ticks[0] == fastest.value
    cheapest = problem.optimise("network_cost")
    assert front.amounts[-1] == cheapest.value
    products = front.step_ticks.astype(object) * front.amounts.astype(object)
    assert products.min() == problem.solve().value
    assert (np.diff(front.step_ticks) > 0).all()
    assert (np.diff(front.amounts) < 0).all()


def test_an_empty_problem_has_an_empty_front() -> None:
    front = pareto_front(SYSTEM1.require("tp == 3").instance, "total_bandwidth")
    assert (len(front.designs), front.feasible_designs) == (0, 0)


@pytest.mark.parametrize("quantity", ["", "netwrk_cost", "step_time", "tp"])
def test_what_is_no_structural_quantity_is_refused(quantity: str) -> None:
    with pytest.raises(SpecError, match="not a structural quantity"):
        pareto_front(SYSTEM1.instance, quantity)
