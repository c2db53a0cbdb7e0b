"""The execution space of one job on a given cluster: counted, solved and certified."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.search.verify import verify
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.search.spaces import brute_force

H100 = Problem.load("calculon/gpt3-175b-h100-1024")
CALCULON_POINTS = 11_698_528
SPACES = {
    "pipelines": H100.fix(tp=8, algorithm="ring", overlap_gradients=1, overlap_weights=1, sequence_parallel=1),
    "sharding and overlap": H100.fix(pp=8, micro_batch=1, algorithm="ring", recompute="none", order="tp_dp_pp_sp"),
    "orders and algorithms": H100.fix(interleave=1, micro_batch=1, zero_stage=1, chunks=4, multidim="blueconnect").fix(
        overlap_gradients=1, overlap_weights=1
    ),
}


def test_the_space_is_larger_than_the_one_calculon_sweeps() -> None:
    assert H100.without("fits").count().value > 5 * CALCULON_POINTS


@pytest.mark.parametrize("name", SPACES)
def test_the_optimum_is_that_of_brute_force(name: str) -> None:
    problem = SPACES[name]
    assert 1_000 < problem.feasible.size < 500_000
    outcome, best = problem.solve(), brute_force(problem)
    assert best is not None
    assert (outcome.value, tuple(outcome.design.codes[0])) == (best.value, best.code)
    assert all(check.passed for check in verify(problem.certificate(outcome), samples=500))


def test_interleaving_shortens_the_bubble_and_lengthens_the_sends() -> None:
    parts = {}
    for pieces in (1, 2, 4):
        problem = H100.fix(tp=8, pp=8, dp=16, micro_batch=1, interleave=pieces, zero_stage=1, recompute="selective")
        report = problem.simulate(problem.fix(sequence_parallel=1, order="tp_dp_pp_sp", algorithm="ring").baseline())
        parts[pieces] = report.terms_s
    assert parts[1]["pipeline bubble"] > 1.9 * parts[2]["pipeline bubble"] > 3.5 * parts[4]["pipeline bubble"]
    assert parts[4]["pipeline sends"] > 1.9 * parts[2]["pipeline sends"]
    assert parts[1]["forward compute"] == parts[4]["forward compute"]


@pytest.mark.slow
def test_the_whole_space_is_proved_and_certified() -> None:
    outcome = H100.solve()
    assert outcome.status is SolveStatus.OPTIMAL
    assert all(check.passed for check in verify(H100.certificate(outcome)))
