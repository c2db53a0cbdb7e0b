"""What every solver backend takes and gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt._registry import Registry
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective

Codes = NDArray[np.int32]

CP_SAT_RANGE = 2**60
"""CP-SAT refuses (as an invalid model) sums that might leave 62 bits; anything larger than this is not given to it."""


class Capability(Enum):
    """What a backend can do."""

    FEASIBILITY = "feasibility"
    ENUMERATION = "enumeration"
    LINEAR_OBJECTIVE = "linear objective"


class SolveStatus(Enum):
    """What came back."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(Enum):
    """Why a backend stopped."""

    PROVED = "proved"
    TIME = "time limit"
    COUNT = "count limit"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: seconds of wall time, or a number of solutions; None is no limit. The clock starts when made."""

    seconds: float | None = None
    solutions: int | None = None
    started: float = field(default_factory=time.perf_counter, compare=False)

    def remaining_s(self) -> float | None:
        """Return the seconds left, at least 0; None is no limit."""
        if self.seconds is None:
            return None
        return max(0.0, self.seconds - (time.perf_counter() - self.started))

    def out_of_time(self) -> bool:
        """Tell whether the wall time is spent."""
        return self.remaining_s() == 0.0


@dataclass(frozen=True, slots=True)
class SolveResult:
    """The answer: `codes` has one row of design codes per point found; `value` and `bound` are of the objective."""

    status: SolveStatus
    stop: StopReason
    codes: Codes
    value: int | None = None
    bound: int | None = None


class Solver(Protocol):
    """A backend. Every point it returns has been re-checked by its caller with the NumPy checker."""

    name: str
    capabilities: frozenset[Capability]

    def solve(self, model: LoweredModel, objective: LinearObjective | None = None, *, limits: Limits) -> SolveResult:
        """Return one feasible (or optimal) design."""

    def enumerate(self, model: LoweredModel, *, limits: Limits) -> Iterator[Codes]:
        """Yield every feasible design once, in batches of codes."""


def objective_values(model: LoweredModel, objective: LinearObjective, designs: Codes) -> NDArray[np.object_]:
    """Return the exact value (a Python integer) of a linear objective for each design."""
    codes, _ = complete(model, designs)
    total = np.full(len(designs), objective.constant, dtype=object)
    for column, weights in zip(objective.columns, objective.weights, strict=True):
        total += np.array(weights, dtype=object)[codes[:, column]]
    return total


SOLVERS: Registry[Solver] = Registry("solver")
