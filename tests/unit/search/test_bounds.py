from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.kernel import product_less
from cosmic_opt.search.space import build_space
from tests.unit.search.spaces import SPACES, scorer_of


def frontier_of(problem: Problem) -> Frontier:
    scorer = scorer_of(problem)
    dimensions = problem.instance.dimensions
    space = build_space(problem.parameter_set, problem.model, scorer.simulator, dimensions, scorer.objective)
    return Frontier(space, scorer.simulator, scorer.objective)


@pytest.mark.parametrize("name", SPACES)
def test_region_sizes_add_up_to_the_feasible_count(name: str) -> None:
    regions = frontier_of(SPACES[name]).space.regions
    assert sum(regions.block(0, regions.count).sizes) == SPACES[name].feasible.size


@pytest.mark.parametrize("instance", ["cosmic/gpt3-13b-system3", "cosmic/vit-base-system1", "cosmic/table1-1024"])
def test_region_sizes_of_shipped_instances_add_up_to_the_feasible_count(instance: str) -> None:
    problem = Problem.load(instance).objective("step_time * network_cost")
    regions = frontier_of(problem).space.regions
    blocks = [regions.block(start, start + 1000) for start in range(0, regions.count, 1000)]
    assert sum(int(block.sizes.sum()) for block in blocks) == problem.feasible.size
    assert len(np.unique(np.concatenate([block.codes for block in blocks]), axis=0)) == regions.count


def region_rows(frontier: Frontier, codes: np.ndarray) -> np.ndarray:
    """The region of each design, by its structural columns."""
    space = frontier.space
    structural = [c for c in range(space.model.designs) if space.ownership.owner[c] == -1]
    structural = [c for c in structural if c not in space.ownership.inert]
    key = {tuple(row): i for i, row in enumerate(frontier.regions.codes[:, structural].tolist())}
    return np.array([key[tuple(row)] for row in codes[:, structural].tolist()])


@pytest.mark.parametrize("name", SPACES)
def test_no_member_scores_below_its_region_s_bound(name: str) -> None:
    problem = SPACES[name]
    frontier = frontier_of(problem)
    batch = problem.parameter_set.batch(problem.feasible.sample(3000, np.random.default_rng(7)))
    scores = scorer_of(problem).score(batch)
    regions = region_rows(frontier, batch.codes)
    assert (frontier.values[regions] <= scores.values).all()
    assert (frontier.ticks[regions] <= scores.evaluation.step_ticks).all()


@pytest.mark.parametrize("objective", ["step_time", "step_time * total_bandwidth", "step_time * network_cost"])
@pytest.mark.parametrize("instance", ["cosmic/gpt3-175b-system2", "cosmic/vit-large-system3", "llama3-405b/h100-16k"])
def test_no_member_of_a_shipped_problem_scores_below_its_region_s_bound(instance: str, objective: str) -> None:
    problem = Problem.load(instance).objective(objective)
    frontier = frontier_of(problem)
    batch = problem.sample(2000, seed=3)
    scores = scorer_of(problem).score(batch)
    assert (frontier.values[region_rows(frontier, batch.codes)] <= scores.values).all()


@st.composite
def generated(draw: st.DrawFn) -> Problem:
    scales = draw(st.lists(st.integers(1, 8), min_size=4, max_size=4))
    latency, micro = draw(st.integers(0, 5000)), draw(st.integers(1, 3))
    tp, pp = draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 2, 4]))
    objective = draw(st.sampled_from(["step_time", "step_time * total_bandwidth", "step_time * network_cost"]))
    limits = [f"bandwidth[{d}] <= {50 * scale} GB/s" for d, scale in enumerate(scales)]
    return (
        Problem.load("cosmic/gpt3-13b-system1")
        .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4, "topology[0]": "ring"})
        .fix(tp=tp, pp=pp, algorithm="ring", scheduling_policy="lifo", chunks=4, multidim="blueconnect")
        .fix({"bandwidth[3]": "100 GB/s"})
        .set(latency=f"{latency} ns", micro_batch=micro)
        .without("fits")
        .require(*limits[:3], "sp <= 2")
        .objective(objective)
    )


def assert_bounded_and_solved(problem: Problem) -> None:
    frontier = frontier_of(problem)
    scorer = scorer_of(problem)
    best = None
    for batch in problem.enumerate():
        scores = scorer.score(batch)
        assert (frontier.values[region_rows(frontier, batch.codes)] <= scores.values).all()
        least = scores.values.min()
        best = least if best is None else min(best, least)
    assert problem.solve().value == best


@settings(derandomize=True, deadline=None, max_examples=8)
@given(problem=generated())
def test_generated_problems_have_bounds_below_members_and_solve_to_brute_force(problem: Problem) -> None:
    assert_bounded_and_solved(problem)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=100)
@given(problem=generated())
def test_many_generated_problems_have_bounds_below_members_and_solve_to_brute_force(problem: Problem) -> None:
    assert_bounded_and_solved(problem)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(*(st.integers(0, 2**62 - 1) for _ in range(4)))
def test_products_are_compared_exactly(a: int, b: int, c: int, d: int) -> None:
    assert product_less(a, b, c, d) == (a * b < c * d)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(1, 2**61), st.integers(1, 2**61), st.integers(-1, 1))
def test_nearly_equal_products_are_compared_exactly(a: int, b: int, step: int) -> None:
    assert product_less(a, b, a, b + step) == (step > 0)
    assert product_less(a, b + step, a, b) == (step < 0)


@pytest.mark.parametrize("name", SPACES)
def test_no_member_scores_above_its_region_s_worst_case(name: str) -> None:
    problem = SPACES[name]
    frontier = frontier_of(problem)
    every = frontier.region_arrays(np.arange(len(frontier.regions)))
    worst, _ = frontier.bounding.bounds(every, worst=True)
    batch = problem.parameter_set.batch(problem.feasible.sample(2000, np.random.default_rng(8)))
    ticks = scorer_of(problem).score(batch).evaluation.step_ticks
    assert (ticks <= worst[region_rows(frontier, batch.codes)]).all()


@pytest.mark.parametrize("limit", ["8 s", "11 s", "12 s", "20 s", "1000 s"])
def test_a_count_under_a_step_limit_encloses_the_brute_force_count(limit: str) -> None:
    problem = SPACES["an order between dimensions, naive dominance fails"].require(f"step_time <= {limit}")
    truth = sum(len(batch) for batch in problem.enumerate())
    counted = problem.count()
    assert counted.lower <= truth <= counted.value
    assert counted.exact == (counted.lower == counted.value)
    assert counted.not_counted
