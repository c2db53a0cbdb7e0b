"""Certificates are accepted as written and rejected when anything in them is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.certificate import Certificate, read_certificate
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.proof import Proof
from cosmic_opt.search.verify import verify
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.search.six import written
from tests.unit.search.spaces import SPACES

PROBLEM = (
    Problem.load("cosmic/gpt3-13b-system1")
    .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4, "topology[0]": "ring"})
    .require("bandwidth[0] <= 200 GB/s", "bandwidth[3] <= 150 GB/s")
    .objective("step_time * total_bandwidth")
)


def certified(problem: Problem, **limits: Any) -> Certificate:
    return problem.certificate(problem.solve(**limits))


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certified(PROBLEM)


def failed(certificate: Certificate) -> set[str]:
    return {check.name for check in verify(certificate, samples=256) if not check.passed}


def test_a_certificate_read_back_is_the_same_and_accepted(certificate: Certificate) -> None:
    again = read_certificate(certificate.text(), "c.json")
    assert again == certificate
    checks = verify(again)
    assert all(check.passed for check in checks), checks
    assert {check.name for check in checks} >= {
        *("problem", "program", "objective", "feasible designs", "design", "cover", "region bounds"),
        *("solved regions", "bound", "region sizes", "random designs"),
    }


@pytest.mark.parametrize("name", SPACES)
def test_every_restricted_space_is_certified(name: str) -> None:
    certificate = certified(SPACES[name])
    assert certificate.status is SolveStatus.OPTIMAL
    assert failed(certificate) == set()


def test_an_unfinished_search_is_certified_with_its_bound() -> None:
    certificate = certified(Problem.load("cosmic/gpt3-175b-system1").objective("step_time * network_cost"), budget=FEW)
    assert certificate.status is SolveStatus.FEASIBLE
    assert certificate.bound is not None
    assert certificate.value is not None
    assert certificate.bound < certificate.value
    assert failed(certificate) == set()


FEW = Budget(evaluations=7000)
WORKLOAD = Problem.load("cosmic/gpt3-13b-system1").scope("workload")


@pytest.mark.parametrize("evaluations", [1, 5, 100, 300, 616, 617, 2000])
@pytest.mark.parametrize("problem", [WORKLOAD, SPACES["a limit on the step"]], ids=["workload", "a limit on the step"])
def test_what_solve_certifies_is_accepted_at_every_budget(problem: Problem, evaluations: int) -> None:
    outcome = problem.solve(budget=Budget(evaluations=evaluations))
    assert (outcome.status is SolveStatus.OPTIMAL) == (outcome.gap == 0)
    assert failed(problem.certificate(outcome)) == set()


@pytest.mark.parametrize("evaluations", [1, 1000, 2759])
def test_a_certificate_of_scored_designs_is_accepted_or_not_given(evaluations: int) -> None:
    problem = Problem.load("llama3-70b/h100-64")
    outcome = problem.solve(budget=Budget(evaluations=evaluations))
    assert outcome.least_code == (evaluations == 2759)
    if outcome.least_code:
        assert failed(problem.certificate(outcome)) == set()
    else:
        with pytest.raises(SpecError, match="not scored may be better"):
            problem.certificate(outcome)


def test_a_limit_after_the_value_is_proved_leaves_an_optimum_that_may_not_have_the_least_code() -> None:
    early, whole = WORKLOAD.solve(budget=Budget(evaluations=300)), WORKLOAD.solve()
    assert (early.status, early.stop, early.least_code) == (SolveStatus.OPTIMAL, Stop.EVALUATIONS, False)
    assert (whole.status, whole.stop, whole.least_code) == (SolveStatus.OPTIMAL, Stop.PROVED, True)
    assert early.value == early.bound == whole.value


def test_an_infeasible_problem_is_certified() -> None:
    certificate = certified(PROBLEM.require("tp == 3"))
    assert certificate.status is SolveStatus.INFEASIBLE
    assert failed(certificate) == set()
    assert failed(replace(certificate, status=SolveStatus.OPTIMAL)) == {"status"}


def test_a_step_limit_that_nothing_obeys_is_certified() -> None:
    certificate = certified(PROBLEM.require("step_time <= 1 ms"))
    assert certificate.status is SolveStatus.INFEASIBLE
    assert failed(certificate) == set()


def with_proof(change: Callable[[Proof], Proof]) -> Callable[[Certificate], Certificate]:
    return lambda certificate: replace(certificate, proof=change(proof_of(certificate)))


def proof_of(certificate: Certificate) -> Proof:
    assert certificate.proof is not None
    return certificate.proof


def other_design(certificate: Certificate) -> Certificate:
    """Another feasible design, passed off with the optimum's value."""
    (point,) = PROBLEM.sample(1, seed=5).points()
    return replace(certificate, design=point)


def worse_design(certificate: Certificate) -> Certificate:
    """Another feasible design with its own honest value, passed off as the optimum."""
    outcome = PROBLEM.fix(tp=2).solve()
    assert outcome.scores is not None
    assert outcome.value is not None
    assert outcome.value > int(certificate.value or 0)
    ticks, amount = int(outcome.scores.evaluation.step_ticks[0]), int(outcome.scores.amounts[0])
    return replace(
        certificate,
        design=next(outcome.design.points()),
        ticks=ticks,
        amount=amount,
        proof=replace(proof_of(certificate), against=(ticks, amount)),
        value=outcome.value,
        bound=outcome.value,
    )


def one_block(proof: Proof, **change: Any) -> Proof:
    return replace(proof, blocks=(proof.blocks[0]._replace(**change), *proof.blocks[1:]))


TAMPERING: dict[str, tuple[Callable[[Certificate], Certificate], str]] = {
    "the bound raised": (lambda c: replace(c, bound=int(c.bound or 0) + 1), "bound"),
    "the bound and the value lowered": (
        lambda c: replace(c, bound=int(c.bound or 0) - 1, value=int(c.value or 0) - 1),
        "design",
    ),
    "the status changed": (lambda c: replace(c, status=SolveStatus.FEASIBLE), "bound"),
    "another design": (other_design, "design"),
    "a worse design with its own value": (worse_design, "solved regions"),
    "a value outside a domain": (lambda c: replace(c, design={**(c.design or {}), "tp": 3}), "design"),
    "a knob left out": (
        lambda c: replace(c, design={k: v for k, v in (c.design or {}).items() if k != "tp"}),
        "design",
    ),
    "fewer feasible designs": (lambda c: replace(c, feasible_designs=c.feasible_designs - 1), "feasible designs"),
    "a block left out": (with_proof(lambda p: replace(p, blocks=p.blocks[1:])), "cover"),
    "a block that claims more designs": (with_proof(lambda p: one_block(p, designs=p.blocks[0].designs + 1)), "cover"),
    "a block with a higher bound": (with_proof(lambda p: one_block(p, least=10**30)), "region bounds"),
    "a block twice": (with_proof(lambda p: replace(p, blocks=(*p.blocks, p.blocks[-1]))), "cover"),
    "a solved region passed over": (with_proof(lambda p: replace(p, solved=p.solved[1:])), "region bounds"),
    "a region that does not exist": (with_proof(lambda p: replace(p, solved=(*p.solved, 10**9))), "solved regions"),
    "no evidence": (lambda c: replace(c, proof=None), "evidence"),
    "another problem": (lambda c: replace(c, edits=replace(c.edits, fix=(*c.edits.fix, ("pp", "2")))), "problem"),
    "another objective": (lambda c: replace(c, objective="step_time"), "objective"),
    "another version": (lambda c: replace(c, version="9.9.9"), "program"),
    "another program": (lambda c: replace(c, program="0" * 64), "program"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_rejected_even_with_a_fresh_digest(name: str, certificate: Certificate) -> None:
    tamper, check = TAMPERING[name]
    changed = read_certificate(tamper(certificate).text(), "c.json")
    assert check in failed(changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"optimal"', '"feasible"'), "its digest does not match"),
        (lambda text: text[:200], "not JSON"),
        (lambda text: "[]", "this is no certificate"),
        (lambda text: "", "not JSON"),
        (lambda text: "[" * 100_000, "not JSON"),
        (lambda text: text.replace('"status"', '"status": "unknown", "status"'), "the key 'status' appears twice"),
        (lambda text: text.replace('"nodes"', '"nodes": 0, "nodes"'), "the key 'nodes' appears twice"),
        (lambda text: text.replace("certificate@2", "certificate@3"), "this is no certificate"),
    ],
)
def test_a_damaged_file_is_refused(change: Callable[[str], str], message: str, certificate: Certificate) -> None:
    with pytest.raises(SpecError, match=message):
        read_certificate(change(certificate.text()), "c.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("value", -1), ("value", "many"), ("proof", []), ("edits", {"fixed": []}), ("status", "best"), ("design", 3)),
        *(
            ("design", {"dp": [1]}),
            ("design", {"dp": 64.0}),
            ("design", {"dp": True}),
            ("engine", "trust"),
            ("more", 1),
        ),
    ],
)
def test_a_malformed_certificate_is_refused(key: str, value: object, certificate: Certificate) -> None:
    from cosmic_opt.search import certificate as module

    keys = json.loads(certificate.text())
    del keys["digest"]
    keys[key] = value
    keys["digest"] = module._digest(keys)
    with pytest.raises(SpecError, match="malformed"):
        read_certificate(json.dumps(keys), "c.json")


@pytest.mark.parametrize(
    "change",
    [
        {"solved": [10**30]},
        {"against": [10**40, 1]},
        {"blocks": [[0, 10**30, 1, None]]},
        {"nodes": -1},
        {"remarks": "trust me"},
        {"simulated": [1]},
    ],
    ids=str,
)
def test_malformed_evidence_is_refused(change: dict[str, object], certificate: Certificate) -> None:
    from cosmic_opt.search import certificate as module

    keys = json.loads(certificate.text())
    del keys["digest"]
    keys["proof"] |= change
    keys["digest"] = module._digest(keys)
    with pytest.raises(SpecError, match="malformed"):
        read_certificate(json.dumps(keys), "c.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": -1}, "-1 is no whole number"),
        ({"edits": {"set": [["a", "b", "c"]]}}, "['a', 'b', 'c'] is no list of 2"),
        ({"edits": {"free": "dp"}}, "'dp' is no list"),
        ({"edits": {"fix": 3}}, "3 is no list"),
        ({"status": "best"}, "'best' is no status"),
        ({"status": []}, "[] is no status"),
        ({"proof": {"against": None}}, "the key 'blocks' is missing"),
        ({"proof": {"against": [1], "blocks": [], "solved": [], "nodes": 0, "simulated": None}}, "[1] is no list of 2"),
        ({"proof": {"against": None, "blocks": [3], "solved": [], "nodes": 0, "simulated": None}}, "3 is no list of 4"),
    ],
    ids=str,
)
def test_what_is_malformed_is_said_in_words(change: dict[str, object], said: str, certificate: Certificate) -> None:
    with pytest.raises(SpecError) as refused:
        read_certificate(resigned(certificate, change), "c.json")
    assert refused.value.message == f"the certificate is malformed: {said}"


def test_a_message_shows_little_of_a_file_that_is_no_certificate(certificate: Certificate, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("x" * 70 + "password " * 50)
    pointed = replace(certificate, instance=str(secret))
    with pytest.raises(SpecError, match="expected 'key: value' lines") as refused:
        verify(pointed)
    assert "password password" not in str(refused.value)
    with pytest.raises(SpecError, match=r"x\.\.\. is no list") as refused:
        read_certificate(resigned(certificate, {"edits": {"fix": "x" * 1000}}), "c.json")
    assert len(str(refused.value)) < 200


def resigned(certificate: Certificate, change: dict[str, object]) -> str:
    """A certificate with other keys and a fresh digest."""
    from cosmic_opt.search import certificate as module

    keys = json.loads(certificate.text()) | change
    del keys["digest"]
    return json.dumps(keys | {"digest": module._digest(keys)})


def test_an_incumbent_better_than_the_answer_is_no_evidence(certificate: Certificate) -> None:
    assert certificate.value is not None
    assert certificate.proof is not None
    better = replace(certificate, proof=replace(certificate.proof, against=(certificate.value - 1, 1)))
    assert failed(better) == {"evidence"}


def test_a_file_that_is_another_or_none_from_elsewhere_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    written(here)
    monkeypatch.chdir(here)
    certificate = certified(Problem.load("six.yaml"))
    assert failed(certificate) == set()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(SpecError, match=r"there is no file 'six.yaml'") as caught:
        verify(certificate)
    assert "in the folder that solve ran in" in str(caught.value.hint)
    path = Path(written(elsewhere))
    text = path.read_text(encoding="utf-8")
    path.write_text("schema: cosmic-opt/engine@1\n", encoding="utf-8")
    with pytest.raises(SpecError, match="this is a 'cosmic-opt/engine@1' file") as caught:
        verify(certificate)
    assert "in the folder that solve ran in" in str(caught.value.hint)
    path.write_text(text.replace("1024", "2048"), encoding="utf-8")
    (problem, _) = verify(certificate)
    assert not problem.passed
    assert "in 'six.yaml' seen from here; a certificate names the file as solve was given it" in problem.found


def test_an_agent_alone_has_no_certificate() -> None:
    outcome = PROBLEM.solve(agent="random", budget=Budget(evaluations=50))
    with pytest.raises(SpecError, match="proves nothing"):
        PROBLEM.certificate(outcome)
