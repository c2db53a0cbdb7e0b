"""What every shipped instance promises: a feasible, scored baseline in every scope, and rules that refuse by name."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.job_kinds import INFERENCE
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.errors import InfeasibleError

COSMIC_SYSTEMS = [name for name in instance_names() if name.startswith(("cosmic/gpt", "cosmic/vit"))]


@pytest.mark.parametrize("name", instance_names())
def test_the_baseline_is_feasible_and_scored_in_every_scope(name: str) -> None:
    problem = Problem.load(name)
    scopes = problem.spec.model.scopes
    assert scopes
    steps = set()
    for scope in scopes:
        scoped = problem.scope(scope)
        baseline = scoped.baseline()
        assert scoped.violations(baseline) == []
        report = scoped.simulate(baseline)
        if problem.spec.kind is INFERENCE:
            steps.add(report.metrics["output_token_time_s"])
            continue
        steps.add(report.metrics["step_time_s"])
        assert 0 < float(report.metrics["model_flop_fraction"] or 0) <= 1
    assert len(steps) == 1


@pytest.mark.parametrize("name", COSMIC_SYSTEMS)
def test_every_single_stack_space_lies_in_the_full_stack(name: str) -> None:
    full = Problem.load(name).scope("full_stack")
    for scope in ("workload", "collective", "network"):
        batch = Problem.load(name).scope(scope).sample(20, seed=2)
        for point in batch.points():
            assert full.violations(full.parameter_set.design(point)) == []


@pytest.mark.parametrize(
    ("rule", "degrees"),
    [
        ("runnable_pp", {"pp": 128, "dp": 8, "tp": 1, "sp": 1}),
        ("runnable_tp", {"tp": 128, "dp": 8, "pp": 1, "sp": 1}),
        ("runnable_sp", {"sp": 1024, "dp": 1, "tp": 1, "pp": 1}),
        ("runnable_dp", {"dp": 1024, "sp": 1, "tp": 1, "pp": 1}),
    ],
)
def test_a_design_that_cannot_be_run_is_refused_with_the_rule_s_name(rule: str, degrees: dict[str, int]) -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2").without("fits").fix(degrees)
    if rule == "runnable_sp":
        problem = problem.set(seq=512)
    if rule == "runnable_dp":
        problem = problem.set(global_batch=512)
    with pytest.raises(InfeasibleError, match=rule):
        problem.simulate(problem.baseline())
    assert problem.count().value == 0
    assert problem.without(rule).count().value > 0


@pytest.mark.parametrize("name", COSMIC_SYSTEMS)
def test_a_block_without_a_price_is_infeasible_by_a_named_rule(name: str) -> None:
    problem = Problem.load(name).without("inner").fix({"topology[0]": "switch"})
    assert "priced" in {rule.name for rule in problem.parameter_set.constraints}
    assert problem.count().value == 0
    assert problem.without("priced").count().value > 0
