"""Among designs of equal value, the one with the least code: the same answer whichever backend found the value."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cosmic_opt.errors import Where
from cosmic_opt.ir.model import Linear, LoweredModel, Origin
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.solvers.base import Codes, Limits, Solver, SolveStatus


class Tied(NamedTuple):
    """A design (one row) and whether it is proved that none of equal value has less code."""

    design: Codes
    least: bool


def least_code(
    solver: Solver, model: LoweredModel, objective: LinearObjective, value: int, design: Codes, *, limits: Limits
) -> Tied:
    """Return the design of least code whose objective is `value`; `design` (one row) is any such design.

    Column by column, in order: the smallest code that some design of that value still has. When the time ends first
    the columns not yet decided stay as they were found, and the answer says so.
    """
    target = value - objective.constant
    origin = Origin("objective", "objective == value", Where())
    equal = Linear(objective.columns, objective.weights, target, target, origin)
    tied = propagate(replace(model, constraints=(*model.constraints, equal)))
    for column in range(model.designs):
        for code in tied.allowed[column]:
            if code == design[0, column]:
                break
            trial = _fix(tied, column, int(code))
            if trial.infeasible:
                continue
            result = solver.solve(trial, limits=limits)
            if result.status is SolveStatus.UNKNOWN:
                return Tied(design, least=False)
            if len(result.codes):
                design = result.codes
                break
        tied = _fix(tied, column, int(design[0, column]))
    return Tied(design, least=True)


def _fix(model: LoweredModel, column: int, code: int) -> LoweredModel:
    allowed = list(model.allowed)
    allowed[column] = np.array([code], dtype=np.int32)
    return propagate(replace(model, allowed=tuple(allowed)))
