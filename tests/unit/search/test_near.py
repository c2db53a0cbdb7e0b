from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.search import census
from cosmic_opt.search import near as near_module
from cosmic_opt.search.asked import TOP_LIMIT, share_of
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.near import Near, NearOptima, Ranking
from cosmic_opt.search.outcome import Stop
from tests.unit.search.spaces import SPACES, SYSTEM1, scorer_of

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
    assert (found.designs, found.designs_upper, found.exact, found.stop) == (count, count, True, Stop.PROVED)
    members = {tuple(row): value for row, value in zip(truth.codes[:count].tolist(), truth.values, strict=False)}
    sample = [tuple(row) for row in found.sample.designs.codes.tolist()]
    assert [members[code] for code in sample] == list(found.sample.values)
    assert sample[0] == tuple(truth.codes[0].tolist())
    assert len(set(sample)) == len(sample) == min(10, count)
    for knob in found.parameters:
        at = problem.parameter_set.positions[knob.name]
        values = problem.parameter_set.columns[at].values
        taken = {values[code]: 0 for code in range(len(values))}
        for code, number in zip(*np.unique(truth.codes[:count, at], return_counts=True), strict=True):
            taken[values[code]] = int(number)
        assert knob.values == {value: taken[value] for value in knob.values}
        assert sum(knob.values.values()) == count
        assert knob.every_value == all(taken[value] for value in knob.values)


def assert_is_first(ranking: Ranking, truth: Scored, number: int) -> None:
    assert list(ranking.values) == truth.values[:number]
    assert np.array_equal(ranking.designs.codes, truth.codes[:number])
    assert ranking.stop is Stop.PROVED


@pytest.mark.parametrize(
    "share", ["0%", "1%", "20%", *(pytest.param(share, marks=pytest.mark.slow) for share in ("0.5 %", "100%", "1e9%"))]
)
@pytest.mark.parametrize("name", SPACES)
def test_designs_within_a_share_are_those_of_brute_force(name: str, share: str) -> None:
    assert_is_brute_force(SPACES[name], near(name).within(share), scored(name))


@pytest.mark.parametrize("number", [1, 2, 3, 17, 300])
@pytest.mark.parametrize("name", SPACES)
def test_the_best_few_are_those_of_brute_force_ties_by_least_code(name: str, number: int) -> None:
    assert_is_first(near(name).top(number), scored(name), number)


@dataclass(frozen=True)
class Case:
    """A generated problem with a rule that couples dimensions or structure, and what is asked about it."""

    problem: Problem
    share: str
    number: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    scales = draw(st.lists(st.integers(1, 6), min_size=3, max_size=3))
    rules = ["sp <= 2", "sum(bandwidth) == 500 GB/s", "bandwidth[0] <= bandwidth[1]", "tp * 50 GB/s <= bandwidth[1]"]
    amounts = ["total_bandwidth", "network_cost"]
    problem = (
        Problem.load("cosmic/gpt3-13b-system1")
        .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4, "topology[0]": "ring"})
        .fix(tp=draw(st.sampled_from([1, 2, 4, 8])), pp=draw(st.sampled_from([1, 2, 4])))
        .fix(algorithm="ring", chunks=draw(st.sampled_from([2, 4])), multidim="blueconnect")
        .fix({"bandwidth[3]": "100 GB/s", "topology[3]": "ring"})
        .set(latency=f"{draw(st.integers(0, 5000))} ns")
        .without("fits")
        .require(*(f"bandwidth[{d}] <= {50 * scale} GB/s" for d, scale in enumerate(scales)))
        .require(draw(st.sampled_from(rules)), "sp <= 4")
        .objective(draw(st.sampled_from(["step_time", "throughput", *(f"step_time * {a}" for a in amounts)])))
    )
    share = draw(st.sampled_from(["0%", "0.1%", "3%", "50%", "200%"]))
    return Case(problem, share, draw(st.integers(1, 40)))


def assert_case_is_brute_force(case: Case) -> None:
    outcome = case.problem.solve()
    if outcome.value is None:
        return
    truth = brute_force(case.problem)
    around = case.problem.near(outcome)
    assert_is_brute_force(case.problem, around.within(case.share), truth)
    assert_is_first(around.top(case.number), truth, case.number)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(near_module, "POOL", 1)
        assert_is_first(around.top(case.number), truth, case.number)


@settings(derandomize=True, deadline=None, max_examples=10)
@given(cases())
def test_generated_problems_are_counted_and_ranked_as_by_brute_force(case: Case) -> None:
    assert_case_is_brute_force(case)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=200)
@given(cases())
def test_many_generated_problems_are_counted_and_ranked_as_by_brute_force(case: Case) -> None:
    assert_case_is_brute_force(case)


def test_everything_that_can_run_is_within_a_billion_percent() -> None:
    outcome = LLAMA.solve()
    assert LLAMA.near(outcome).within("1e9%").designs == LLAMA.count().value == 968


def test_throughput_within_a_share_is_at_most_that_much_less() -> None:
    problem = LLAMA.objective("throughput")
    around = problem.near(problem.solve())
    found, truth = around.within("10%"), brute_force(problem)
    slowest = Fraction(truth.values[0]) / Fraction(9, 10)
    assert found.designs == sum(value <= slowest for value in truth.values)
    assert around.within("100%").limit is None
    assert around.within("100%").designs == len(truth.values)


@pytest.mark.parametrize("number", [1, 2, 5, 30, 62, 75, 1000])
@pytest.mark.parametrize("name", SPACES)
def test_ties_too_many_to_list_are_broken_by_least_code(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_module, "POOL", 1)
    assert_is_first(near(name).top(number), scored(name), number)


def test_a_longer_list_of_a_shipped_problem_begins_with_a_shorter_one() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2")
    outcome = problem.solve()
    around = problem.near(outcome)
    long, short = around.top(5000), around.top(20)
    assert list(long.values) == sorted(long.values)
    assert long.values.count(outcome.value or 0) == around.within("0%").designs
    assert long.designs.codes[0].tolist() == outcome.design.codes[0].tolist()
    assert short.designs.codes.tolist() == long.designs.codes[:20].tolist()


@pytest.mark.parametrize("objective", ["step_time", "step_time * total_bandwidth", "step_time * network_cost"])
def test_the_count_of_a_shipped_problem_agrees_with_random_designs_of_its_best_regions(objective: str) -> None:
    problem = Problem.load("cosmic/vit-large-system2").objective(objective)
    outcome = problem.solve()
    found = problem.near(outcome).within("5%")
    assert found.limit is not None
    best = next(outcome.design.points())
    near_by = problem.fix({name: best[name] for name in ("dp", "tp", "sp", "pp", "weight_sharded", "chunks")})
    batch = near_by.sample(20_000, seed=4)
    hits = scorer_of(problem).score(batch, strict=False).values <= found.limit
    inside = near_by.near(near_by.solve()).within(Fraction(found.limit, outcome.value or 1) - 1)
    assert inside.limit == found.limit
    expected = inside.designs / near_by.feasible.size
    assert abs(hits.mean() - expected) <= 5 * (expected * (1 - expected) / len(batch)) ** 0.5 + 1e-4
    assert inside.designs <= found.designs


@pytest.mark.parametrize("nodes", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("name", SPACES)
def test_limits_of_an_interrupted_count_enclose_the_count(name: str, nodes: int) -> None:
    found = near(name).within("20%", budget=Budget(evaluations=nodes))
    count = scored(name).up_to(found.limit)
    assert found.designs <= count <= found.designs_upper
    assert found.exact == (found.stop is Stop.PROVED)
    assert all(sum(knob.values.values()) == found.designs for knob in found.parameters)
    assert found.sample.values[0] == scored(name).values[0]


def test_without_time_the_best_design_is_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "CHUNK", 1)
    around = near("a limit on the step")
    found, first = around.within("20%", budget=Budget(seconds=0)), around.top(300, budget=Budget(seconds=0))
    assert (found.stop, found.exact) == (Stop.TIME, False)
    assert found.designs <= scored("a limit on the step").up_to(found.limit) <= found.designs_upper
    truth = scored("a limit on the step")
    assert first.stop is Stop.TIME
    assert list(first.values) == truth.values[: len(first.values)]
    assert np.array_equal(first.designs.codes, truth.codes[: len(first.designs)])


@pytest.mark.parametrize("name", SPACES)
def test_small_calls_and_chunks_count_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = near(name).within("20%")
    monkeypatch.setattr(census, "CALL_NODES", 1)
    monkeypatch.setattr(census, "CHUNK", 3)
    again = near(name).within("20%")
    assert (again.designs, again.designs_upper, again.parameters) == (
        whole.designs,
        whole.designs_upper,
        whole.parameters,
    )
    assert again.sample.values == whole.sample.values
    assert again.nodes >= whole.nodes


def test_the_designs_of_all_ranks_are_all_designs() -> None:
    name = "a disjunction ties dimensions"
    of = near(name).census(near(name).limit(Fraction(1)))
    counted = of.count()
    codes = of.members(counted, range(counted.lower))
    assert np.array_equal(np.unique(codes, axis=0), np.unique(scored(name).codes[: counted.lower], axis=0))


def test_a_sample_is_as_far_apart_as_a_greedy_choice_over_all_designs() -> None:
    name = "a limit on the step"
    found = near(name).within("2%", sample=6)
    everything = scored(name).codes[: found.designs]
    chosen = [everything[0]]
    for _ in range(5):
        distances = np.min([(everything != code).sum(axis=1) for code in chosen], axis=0)
        chosen.append(everything[distances.argmax()])
    ours = found.sample.designs.codes
    assert len(everything) <= near_module.POOL
    assert closest(ours) == closest(np.array(chosen))


def closest(codes: np.ndarray) -> int:
    return min(int((one != other).sum()) for one, other in combinations(codes, 2))


def test_the_same_seed_draws_the_same_sample_and_another_seed_another() -> None:
    problem = Problem.load("cosmic/gpt3-13b-system1")
    around = problem.near(problem.solve())
    first, again, other = (around.within("1%", seed=seed).sample.designs.codes.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_a_region_too_large_to_add_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "REGION_LIMIT", 3)
    with pytest.raises(LimitError, match="choices of the network"):
        near("a limit on the step").within("1%")


def test_an_optimum_that_is_not_proved_has_no_neighbourhood() -> None:
    outcome = SYSTEM1.solve(budget=Budget(evaluations=10))
    with pytest.raises(LimitError, match="not proved"):
        SYSTEM1.near(outcome)


def test_an_infeasible_problem_has_no_neighbourhood() -> None:
    problem = SYSTEM1.require("tp == 3")
    with pytest.raises(InfeasibleError, match="no design"):
        problem.near(problem.solve())


@pytest.mark.parametrize(("text", "share"), [("1%", "1/100"), ("0.5 %", "1/200"), ("1e9%", "10000000"), (0.25, "1/4")])
def test_a_share_is_exact(text: str | float, share: str) -> None:
    assert share_of(text) == Fraction(share)


@pytest.mark.parametrize(
    "text", ["-1%", "nan%", "inf %", "1", "0.01", "", "%", "1%%", "1 GB%", "1e99%", -0.01, float("nan")]
)
def test_what_is_no_share_is_refused(text: str | float) -> None:
    with pytest.raises(SpecError) as refused:
        share_of(text)
    assert refused.value.hint or "not a number" in refused.value.message


@pytest.mark.parametrize("number", [0, -1, TOP_LIMIT + 1, 10**30])
def test_no_design_or_too_many_are_refused(number: int) -> None:
    with pytest.raises(SpecError, match="not ranked"):
        near("a limit on the step").top(number)
    with pytest.raises(SpecError, match="not ranked"):
        near("a limit on the step").within("1%", sample=number)
