"""Every agent: feasible proposals, the same ones under the same seed, and the known optimum of small spaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import Codes, DesignBatch
from cosmic_opt.search.agents import AGENTS, find_agent
from cosmic_opt.search.agents.annealing import CHAINS, START, Annealing
from cosmic_opt.search.agents.ant_colony import AntColony
from cosmic_opt.search.agents.archive import Archive
from cosmic_opt.search.feasible_space import FeasibleSpace, raw_grid
from tests.strategies import FOCUSES, Source, brute_force, sources
from tests.unit.search.spaces import SPACES, SYSTEM1, scorer_of

NAMES = (*AGENTS.names(), "optuna:TPESampler", "optuna:NSGAIISampler")
WORKLOAD = Problem.load("cosmic/gpt3-175b-system2").scope("workload")
"""406 designs."""


def space_of(problem: Problem = SYSTEM1) -> FeasibleSpace:
    return FeasibleSpace(problem.parameter_set, problem.feasible)


def distance_to_zero(batch: DesignBatch) -> np.ndarray:
    """A score without a simulator: 1 plus the sum of the codes."""
    return 1.0 + batch.codes.sum(axis=1)


def asked(name: str, space: FeasibleSpace, rounds: int, size: int, seed: int = 0) -> Codes:
    """Return what an agent asks for while it is told `distance_to_zero`."""
    agent = find_agent(name)(space, np.random.default_rng(seed))
    found = []
    for _ in range(rounds):
        batch = agent.ask(size)
        agent.tell(batch, distance_to_zero(batch))
        found.append(batch.codes)
    return np.concatenate(found)


def evaluations_to_the_optimum(name: str, problem: Problem, most: int, seed: int = 0) -> int | None:
    """Return after how many evaluations an agent has found the optimum of all designs; None if not in `most`."""
    scorer, space = scorer_of(problem), space_of(problem)
    everything = problem.parameter_set.batch(problem.feasible.everything(1 << 20))
    best = scorer.score(everything, strict=False).values.min()
    agent, spent = find_agent(name)(space, np.random.default_rng(seed)), 0
    while spent < most:
        batch = agent.ask(min(agent.ask_size, most - spent))
        scores = scorer.score(batch, strict=False).values
        agent.tell(batch, scores.astype(float))
        spent += len(batch)
        if scores.min() == best:
            return spent
    return None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", [None, *list(SPACES)[:4]])
def test_an_agent_proposes_feasible_designs_only(name: str, where: str | None) -> None:
    problem = SYSTEM1 if where is None else SPACES[where]
    codes = asked(name, space_of(problem), rounds=4, size=20)
    assert len(codes) == 80
    assert feasible(problem.parameter_set.batch(codes)).all()


@pytest.mark.parametrize("name", NAMES)
@given(source=st.sampled_from(FOCUSES).flatmap(sources))
@settings(derandomize=True, deadline=None, max_examples=8)
def test_an_agent_proposes_feasible_designs_of_any_problem(name: str, source: Source) -> None:
    parameter_set = source.bind()
    assume(len(brute_force(parameter_set)))
    space = FeasibleSpace(parameter_set, feasible_set(lower(parameter_set)))
    assert feasible(parameter_set.batch(asked(name, space, rounds=3, size=9))).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_repeats_itself_under_the_same_seed_and_not_under_another(name: str) -> None:
    first, again, other = (asked(name, space_of(), rounds=3, size=16, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_goes_on_when_no_design_counts(name: str) -> None:
    space = space_of()
    agent = find_agent(name)(space, np.random.default_rng(0))
    for _ in range(4):
        batch = agent.ask(24)
        agent.tell(batch, np.full(24, np.inf))
    assert feasible(agent.ask(24)).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_takes_designs_that_it_did_not_ask_for(name: str) -> None:
    space = space_of()
    agent = find_agent(name)(space, np.random.default_rng(0))
    elsewhere = space.sample(80, np.random.default_rng(1))
    agent.tell(elsewhere, distance_to_zero(elsewhere))
    agent.tell(elsewhere.take(slice(0, 0)), np.zeros(0))
    batch = agent.ask(16)
    agent.tell(batch, distance_to_zero(batch))
    assert feasible(agent.ask(16)).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_on_one_design_asks_for_it(name: str) -> None:
    problem = WORKLOAD.fix(dp=32, sp=8, tp=4, pp=1, weight_sharded=1)
    codes = asked(name, space_of(problem), rounds=4, size=10)
    assert (codes == codes[0]).all()


def test_annealing_goes_on_from_the_best_of_the_first_draws() -> None:
    agent = Annealing(space_of(), np.random.default_rng(3))
    drawn = []
    while agent.starting:
        batch = agent.ask(CHAINS)
        drawn += distance_to_zero(batch).tolist()
        agent.tell(batch, distance_to_zero(batch))
    assert len(drawn) == START
    assert sorted(distance_to_zero(agent.at).tolist()) == sorted(drawn)[:CHAINS]


def test_annealing_draws_on_until_a_design_counts_and_then_moves_every_chain_from_it() -> None:
    agent = Annealing(space_of(), np.random.default_rng(3))
    for _ in range(20):
        batch = agent.ask(CHAINS)
        agent.tell(batch, np.full(CHAINS, np.inf))
    assert agent.starting
    batch = agent.ask(CHAINS)
    agent.tell(batch, np.where(np.arange(CHAINS) == 2, 5.0, np.inf))
    assert not agent.starting
    assert (agent.at.codes == batch.codes[2]).all()


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("genetic", 1200),
        ("annealing", 400),
        ("ant_colony", 600),
        ("bayesian", 64),
        ("optuna:TPESampler", 128),
    ],
)
def test_an_agent_finds_the_best_of_406_designs_within_so_many_evaluations(name: str, most: int) -> None:
    assert evaluations_to_the_optimum(name, WORKLOAD, most) is not None


@pytest.mark.parametrize(
    ("name", "most"), [("genetic", 600), ("annealing", 1600), ("ant_colony", 600), ("bayesian", 96)]
)
def test_an_agent_finds_the_best_of_45240_designs_within_so_many_evaluations(name: str, most: int) -> None:
    assert evaluations_to_the_optimum(name, SPACES["a disjunction ties dimensions"], most) is not None


@pytest.mark.parametrize("name", ["genetic", "annealing", "ant_colony"])
def test_a_learning_agent_beats_the_random_one_on_the_full_stack(name: str) -> None:
    problem = SYSTEM1.objective("step_time * network_cost")
    scorer, space = scorer_of(problem), space_of(problem)
    best = {}
    for agent_name in ("random", name):
        agent = find_agent(agent_name)(space, np.random.default_rng(1))
        found = []
        for _ in range(40):
            batch = agent.ask(64)
            scores = scorer.score(batch, strict=False).values.astype(float)
            agent.tell(batch, scores)
            found.append(scores.min())
        best[agent_name] = min(found)
    assert best[name] < best["random"]


def test_a_mutated_design_differs_in_few_columns() -> None:
    space = space_of()
    parents = space.sample(500, np.random.default_rng(2))
    children = space.mutate(parents, 0.05, np.random.default_rng(3))
    assert 0 < (parents.codes != children.codes).mean() < 0.1


def test_a_child_of_independent_columns_takes_each_from_one_parent() -> None:
    space = space_of()
    left, right = space.sample(100, np.random.default_rng(4)), space.sample(100, np.random.default_rng(5))
    child = space.crossover(left, right, np.random.default_rng(6))
    for diagram in space.feasible.diagrams:
        if len(diagram.order) == 1:
            (column,) = diagram.order
            from_left = child.codes[:, column] == left.codes[:, column]
            from_right = child.codes[:, column] == right.codes[:, column]
            assert (from_left | from_right).all()
    assert feasible(child).all()


def test_an_archive_holds_the_best_distinct_designs_the_least_code_first() -> None:
    space = space_of(WORKLOAD)
    archive = Archive(space, 3)
    designs = space.parameter_set.batch(space.feasible.unrank(np.arange(4)))
    archive.add(designs, np.array([2.0, 1.0, 2.0, 9.0]))
    archive.add(designs, np.array([2.0, 1.0, 2.0, 9.0]))
    assert archive.scores.tolist() == [1.0, 2.0, 2.0]
    assert tuple(archive.designs.codes[1]) < tuple(archive.designs.codes[2])


def test_pheromone_gathers_on_the_arcs_of_the_elite_and_never_falls_to_nothing() -> None:
    space = space_of()
    colony = AntColony(space, np.random.default_rng(0))
    best = space.sample(1, np.random.default_rng(7))
    for _ in range(60):
        batch = colony.ask(16)
        colony.tell(batch, 2.0 + np.arange(16))
        colony.tell(best, np.ones(1))
    on_the_way = space.arcs_of(best)[0]
    assert (colony.pheromone >= colony.least).all()
    assert colony.pheromone[on_the_way].mean() > 3 * np.delete(colony.pheromone, on_the_way).mean()


def test_ants_are_uniform_designs_before_there_is_a_trail() -> None:
    space = space_of(WORKLOAD)
    codes = AntColony(space, np.random.default_rng(0)).ask(40_000).codes
    _, counts = np.unique(codes, axis=0, return_counts=True)
    assert len(counts) == space.size
    assert counts.max() < 2 * counts.min()


@pytest.mark.parametrize("name", NAMES)
def test_a_native_agent_proposes_designs_that_break_rules(name: str) -> None:
    codes = asked(name, raw_grid(SYSTEM1.parameter_set), rounds=2, size=30)
    assert not feasible(SYSTEM1.parameter_set.batch(codes)).all()
