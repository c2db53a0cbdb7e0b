"""Regions that compute alike are bounded as one: never above what any of them can do."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.search.bounding import Bounding
from cosmic_opt.search.tasks import worker_of

SYSTEM2 = Problem.load("cosmic/gpt3-175b-system2").scope("full_stack")
H100 = Problem.load("calculon/gpt3-175b-h100-1024")
PROBLEMS = {
    "four dimensions, step time": SYSTEM2.objective("step_time"),
    "four dimensions, cost": SYSTEM2,
    "two dimensions, any order": H100.fix(tp=8, zero_stage=1, weight_offload=0, optimizer_offload=0),
    "two dimensions, sharded weights": H100.fix(zero_stage=3, interleave=1, optimizer_offload=0, sequence_parallel=0),
    "one scheme": H100.fix(tp=4, multidim="blueconnect", optimizer_offload=0, weight_offload=0),
}


def bounding_of(problem: Problem) -> Bounding:
    return worker_of(problem.instance, problem.model).bounding


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_kind_is_never_bounded_above_one_of_its_regions(name: str) -> None:
    bounding = bounding_of(PROBLEMS[name])
    product = bounding.space.regions
    assert product.alike > 1
    rng = np.random.default_rng(5)
    kinds = np.sort(rng.choice(product.count // product.alike, size=150, replace=False)) * product.alike
    silent, amounts = bounding.silent(kinds, kinds[:0])
    blocking, same = bounding.blocking(kinds, amounts)
    numbers = (kinds[:, np.newaxis] + np.arange(product.alike)).reshape(-1)
    ticks, own = bounding.bounds(bounding.arrays(product.take(numbers).codes))
    least = ticks.reshape(len(kinds), -1).min(axis=1)
    assert np.all(silent <= least)
    assert np.all(blocking <= least)
    assert np.array_equal(amounts, same)
    assert np.array_equal(own.reshape(len(kinds), -1).min(axis=1), amounts)
    assert (blocking > silent).mean() > 0.3
