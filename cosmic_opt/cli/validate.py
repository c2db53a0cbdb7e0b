"""`validate`: does a file mean something, what does it declare, and does its own design obey it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from cosmic_opt.api import Problem
from cosmic_opt.catalog.columns import values_added
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.store import display, instance_names, instance_path, model_names, read_text
from cosmic_opt.cli.exits import DONE, INFEASIBLE
from cosmic_opt.cli.listing import load_model
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.document import read_yaml
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.model_file import ModelSpec, read_model
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.reporting.dead_knobs import dead_keys, dead_text
from cosmic_opt.reporting.designs import designs_keys, free_text
from cosmic_opt.reporting.numbers import count_text, designs_text
from cosmic_opt.reporting.problems import (
    RuleFinding,
    columns_keys,
    columns_text,
    finding_keys,
    findings_text,
    judge_rules,
    model_keys,
    model_text,
)
from cosmic_opt.reporting.rules import rule_keys, rules_text
from cosmic_opt.search.objective import objective_of

if TYPE_CHECKING:
    from cosmic_opt.analysis.dead_knobs import DeadKnobs


def validate(request: Request) -> int:
    """Check an instance or a model file: names, units, rules, scopes, and the instance's own design."""
    model = _model(request.name)
    if model is not None:
        if request.edits != Edits():
            raise SpecError("a model has no numbers to change", where=Where("NAME"), hint="validate an instance")
        request.output.result("validate", model_keys(model), model_text(model))
        return DONE
    findings = _examine(request.problem)
    request.output.result("validate", _keys(request, findings), _text(request, findings))
    return DONE if request.problem.feasible.size else INFEASIBLE


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "validate", validate)


@dataclass(frozen=True)
class Findings:
    """What was found: each rule judged, the instance's own design if it has one, the rules it breaks, and warnings.

    `knobs` says which free parameters cannot change the objective.
    """

    rules: tuple[RuleFinding, ...]
    baseline: DesignBatch | None
    broken: tuple[Constraint, ...]
    knobs: DeadKnobs
    warnings: tuple[str, ...]


def _model(name: str) -> ModelSpec | None:
    """Return the model that NAME names or holds; None when it is an instance."""
    if name in model_names() and name not in instance_names():
        return load_model(name)
    path = instance_path(name)
    text = read_text(path)
    schema = read_yaml(text, display(path)).value
    if isinstance(schema, dict) and str(schema.get("schema", "")).startswith("cosmic-opt/model@"):
        return read_model(text, display(path))
    return None


def _examine(problem: Problem) -> Findings:
    instance = problem.instance
    objective_of(instance.objective, problem.parameter_set)
    simulated = any(rule.simulated for rule in problem.parameter_set.constraints)
    if simulated:
        from cosmic_opt.search.limits import step_limit  # numba takes a second to load

        step_limit(problem.parameter_set)
    rules = tuple(judge_rules(problem.parameter_set))
    baseline = None if instance.undecided else problem.baseline()
    broken = () if baseline is None else tuple(problem.violations(baseline))
    return Findings(rules, baseline, broken, problem.dead_knobs(), tuple(_warnings(problem, rules)))


def _warnings(problem: Problem, rules: tuple[RuleFinding, ...]) -> list[str]:
    found = []
    if not problem.feasible.size:
        found.append("no design is feasible: 'cosmic-opt count' names the rules that exclude each other")
    if problem.parameter_set.grid_size == 1:
        found.append("nothing is free, so there is one design: choose a --scope, or --free a parameter")
    found += [f"the rule {f.rule.name!r} is never true here: {f.rule.text}" for f in rules if f.keeps == 0]
    idle = problem.cannot_run()
    if idle is not None:
        from cosmic_opt.reporting.runnable import some_cannot_run  # numba takes a second to load

        found.append(some_cannot_run(idle))
    for scope in problem.spec.model.scopes:
        try:
            _ = problem.scope(scope).instance
        except SpecError as error:
            found.append(f"the scope {scope!r} does not fit this instance: {error.message}")
    return found


def _added(problem: Problem) -> Mapping[str, Value]:
    return values_added(problem.spec, problem.parameter_set.columns, problem.parameter_set.data)


def _keys(request: Request, findings: Findings) -> Mapping[str, object]:
    problem = request.problem
    return {
        "kind": "instance",
        "name": problem.instance.name,
        "why": problem.spec.why,
        "model": problem.spec.model.name,
        "workload": str(problem.spec.workload["name"]),
        "system": problem.spec.system.name,
        "scope": problem.instance.scope,
        "objective": problem.instance.objective,
        "feasible_designs": problem.feasible.size,
        "grid_size": problem.parameter_set.grid_size,
        **columns_keys(problem.parameter_set, _added(problem)),
        "rules": [finding_keys(finding) for finding in findings.rules],
        "baseline": None
        if findings.baseline is None
        else {
            "design": next(designs_keys(findings.baseline)),
            "feasible": not findings.broken,
            "violations": [rule_keys(rule) for rule in findings.broken],
        },
        **dead_keys(findings.knobs),
        "warnings": list(findings.warnings),
    }


def _text(request: Request, findings: Findings) -> str:
    problem = request.problem
    parameter_set = problem.parameter_set
    npus = parameter_set.data["npus"]
    about = f"model {problem.spec.model.name}, workload {problem.spec.workload['name']}, {npus:,} NPUs"
    size = f"{designs_text(problem.feasible.size)} of {count_text(parameter_set.grid_size)} in the grid"
    undecided = ", ".join(problem.instance.undecided)
    own = f"the instance has no design of its own to judge: nothing gives {undecided} a value"
    if findings.baseline is not None:
        broken = f"breaks\n{rules_text(findings.broken)}" if findings.broken else "obeys every rule"
        own = f"the instance's own design {broken}"
    parts = [
        f"{request.title}: {problem.spec.why}\n{about}\nobjective: {problem.instance.objective}\n{size}",
        columns_text(parameter_set, _added(problem)),
        f"free: {free_text(parameter_set)}",
        findings_text(findings.rules),
        own,
        dead_text(findings.knobs),
        "\n".join(f"warning: {warning}" for warning in findings.warnings),
    ]
    return "\n\n".join(part for part in parts if part)
