"""The bandit over parts and agents."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.allocation import AGENTS, KNOWN, PATIENCE, Allocation, Arm, Part, parts_of
from cosmic_opt.search.feasible_space import FeasibleSpace
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.space import build_space
from tests.unit.search.spaces import SYSTEM1, scorer_of

SPACE = FeasibleSpace(SYSTEM1.parameter_set, SYSTEM1.feasible)


class Counter:
    """Scores designs by the sum of their codes, plus 1, and remembers what it was asked."""

    def __init__(self) -> None:
        self.batches: list[DesignBatch] = []

    def __call__(self, batch: DesignBatch) -> np.ndarray:
        self.batches.append(batch)
        return 1.0 + batch.codes.sum(axis=1)

    @property
    def evaluations(self) -> int:
        return sum(map(len, self.batches))


def allocation(score: Counter, seed: int = 0) -> Allocation:
    made = Allocation(SPACE, score, lambda: False, np.random.default_rng(seed))
    made.consider(SPACE.sample(64, made.rng))
    return made


def part(bound: float, **fixed: int) -> Part:
    """Return the designs with the given codes."""
    columns = SYSTEM1.parameter_set.positions
    allowed = {columns[name]: [code] for name, code in fixed.items()}
    return Part(FeasibleSpace(SYSTEM1.parameter_set, SYSTEM1.feasible.given(allowed)), bound)


def test_a_budget_is_spent_to_the_last_evaluation_and_not_overrun() -> None:
    score = Counter()
    allocation(score).spend([Part(SPACE, 0.0)], 301)
    assert score.evaluations == 64 + 301


@pytest.mark.parametrize("evaluations", [0, 1])
def test_the_smallest_budgets_are_kept(evaluations: int) -> None:
    score = Counter()
    allocation(score).spend([Part(SPACE, 0.0)], evaluations)
    assert score.evaluations == 64 + evaluations


def test_it_ends_by_itself_when_nothing_improves() -> None:
    score = Counter()
    spender = Allocation(SPACE, lambda batch: 0 * score(batch) + 5.0, lambda: False, np.random.default_rng(0))
    spender.consider(SPACE.sample(64, spender.rng))
    spender.spend([Part(SPACE, 0.0)], 10**12)
    assert score.evaluations == 64 + PATIENCE


def test_a_part_whose_bound_is_not_below_the_incumbent_gets_no_evaluation() -> None:
    score = Counter()
    spender = allocation(score)
    spender.spend([part(spender.best, chunks=0), part(0.0, chunks=1)], 512)
    chunks = SYSTEM1.parameter_set.positions["chunks"]
    assert all((batch.codes[:, chunks] == 1).all() for batch in score.batches[1:])


def test_nothing_is_spent_when_every_part_is_closed() -> None:
    score = Counter()
    spender = allocation(score)
    spender.spend([part(spender.best + 1)], 512)
    assert score.evaluations == 64


def test_the_part_with_the_larger_gap_is_explored_more() -> None:
    arms = [Arm(part(bound), None, pulls=4.0, reward=0.4) for bound in (10.0, 90.0)]  # type: ignore[arg-type]
    wide, narrow = (arm.promise(total=20.0, best=100.0, least=10.0) for arm in arms)
    assert wide > narrow
    assert wide == pytest.approx(0.1 + 0.1 * math.sqrt(math.log(20) / 4))


def test_an_arm_that_was_never_pulled_comes_first() -> None:
    assert Arm(part(0.0), None).promise(10.0, 5.0, 0.0) == math.inf  # type: ignore[arg-type]


def test_a_reward_fades_with_every_pull_after_it() -> None:
    arm = Arm(part(0.0), None)  # type: ignore[arg-type]
    for reward in (1.0, 0.0):
        arm.credit(reward)
    assert (arm.pulls, arm.reward) == (1.9, 0.9)


def test_decisions_depend_on_the_seed_alone() -> None:
    asked = []
    for _ in range(2):
        score = Counter()
        allocation(score, seed=3).spend([part(0.0, chunks=0), part(2.0, chunks=1)], 700)
        asked.append(np.concatenate([batch.codes for batch in score.batches]))
    assert np.array_equal(asked[0], asked[1])


def test_it_knows_the_best_designs_it_scored() -> None:
    score = Counter()
    spender = allocation(score)
    spender.spend([Part(SPACE, 0.0)], 512)
    scores = np.concatenate([1.0 + batch.codes.sum(axis=1) for batch in score.batches])
    assert spender.best == scores.min()
    assert len(spender.known) == KNOWN


def open_regions() -> Frontier:
    problem = SYSTEM1.objective("step_time * network_cost")
    scorer = scorer_of(problem)
    space = build_space(problem.parameter_set, problem.model, scorer.simulator, 4, scorer.objective)
    return Frontier(space, scorer.simulator, scorer.objective)


def test_parts_hold_every_open_region_and_start_at_the_least_bound() -> None:
    frontier = open_regions()
    order, columns = frontier.order[:800], frontier.space.structural
    regions, values = frontier.regions.codes[order], frontier.values[order]
    parts = parts_of(SPACE, regions, values, columns)
    assert [part.bound for part in parts] == [float(values[0]), float(values[100])]
    for row, found in ((0, parts[0]), (99, parts[0]), (100, parts[1]), (799, parts[1])):
        allowed = {column: [int(regions[row, column])] for column in columns}
        assert found.space.feasible.given(allowed).size == SPACE.feasible.given(allowed).size > 0


def test_a_few_open_regions_are_left_to_the_exact_search() -> None:
    frontier = open_regions()
    order = frontier.order[:64]
    assert parts_of(SPACE, frontier.regions.codes[order], frontier.values[order], frontier.space.structural) == []


def test_the_agents_of_the_hybrid_search_need_no_extra() -> None:
    assert set(AGENTS) <= {"random", "genetic", "annealing", "ant_colony"}
