"""Six optima of COSMIC instances against scoring every one of more than ten million designs. Minutes: run by hand."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from tests.unit.search.spaces import brute_force

CASES = [
    ("cosmic/gpt3-175b-system1", "step_time", {"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4}),
    (
        "cosmic/gpt3-13b-system1",
        "step_time * network_cost",
        {"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4},
    ),
    (
        "cosmic/vit-base-system1",
        "step_time * total_bandwidth",
        {"npus_per_dim[0]": 8, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4},
    ),
    (
        "cosmic/gpt3-175b-system2",
        "step_time * network_cost",
        {"npus_per_dim[0]": 4, "npus_per_dim[1]": 8, "npus_per_dim[2]": 4},
    ),
    ("cosmic/vit-large-system2", "step_time", {"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4}),
    (
        "cosmic/vit-large-system3",
        "step_time * total_bandwidth",
        {"npus_per_dim[0]": 4, "npus_per_dim[1]": 8, "npus_per_dim[2]": 8},
    ),
]


def restricted(instance: str, objective: str, shape: dict[str, int]) -> Problem:
    """Every block, algorithm and half of the bandwidths of three dimensions, and some splits."""
    return (
        Problem.load(instance)
        .fix(shape)
        .fix(scheduling_policy="lifo", chunks=8, sp=1, multidim="blueconnect")
        .fix({"topology[3]": "ring", "algorithm[3]": "ring", "bandwidth[3]": "50 GB/s"})
        .require("tp in {1, 2, 4, 8}", "pp <= 4", "bandwidth[1] <= 300 GB/s")
        .objective(objective)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("instance", "objective", "shape"), CASES)
def test_the_optimum_is_the_best_of_more_than_ten_million_designs(
    instance: str, objective: str, shape: dict[str, int]
) -> None:
    problem = restricted(instance, objective, shape)
    assert problem.feasible.size > 10_000_000
    outcome, best = problem.solve(), brute_force(problem)
    assert best is not None
    assert (outcome.value, tuple(outcome.design.codes[0])) == (best.value, best.code)
