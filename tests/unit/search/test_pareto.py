from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.objective import Objective, quantity_values
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.pareto import ParetoFront, pareto_front
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.units import TICKS_PER_SECOND
from tests.unit.search.spaces import SPACES, SYSTEM1


def brute_force_front(problem: Problem, *quantities: str) -> list[tuple[int, ...]]:
    """Every point that no other is as good as in all respects, by scoring all designs."""
    amounts = [problem.parameter_set.quantities[name] for name in quantities]
    scorer = Scorer(simulator_of(problem.instance), Objective("step_time"))
    parts = []
    for batch in problem.enumerate():
        if len(batch):
            columns = [scorer.score(batch).evaluation.step_ticks, *(quantity_values(a, batch) for a in amounts)]
            parts.append(np.column_stack(columns))
    left = np.concatenate(parts)
    left = left[np.lexsort(left.T[::-1])]
    front: list[tuple[int, ...]] = []
    while len(left):  # whatever beats a point comes before it, so the first one left is beaten by none
        front.append(tuple(left[0].tolist()))
        left = left[(left < left[0]).any(axis=1)]
    return front


def points_of(front: ParetoFront) -> list[tuple[int, ...]]:
    return [tuple(point) for point in np.column_stack([front.step_ticks, front.amounts]).tolist()]


@pytest.mark.parametrize(
    "quantities",
    [
        ("network_cost",),
        pytest.param(("total_bandwidth",), marks=pytest.mark.slow),
        ("memory_per_npu",),
        ("network_cost", "memory_per_npu"),
        pytest.param(("memory_per_npu_cosmic", "total_bandwidth"), marks=pytest.mark.slow),
        pytest.param(("memory_per_npu", "memory_per_npu_cosmic"), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", SPACES)
def test_the_front_is_that_of_brute_force(name: str, quantities: tuple[str, ...]) -> None:
    problem = SPACES[name].objective("step_time * network_cost")
    front = pareto_front(problem.instance, *quantities)
    assert points_of(front) == brute_force_front(problem, *quantities)
    assert (front.stop, front.regions_closed) == (Stop.PROVED, front.regions)
    assert front.feasible_designs == problem.feasible.size
    assert problem.violations(front.designs.take([len(front.designs) - 1])) == []


def test_three_objectives_of_the_full_stack_contain_each_pair_s_front() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2")
    every = problem.pareto("network_cost", "memory_per_npu")
    assert every.stop is Stop.PROVED
    points = np.array(points_of(every))
    for at, name in ((1, "network_cost"), (2, "memory_per_npu")):
        pair = np.array(points_of(problem.pareto(name)))
        assert set(map(tuple, pair.tolist())) <= set(map(tuple, points[:, [0, at]].tolist()))
    assert len(np.unique(points, axis=0)) == len(points)


def test_without_time_no_front_is_called_proved() -> None:
    front = Problem.load("cosmic/gpt3-175b-system2").pareto("network_cost", budget=Budget(seconds=0))
    assert (front.stop, len(front.designs)) == (Stop.TIME, 0)
    assert front.regions_closed < front.regions


def test_two_quantities_of_the_network_are_refused() -> None:
    with pytest.raises(SpecError, match="both depend on the network"):
        Problem.load("cosmic/gpt3-175b-system2").pareto("network_cost", "total_bandwidth")


def test_both_ends_of_the_full_stack_s_front_are_proved_optima() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2").objective("step_time * network_cost")
    front = pareto_front(problem.instance, "network_cost")
    costs = front.amounts[:, 0]
    fastest = Problem.load("cosmic/gpt3-175b-system2").solve()
    assert front.step_ticks[0] == fastest.value
    cheapest = problem.optimise("network_cost")
    assert costs[-1] == cheapest.value
    products = front.step_ticks.astype(object) * costs.astype(object)
    assert products.min() == problem.solve().value
    assert (np.diff(front.step_ticks) > 0).all()
    assert (np.diff(costs) < 0).all()


def test_an_empty_problem_has_an_empty_front() -> None:
    front = pareto_front(SYSTEM1.require("tp == 3").instance, "total_bandwidth")
    assert (len(front.designs), front.feasible_designs) == (0, 0)


@pytest.mark.parametrize("quantity", ["", "netwrk_cost", "step_time", "tp"])
def test_what_is_no_structural_quantity_is_refused(quantity: str) -> None:
    with pytest.raises(SpecError, match="not a structural quantity"):
        pareto_front(SYSTEM1.instance, quantity)


@pytest.mark.parametrize("quantities", [("network_cost",), ("network_cost", "memory_per_npu"), ("memory_per_npu",)])
@pytest.mark.parametrize("name", ["llama3-8b/h100-8", "llama3-70b/h100-64"])
def test_a_calibrated_front_is_of_steps_whatever_the_objective(name: str, quantities: tuple[str, ...]) -> None:
    problem = Problem.load(name).fix(tp=4).scored(*quantities)
    front = pareto_front(problem.instance, *quantities)
    assert front.stop is Stop.PROVED
    assert points_of(front) == brute_force_front(problem, *quantities)
    assert front.step_ticks.max() < 1000 * TICKS_PER_SECOND
