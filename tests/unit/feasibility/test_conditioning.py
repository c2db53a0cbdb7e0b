from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from tests.strategies import FOCUSES, Source, brute_force, sources, whole_grid


@pytest.mark.parametrize("focus", FOCUSES)
def test_ranking_undoes_unranking_on_generated_problems(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=30)
    @given(sources(focus))
    def check(source: Source) -> None:
        feasible = feasible_set(lower(source.bind()))
        ranks = np.arange(feasible.size)
        assert feasible.rank(feasible.unrank(ranks)) == ranks.tolist()

    check()


def test_ranking_undoes_unranking_on_the_full_stack() -> None:
    feasible = Problem.load("cosmic/gpt3-175b-system2").feasible
    ranks = [0, 1, 12_345_678_901, feasible.size // 2, feasible.size - 1]
    assert feasible.rank(feasible.unrank(np.array(ranks))) == ranks


@pytest.mark.parametrize("focus", FOCUSES)
def test_only_feasible_designs_have_a_rank(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(sources(focus))
    def check(source: Source) -> None:
        parameter_set = source.bind()
        feasible = feasible_set(lower(parameter_set))
        members = {tuple(row) for row in brute_force(parameter_set).tolist()}
        for row in whole_grid(parameter_set)[:200]:
            if tuple(row.tolist()) not in members:
                with pytest.raises(KeyError):
                    feasible.rank(row.reshape(1, -1))

    check()


@pytest.mark.parametrize("focus", FOCUSES)
def test_a_conditional_set_is_the_brute_force_subset(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus), st.data())
    def check(source: Source, data: st.DataObject) -> None:
        parameter_set = source.bind()
        feasible = feasible_set(lower(parameter_set))
        column = data.draw(st.integers(0, len(parameter_set.columns) - 1))
        codes = data.draw(st.sets(st.integers(0, len(parameter_set.columns[column].values) - 1)))
        members = brute_force(parameter_set)
        expected = members[np.isin(members[:, column], list(codes))]
        found = feasible.given({column: codes})
        assert found.size == len(expected)
        assert np.array_equal(found.everything(10**6), expected)

    check()


def test_conditional_counts_of_one_column_add_up() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2")
    tp = problem.parameter_set.positions["tp"]
    counts = [
        problem.feasible.given({tp: [code]}).size for code in range(len(problem.parameter_set.columns[tp].values))
    ]
    assert sum(counts) == problem.feasible.size
    for code, value in enumerate(problem.parameter_set.columns[tp].values):
        assert counts[code] == problem.fix(tp=value).feasible.size


def test_a_conditional_sample_obeys_the_condition_and_the_rules() -> None:
    problem = Problem.load("cosmic/gpt3-13b-system1")
    tp = problem.parameter_set.positions["tp"]
    given_tp = problem.feasible.given({tp: [2, 3]})
    batch = problem.parameter_set.batch(given_tp.sample(500, np.random.default_rng(0)))
    assert set(batch.values("tp").tolist()) <= {4, 8}
    assert all(not problem.violations(batch.take([row])) for row in range(20))
