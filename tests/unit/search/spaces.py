"""Restricted COSMIC spaces small enough to try every design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cosmic_opt.api import Problem
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.objective import objective_of
from cosmic_opt.search.score import Scorer, simulator_of

SYSTEM1 = Problem.load("cosmic/gpt3-175b-system1")
SHAPE = {"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4}
COLLECTIVE = {"scheduling_policy": "lifo", "chunks": 4, "multidim": "blueconnect"}
RINGS = {"topology[0]": "ring", "topology[1]": "ring", "topology[2]": "ring", "algorithm": "ring"}
BASE = SYSTEM1.fix(SHAPE).fix(COLLECTIVE).fix(weight_sharded=1)

SPACES: dict[str, Problem] = {
    "total bandwidth is given, naive dominance fails": BASE.fix(RINGS).require(
        "sum(bandwidth) == 800 GB/s", "tp >= 2", "sp <= 4"
    ),
    "an order between dimensions, naive dominance fails": BASE.fix(RINGS)
    .fix({"bandwidth[3]": "50 GB/s"})
    .require("bandwidth[0] <= bandwidth[1]", "bandwidth[1] < bandwidth[2]", "sp <= 8")
    .objective("step_time * network_cost"),
    "a budget and a lower limit": BASE.fix({"topology[1]": "ring", "topology[2]": "ring", "algorithm": "ring"}).require(
        "network_cost <= 3000000", "bandwidth[0] + bandwidth[1] >= 400 GB/s", "sp == 1", "bandwidth[2] <= 250 GB/s"
    ),
    "a disjunction ties dimensions": SYSTEM1.fix(SHAPE)
    .fix({"topology[1]": "ring", "topology[2]": "ring", "bandwidth[2]": "300 GB/s", "algorithm": "ring"})
    .fix(weight_sharded=0, scheduling_policy="lifo", multidim="blueconnect")
    .require("tp <= 2", "sp == 1", "bandwidth[1] * 2 == bandwidth[3] or bandwidth[0] == bandwidth[3]"),
    "structure limits options": BASE.fix({"topology[1]": "ring", "topology[2]": "ring", "bandwidth[3]": "200 GB/s"})
    .fix(algorithm="ring")
    .require("sp == 1", "max(bandwidth) == 450 GB/s", "tp * 50 GB/s <= bandwidth[1]")
    .objective("step_time * total_bandwidth"),
    "a limit on the step": BASE.fix(RINGS)
    .require("step_time <= 12 s", "sp == 1", "tp <= 4", "bandwidth[3] <= 200 GB/s")
    .objective("step_time * total_bandwidth"),
}

LARGE = (
    SYSTEM1.fix(SHAPE)
    .fix(scheduling_policy="lifo", chunks=4, sp=1, weight_sharded=1)
    .fix({"topology[2]": "ring", "algorithm[1]": "ring", "algorithm[2]": "ring", "algorithm[3]": "ring"})
    .require("bandwidth[1] <= 150 GB/s", "bandwidth[2] <= 200 GB/s", "bandwidth[3] <= 150 GB/s", "tp >= 4")
    .objective("step_time * total_bandwidth")
)
"""About 1.5 million designs, both multi-dimensional schemes and every block of the outer dimensions."""


def scorer_of(problem: Problem) -> Scorer:
    return Scorer(simulator_of(problem.instance), objective_of(problem.instance.objective, problem.parameter_set))


def designs(problem: Problem) -> Iterator[DesignBatch]:
    """Every feasible design, the rules on simulated quantities included."""
    yield from problem.enumerate()


@dataclass(frozen=True)
class Best:
    value: int
    code: tuple[int, ...]


def brute_force(problem: Problem) -> Best | None:
    """The least value, and the least code among the designs that have it."""
    scorer = scorer_of(problem)
    best: Best | None = None
    for batch in designs(problem):
        if not len(batch):
            continue
        values = scorer.score(batch).values
        least = values.min()
        code = min(tuple(int(c) for c in batch.codes[row]) for row in np.flatnonzero(values == least))
        if best is None or (least, code) < (best.value, best.code):
            best = Best(int(least), code)
    return best
