"""A feasible design for a solver to begin with: the best of a uniform sample and of the designs that are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import check
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.solvers.base import Codes, objective_values

SAMPLES = 4096
"""Uniform designs tried: a tenth of a second on COSMIC's full stack, diagram included."""


def codes_of(parameter_set: ParameterSet, designs: Iterable[Mapping[str, Value]]) -> Codes:
    """Return the codes of those designs (a value per column, base units) whose values all lie in their domains."""
    columns = parameter_set.columns
    known = [values for values in designs if all(values.get(column.name) in column.codes for column in columns)]
    codes = [[column.codes[values[column.name]] for column in columns] for values in known]
    return np.array(codes, dtype=np.int32).reshape(-1, len(columns))


def sampled(structural: LoweredModel, seed: int) -> Codes:
    """Return a uniform sample of the designs of a model; none where its rules are too entangled for a diagram."""
    try:
        return feasible_set(structural).sample(SAMPLES, np.random.default_rng(seed))
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
