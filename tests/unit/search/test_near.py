from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.near import Near, NearOptima, Ranking
from cosmic_opt.search.solve import Stop
from tests.unit.search.spaces import SPACES, scorer_of

LLAMA = Problem.load("llama3-405b/h100-16k")


@dataclass(frozen=True)
class Scored:
    """Every design that can run and obeys every rule, by value and then by code."""

    values: list[int]
    codes: np.ndarray

    def up_to(self, limit: int | None) -> int:
        return sum(limit is None or value <= limit for value in self.values)


def brute_force(problem: Problem) -> Scored:
    scorer, limit = scorer_of(problem), step_limit(problem.parameter_set)
    values: list[int] = []
    parts = []
    for batch in problem.enumerate():
        scores = scorer.score(batch, strict=False)
        runs = scores.evaluation.step_ticks <= limit
        values += scores.values[runs].tolist()
        parts.append(batch.codes[runs])
    codes = np.concatenate(parts)
    numbers = np.unique(np.array(values, dtype=object), return_inverse=True)[1]
    order = np.lexsort((*codes.T[::-1], numbers))
    return Scored([values[row] for row in order], codes[order])


@cache
def scored(name: str) -> Scored:
    return brute_force(SPACES[name])


@cache
def near(name: str) -> NearOptima:
    return SPACES[name].near(SPACES[name].solve())


def assert_is_brute_force(problem: Problem, found: Near, truth: Scored) -> None:
    count = truth.up_to(found.limit)
    assert (found.lower, found.upper, found.exact, found.stop) == (count, count, True, Stop.PROVED)
    members = {tuple(row): value for row, value in zip(truth.codes[:count].tolist(), truth.values, strict=False)}
    sample = [tuple(row) for row in found.sample.designs.codes.tolist()]
    assert [members[code] for code in sample] == list(found.sample.values)
    assert sample[0] == tuple(truth.codes[0].tolist())
    assert len(set(sample)) == len(sample) == min(10, count)
    for knob in found.knobs:
        at = problem.parameter_set.positions[knob.name]
        values = problem.parameter_set.columns[at].values
        taken = {values[code]: 0 for code in range(len(values))}
        for code, number in zip(*np.unique(truth.codes[:count, at], return_counts=True), strict=True):
            taken[values[code]] = int(number)
        assert knob.designs == {value: taken[value] for value in knob.designs}
        assert sum(knob.designs.values()) == count
        assert knob.free == all(taken[value] for value in knob.designs)


def assert_is_first(ranking: Ranking, truth: Scored, number: int) -> None:
    assert list(ranking.values) == truth.values[:number]
    assert np.array_equal(ranking.designs.codes, truth.codes[:number])
    assert ranking.stop is Stop.PROVED


@pytest.mark.parametrize("share", ["0%", "0.5 %", "1%", "20%", "100%", "1e9%"])
@pytest.mark.parametrize("name", SPACES)
def test_designs_within_a_share_are_those_of_brute_force(name: str, share: str) -> None:
    assert_is_brute_force(SPACES[name], near(name).within(share), scored(name))


@pytest.mark.parametrize("number", [1, 2, 3, 17, 300])
@pytest.mark.parametrize("name", SPACES)
def test_the_best_few_are_those_of_brute_force_ties_by_least_code(name: str, number: int) -> None:
    assert_is_first(near(name).top(number), scored(name), number)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    scales=st.lists(st.integers(1, 6), min_size=3, max_size=3),
    latency=st.integers(0, 5000),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
    chunks=st.sampled_from([2, 4]),
    rule=st.sampled_from(
        ["sp <= 2", "sum(bandwidth) == 500 GB/s", "bandwidth[0] <= bandwidth[1]", "tp * 50 GB/s <= bandwidth[1]"]
    ),
    objective=st.sampled_from(["step_time", "throughput", "step_time * total_bandwidth", "step_time * network_cost"]),
    share=st.sampled_from(["0%", "0.1%", "3%", "50%", "200%"]),
    number=st.integers(1, 40),
)
def test_generated_problems_are_counted_and_ranked_as_by_brute_force(
    scales: list[int], latency: int, tp: int, pp: int, chunks: int, rule: str, objective: str, share: str, number: int
) -> None:
    limits = [f"bandwidth[{d}] <= {50 * scale} GB/s" for d, scale in enumerate(scales)]
    problem = (
        Problem.load("cosmic/gpt3-13b-system1")
        .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4, "topology[0]": "ring"})
        .fix(tp=tp, pp=pp, algorithm="ring", chunks=chunks, multidim="blueconnect")
        .fix({"bandwidth[3]": "100 GB/s", "topology[3]": "ring"})
        .set(latency=f"{latency} ns")
        .without("fits")
        .require(*limits, rule, "sp <= 4")
        .objective(objective)
    )
    outcome = problem.solve()
    if outcome.value is None:
        return
    truth = brute_force(problem)
    around = problem.near(outcome)
    assert_is_brute_force(problem, around.within(share), truth)
    assert_is_first(around.top(number), truth, number)
