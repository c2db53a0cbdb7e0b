"""At every logged moment the bound is below the optimum and the incumbent above it."""

from __future__ import annotations

import random

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.search.outcome import LogLine
from tests.unit.search.spaces import brute_force

OBJECTIVES = ("step_time", "step_time * total_bandwidth", "step_time * network_cost", "throughput")
RULES = (
    "tp <= 4",
    "sp == 1",
    "pp >= 2 or dp >= 64",
    "bandwidth[0] >= bandwidth[1]",
    "sum(bandwidth) <= 700 GB/s",
    "network_cost <= 2500000",
    "topology[1] != topology[2]",
    "count(topology[d] == switch for d in dim) <= 1",
    "memory_per_npu <= 2 * memory_capacity",
    "step_time <= 100 s",
)


def generated(seed: int) -> Problem:
    """A few thousand designs of a COSMIC instance, with some rules."""
    rng = random.Random(seed)
    instance = rng.choice(("cosmic/gpt3-13b-system1", "cosmic/vit-base-system1", "cosmic/vit-large-system1"))
    problem = (
        Problem.load(instance)
        .fix({f"npus_per_dim[{d}]": npus for d, npus in enumerate((4, 4, 4, 8))})
        .fix(algorithm="ring", scheduling_policy="lifo", multidim=rng.choice(("baseline", "blueconnect")))
        .fix({"bandwidth[2]": "100 GB/s", "bandwidth[3]": "50 GB/s", "topology[3]": rng.choice(("ring", "switch"))})
        .fix(chunks=rng.choice((2, 8)), weight_sharded=rng.choice((0, 1)))
        .require(f"bandwidth[0] <= {rng.randint(2, 5) * 50} GB/s", f"bandwidth[1] <= {rng.randint(1, 3) * 50} GB/s")
        .require(*rng.sample(RULES, 2))
    )
    return problem.objective(rng.choice(OBJECTIVES))


@pytest.mark.parametrize("start", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in range(20, 160, 20))])
def test_bound_optimum_incumbent(start: int) -> None:
    solved = 0
    for seed in range(start, start + 20):
        problem = generated(seed)
        if problem.feasible.size == 0:
            continue
        best = brute_force(problem)
        if best is None:
            continue
        lines: list[LogLine] = []
        outcome = problem.solve(seed=seed, log=lines.append)
        assert outcome.value == best.value, seed
        assert len(lines) >= 3
        for line in lines:
            assert line.bound is None or line.bound <= best.value, (seed, line)
            assert line.incumbent is None or line.incumbent >= best.value, (seed, line)
        solved += 1
    assert solved >= 13
