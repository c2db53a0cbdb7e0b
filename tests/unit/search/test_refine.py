"""Searches scored by events: the optimum of every design, its evidence, and what limits and studies do to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.certificate import Certificate, read_certificate
from cosmic_opt.search.executor import process_pool, threads
from cosmic_opt.search.outcome import LogLine, Outcome, Stop
from cosmic_opt.search.proof import Proof, Simulated
from cosmic_opt.search.tasks import SimulateDesigns, worker_of
from cosmic_opt.search.verify import verify
from cosmic_opt.solvers.base import SolveStatus

BASE = (
    Problem.load("cosmic/vit-base-system1")
    .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4, "topology[1]": "ring"})
    .fix({"topology[2]": "ring", "algorithm": "ring", "bandwidth[3]": "100 GB/s", "bandwidth[0]": "200 GB/s"})
    .fix({"bandwidth[2]": "150 GB/s"})
    .fix(scheduling_policy="lifo", sp=1)
)
SMALL = BASE.fix(pp=1).require("bandwidth[1] <= 150 GB/s", "tp <= 2", "chunks == 8")
"""A hundred designs, of which many wait for a link: the gradients of the last backward pass go beside it."""
SPACES = {
    "step": SMALL,
    "step * bandwidth": SMALL.objective("step_time * total_bandwidth"),
    "step * cost": SMALL.objective("step_time * network_cost").fix(weight_sharded=0),
    "a pipeline": BASE.require("pp >= 2", "chunks == 8", "bandwidth[1] == 100 GB/s"),
}


@cache
def every(name: str) -> dict[tuple[int, ...], int]:
    """The value by events of every design, by its codes."""
    problem = SPACES[name]
    worker = worker_of(problem.instance, problem.model)
    values: dict[tuple[int, ...], int] = {}
    for batch in problem.enumerate():
        scored = SimulateDesigns(batch.codes).run(worker)
        for code, ticks, amount in zip(batch.codes, scored.ticks.tolist(), scored.amounts.tolist(), strict=True):
            if ticks <= worker.limit_ticks:
                values[tuple(code.tolist())] = ticks * amount
    return values


@pytest.mark.parametrize("name", SPACES)
def test_the_answer_is_the_best_of_every_design_by_events(name: str) -> None:
    problem = SPACES[name]
    values = every(name)
    outcome = problem.solve(by_events=True)
    assert outcome.status is SolveStatus.OPTIMAL
    assert (outcome.value, outcome.bound) == (min(values.values()),) * 2
    assert values[tuple(outcome.design.codes[0].tolist())] == outcome.value
    assert outcome.evaluations < len(values)


def test_contention_changes_which_design_is_best() -> None:
    by_events, closed = SMALL.solve(by_events=True), SMALL.solve()
    assert by_events.value is not None
    assert closed.value is not None
    assert by_events.value > closed.value
    assert every("step")[tuple(closed.design.codes[0].tolist())] > by_events.value


def test_every_logged_bound_is_below_the_optimum_and_every_incumbent_above() -> None:
    lines: list[LogLine] = []
    outcome = SMALL.solve(by_events=True, log=lines.append)
    assert outcome.value is not None
    at = [line.note for line in lines].index("regions bounded, scored by events")
    assert lines[at:]
    for line in lines[at:]:
        assert line.bound is not None
        assert line.incumbent is not None
        assert line.bound <= outcome.value <= line.incumbent


def test_a_limit_on_the_step_is_of_the_step_by_events() -> None:
    values = sorted(set(every("step").values()))
    closed = SMALL.solve().value
    assert closed is not None
    assert closed < values[0]
    between = (closed + values[0]) // 2
    assert SMALL.require(f"step_time <= {between} ps").solve().status is SolveStatus.OPTIMAL
    nothing = SMALL.require(f"step_time <= {between} ps").solve(by_events=True)
    assert (nothing.status, nothing.stop, nothing.bound) == (SolveStatus.INFEASIBLE, Stop.PROVED, None)
    limited = SMALL.require(f"step_time <= {values[0]} ps").solve(by_events=True)
    assert (limited.status, limited.value) == (SolveStatus.OPTIMAL, values[0])


def test_a_spent_budget_leaves_a_bound_below_the_optimum() -> None:
    best = min(every("step").values())
    outcome = SMALL.solve(by_events=True, budget=Budget(evaluations=3))
    assert (outcome.status, outcome.stop, outcome.evaluations) == (SolveStatus.FEASIBLE, Stop.EVALUATIONS, 3)
    assert outcome.bound is not None
    assert outcome.value is not None
    assert outcome.bound < best <= outcome.value
    assert failed(SMALL.certificate(outcome)) == set()


def test_agents_alone_are_told_steps_by_events() -> None:
    outcome = SMALL.solve(by_events=True, agent="random", budget=Budget(evaluations=40), seed=3)
    assert outcome.status is SolveStatus.FEASIBLE
    assert outcome.value == every("step")[tuple(outcome.design.codes[0].tolist())]
    with pytest.raises(SpecError, match="not proved"):
        SMALL.certificate(outcome)


def test_a_calibrated_instance_has_no_events() -> None:
    with pytest.raises(SpecError, match="analytical simulator only"):
        Problem.load("llama3-8b/h100-8").solve(by_events=True)


# --- evidence ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return SMALL.solve(by_events=True)


@pytest.fixture(scope="module")
def certificate(outcome: Outcome) -> Certificate:
    return SMALL.certificate(outcome)


def failed(certificate: Certificate) -> set[str]:
    return {check.name for check in verify(certificate, samples=64) if not check.passed}


def simulated(proof: Proof | None) -> Simulated:
    assert proof is not None
    assert proof.simulated is not None
    return proof.simulated


def test_the_evidence_is_every_design_below_the_incumbent(certificate: Certificate) -> None:
    evidence = simulated(certificate.proof)
    assert certificate.value is not None
    assert evidence.limit == certificate.value - 1
    assert evidence.designs > 1
    again = read_certificate(certificate.text(), "c.json")
    assert again == certificate
    assert failed(again) == set()


def with_simulated(certificate: Certificate, **change: int) -> Certificate:
    assert certificate.proof is not None
    proof = replace(certificate.proof, simulated=simulated(certificate.proof)._replace(**change))
    return replace(certificate, proof=proof)


def second_best(certificate: Certificate) -> Certificate:
    """Another design with its own honest value, passed off as the best."""
    ranked = sorted(every("step").items(), key=lambda pair: pair[1])
    codes, value = next(pair for pair in ranked if pair[1] > ranked[0][1])
    design = next(SMALL.parameter_set.batch(np.array([codes], dtype=np.int32)).points())
    return replace(certificate, design=design, ticks=value, amount=1, value=value, bound=value)


TAMPERING: dict[str, tuple[Callable[[Certificate], Certificate], str]] = {
    "scored by closed forms": (lambda c: replace(c, engine="analytical"), "evidence"),
    "fewer designs": (lambda c: with_simulated(c, designs=simulated(c.proof).designs - 1), "simulated designs"),
    "more designs": (lambda c: with_simulated(c, designs=simulated(c.proof).designs + 1), "simulated designs"),
    "a limit beyond what was bounded": (lambda c: with_simulated(c, limit=10**30), "simulated designs"),
    "a lower limit": (lambda c: with_simulated(c, limit=int(c.bound or 0) // 2, designs=0), "bound"),
    "a worse design with its own value": (second_best, "simulated designs"),
}


def test_simulated_designs_prove_nothing_about_closed_forms(certificate: Certificate) -> None:
    """By events no step is shorter: designs that are better by closed forms would look as if they were not."""
    closed = SMALL.solve()
    assert closed.value is not None
    scorer = worker_of(SMALL.instance, SMALL.model).scorer
    batch = SMALL.parameter_set.batch(np.array([*every("step")], dtype=np.int32))
    values = scorer.score(batch).values
    row = next(row for row in range(len(batch)) if values[row] > closed.value)
    value, better = int(values[row]), int((values < values[row]).sum())
    forged = replace(
        with_simulated(certificate, limit=value - 1, designs=better),
        **{"engine": "analytical", "design": next(batch.take([row]).points())},
        **{"ticks": value, "amount": 1, "value": value, "bound": value},
    )
    assert failed(forged) == {"evidence"}


def test_evidence_of_another_kind_is_not_looked_at(certificate: Certificate) -> None:
    assert certificate.proof is not None
    closed = SMALL.certificate(SMALL.solve())
    assert closed.proof is not None
    assert failed(closed) == set()
    added = replace(closed, proof=replace(closed.proof, simulated=Simulated(0, 0)))
    assert failed(added) == {"evidence"}
    taken = replace(certificate, proof=replace(certificate.proof, simulated=None))
    assert failed(taken) == {"evidence"}
    solved = replace(certificate, proof=replace(certificate.proof, solved=(0,)))
    assert failed(solved) == {"evidence"}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_with_the_evidence_is_rejected(name: str, certificate: Certificate) -> None:
    tamper, check = TAMPERING[name]
    assert check in failed(tamper(certificate))


# --- the same answer anywhere --------------------------------------------------------------------------------------


def test_the_number_of_threads_changes_nothing(outcome: Outcome) -> None:
    one = SMALL.solve(by_events=True, engine=threads(1))
    assert (one.value, one.evaluations, one.proof) == (outcome.value, outcome.evaluations, outcome.proof)
    assert (one.design.codes == outcome.design.codes).all()


@pytest.mark.slow
def test_processes_give_the_same_answer(outcome: Outcome) -> None:
    with process_pool(2) as executor:
        far = SMALL.solve(by_events=True, engine=SMALL.on(executor, workers=2))
    assert (far.value, far.evaluations, far.proof) == (outcome.value, outcome.evaluations, outcome.proof)


def test_a_study_spares_what_events_have_scored(tmp_path: Path, outcome: Outcome) -> None:
    study = tmp_path / "events.study"
    half = SMALL.solve(by_events=True, study=study, budget=Budget(evaluations=10))
    assert half.status is SolveStatus.FEASIBLE
    whole = SMALL.solve(by_events=True, study=study)
    assert (whole.value, whole.bound, whole.proof) == (outcome.value, outcome.bound, outcome.proof)
    assert whole.study is not None
    assert whole.study.recalled["simulations"] >= 10
    with pytest.raises(SpecError, match="hybrid by events there, hybrid here"):
        SMALL.solve(study=study)
