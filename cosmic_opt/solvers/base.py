"""What every solver backend takes and gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from cosmic_opt._registry import Registry
from cosmic_opt.errors import EngineDisagreement
from cosmic_opt.ir.check import complete
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective

Codes = NDArray[np.int32]

CP_SAT_RANGE = 2**60
"""CP-SAT refuses (as an invalid model) sums that might leave 62 bits; anything larger than this is not given to it."""

TABLE_ROWS = 100_000
"""Rows of a tabulated simulation that CP-SAT and HiGHS each settle within half a minute (82,000 take 31 s and 21 s)."""


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
    """The answer: `codes` has one row of design codes per point found; `value` and `bound` are of the objective.

    With an objective there is a bound unless the model is INFEASIBLE, and OPTIMAL means that it equals the value.
    """

    status: SolveStatus
    stop: StopReason
    codes: Codes
    value: int | None = None
    bound: int | None = None

    @classmethod
    def infeasible(cls, model: LoweredModel) -> Self:
        """Return the proof that a model has no design."""
        return cls(SolveStatus.INFEASIBLE, StopReason.PROVED, no_designs(model))

    @classmethod
    def out_of_time(cls, model: LoweredModel, bound: int | None = None) -> Self:
        """Return that the time was spent before a design was found."""
        return cls(SolveStatus.UNKNOWN, StopReason.TIME, no_designs(model), None, bound)


def no_designs(model: LoweredModel) -> Codes:
    """Return no row of codes, as wide as a design of the model."""
    return np.zeros((0, model.designs), dtype=np.int32)


class Solver(Protocol):
    """A backend. Every point it returns has been re-checked by its caller with the NumPy checker."""

    name: str
    capabilities: frozenset[Capability]
    table_rows: int
    """More rows of a tabulated simulation are not given to it."""

    def solve(
        self,
        model: LoweredModel,
        objective: LinearObjective | None = None,
        *,
        limits: Limits,
        start: Codes | None = None,
    ) -> SolveResult:
        """Return one feasible (or optimal) design; with a `start` (one feasible row), never a worse one."""

    def enumerate(self, model: LoweredModel, *, limits: Limits) -> Iterator[Codes]:
        """Yield every feasible design once, in batches of codes."""


def objective_values(model: LoweredModel, objective: LinearObjective, designs: Codes) -> NDArray[np.object_]:
    """Return the exact value (a Python integer) of a linear objective for each design."""
    codes, _ = complete(model, designs)
    total = np.full(len(designs), objective.constant, dtype=object)
    for column, weights in zip(objective.columns, objective.weights, strict=True):
        total += np.array(weights, dtype=object)[codes[:, column]]
    return total


def plain_bound(model: LoweredModel, objective: LinearObjective) -> int:
    """Return a value that no design passes: the best weight of each column by itself. No column may be empty."""
    bound = objective.constant
    for column, row in zip(objective.columns, objective.weights, strict=True):
        weights = [row[code] for code in model.allowed[column]]
        bound += max(weights) if objective.maximise else min(weights)
    return bound


def settle(
    result: SolveResult, model: LoweredModel, objective: LinearObjective, start: Codes | None, engine: str
) -> SolveResult:
    """Return the better of a result and the start, with the better of its bound and the plain one, honestly named.

    Raises:
        EngineDisagreement: the start refutes the bound, or that nothing is feasible.
    """
    if result.status is SolveStatus.INFEASIBLE:
        if start is not None:
            raise EngineDisagreement(f"{engine} calls a model infeasible that has the design {start[0].tolist()}")
        return result
    sign = -1 if objective.maximise else 1
    codes, value, bound = result.codes, result.value, plain_bound(model, objective)
    if start is not None:
        own = int(objective_values(model, objective, start)[0])
        if value is None or sign * own < sign * value:
            codes, value = start, own
    if result.bound is not None:
        bound = sign * max(sign * result.bound, sign * bound)
    if value is None:
        return SolveResult(SolveStatus.UNKNOWN, result.stop, codes, None, bound)
    if sign * value < sign * bound:
        raise EngineDisagreement(f"{engine} bounds by {bound} what has the value {value}: {codes[0].tolist()}")
    if value == bound:
        return SolveResult(SolveStatus.OPTIMAL, StopReason.PROVED, codes, value, bound)
    return SolveResult(SolveStatus.FEASIBLE, result.stop, codes, value, bound)


def proved_start(model: LoweredModel, objective: LinearObjective, start: Codes) -> SolveResult | None:
    """Return the start as an optimum where no column allows a better value by itself: nothing is left to solve."""
    value = int(objective_values(model, objective, start)[0])
    if value != plain_bound(model, objective):
        return None
    return SolveResult(SolveStatus.OPTIMAL, StopReason.PROVED, start, value, value)


SOLVERS: Registry[Solver] = Registry("solver")
