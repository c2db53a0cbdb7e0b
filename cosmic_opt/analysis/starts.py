"""A feasible design for a solver to begin with: the best of a uniform sample and of the designs that are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cosmic_opt.analysis.violations import violations
from cosmic_opt.errors import LimitError, SpecError, Where, nearest
from cosmic_opt.feasibility.compile import CompileLimit
from cosmic_opt.feasibility.feasible_set import some_designs
from cosmic_opt.ir.check import check
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Column, ParameterSet
from cosmic_opt.solvers.base import Codes, objective_values

START = Where("--start")
SHOWN = 30
"""Values of a domain that a refusal names."""
SAMPLES = 4096
"""Designs tried: a tenth of a second on COSMIC's full stack, diagram included."""


DIAGRAM = CompileLimit(arcs=1 << 20, size_bytes=1 << 28)
"""How far the diagram of a sample may grow: two seconds. That of every shipped instance stays within."""
WIDTH = 1 << 12
"""States of each layer where it grows further."""


def refuse_foreign(own: ParameterSet, wide: ParameterSet, designs: Iterable[Mapping[str, Value]]) -> None:
    """Refuse what is no design of a model; `own` is a problem of it, and `wide` the same with every parameter free.

    Raises:
        SpecError: a name that the model does not have, a column without a value, or a value outside both domains.
    """
    for values in designs:
        for name in values.keys() - wide.positions.keys():
            raise SpecError(f"unknown parameter {name!r}", where=START, hint=nearest(name, wide.positions))
        for column in wide.columns:
            if column.name not in values:
                raise SpecError(f"nothing gives {column.name!r} a value", where=START, hint="add it to the design")
            value = values[column.name]
            if not (_is_one_of(column, value) or _is_one_of(own.column(column.name), value)):
                shown = ", ".join(column.show(known) for known in column.values[:SHOWN])
                hint = f"allowed: {shown}{', ...' if len(column.values) > SHOWN else ''}"
                what = f"{value!r} is not in the domain of {column.name!r}"
                raise SpecError(what, where=START, hint=hint)


def _is_one_of(column: Column, value: object) -> bool:
    return isinstance(value, int | str | np.integer) and value in column.codes


def why_passed_over(parameter_set: ParameterSet, values: Mapping[str, Value]) -> str | None:
    """Return why a design of the model is none of this problem; None where it is one, as far as no simulator tells."""
    for column in parameter_set.columns:
        if values[column.name] not in column.codes:
            return f"{column.name} = {column.show(values[column.name])} is not free here"
    broken = {violation.constraint: violation.rule for violation in violations(parameter_set, values)}
    return "; ".join(f"it breaks the rule {name}: {rule}" for name, rule in broken.items()) or None


def codes_of(parameter_set: ParameterSet, designs: Iterable[Mapping[str, Value]]) -> Codes:
    """Return the codes of those designs (a value per column, base units) whose values all lie in their domains."""
    columns = parameter_set.columns
    known = [values for values in designs if all(values.get(column.name) in column.codes for column in columns)]
    codes = [[column.codes[values[column.name]] for column in columns] for values in known]
    return np.array(codes, dtype=np.int32).reshape(-1, len(columns))


def sampled(structural: LoweredModel, seed: int) -> Codes:
    """Return a sample of the designs of a model, uniform but where its diagram outgrows `DIAGRAM`.

    There the sample is of a narrower diagram, which may hold none; nor are there any where numbers are too large for
    both.
    """
    try:
        return some_designs(structural, DIAGRAM, WIDTH).sample(SAMPLES, np.random.default_rng(seed))
    except LimitError:
        return np.zeros((0, structural.designs), dtype=np.int32)


def best_start(model: LoweredModel, objective: LinearObjective, candidates: Codes) -> Codes | None:
    """Return the best of the candidates that the model allows, as one row; None if it allows none."""
    codes = candidates[check(model, candidates)]
    if not len(codes):
        return None
    values = objective_values(model, objective, codes)
    best = int(np.argmax(values) if objective.maximise else np.argmin(values))
    return codes[best : best + 1]
