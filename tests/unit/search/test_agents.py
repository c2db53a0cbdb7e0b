from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.search.agents import AGENTS
from cosmic_opt.search.feasible_space import FeasibleSpace
from tests.unit.search.spaces import SPACES, SYSTEM1, scorer_of


def space_of(name: str | None = None) -> FeasibleSpace:
    problem = SYSTEM1 if name is None else SPACES[name]
    return FeasibleSpace(problem.parameter_set, problem.feasible)


@pytest.mark.parametrize("name", AGENTS.names())
@pytest.mark.parametrize("where", [None, *list(SPACES)[:4]])
def test_an_agent_proposes_feasible_designs_only(name: str, where: str | None) -> None:
    space = space_of(where)
    agent = AGENTS.get(name)(space, np.random.default_rng(0))
    scorer = scorer_of(SYSTEM1 if where is None else SPACES[where])
    for _ in range(4):
        batch = agent.ask(200)
        assert len(batch) == 200
        assert feasible(batch).all()
        agent.tell(batch, scorer.score(batch).values.astype(float))


@pytest.mark.parametrize("name", AGENTS.names())
def test_an_agent_repeats_itself_under_the_same_seed(name: str) -> None:
    scorer = scorer_of(SYSTEM1)
    runs = []
    for _ in range(2):
        agent = AGENTS.get(name)(space_of(), np.random.default_rng(5))
        asked = []
        for _ in range(3):
            batch = agent.ask(100)
            agent.tell(batch, scorer.score(batch).values.astype(float))
            asked.append(batch.codes)
        runs.append(np.concatenate(asked))
    assert np.array_equal(runs[0], runs[1])


def test_the_genetic_agent_beats_the_random_one_on_the_full_stack() -> None:
    problem = SYSTEM1.objective("step_time * network_cost")
    scorer, space = scorer_of(problem), FeasibleSpace(problem.parameter_set, problem.feasible)
    best = {}
    for name in ("random", "genetic"):
        agent = AGENTS.get(name)(space, np.random.default_rng(1))
        found = []
        for _ in range(30):
            batch = agent.ask(100)
            scores = scorer.score(batch).values.astype(float)
            agent.tell(batch, scores)
            found.append(scores.min())
        best[name] = min(found)
    assert best["genetic"] < best["random"]


def test_a_mutated_design_differs_in_few_components() -> None:
    space = space_of()
    parents = space.sample(500, np.random.default_rng(2))
    children = space.mutate(parents, 0.05, np.random.default_rng(3))
    changed = (parents.codes != children.codes).mean()
    assert 0 < changed < 0.1
    assert feasible(children).all()


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
