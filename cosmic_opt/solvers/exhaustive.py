"""The plainest engine: try every combination of allowed codes. It is the yardstick of the others."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import check
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.base import (
    SOLVERS,
    Capability,
    Codes,
    Limits,
    SolveResult,
    SolveStatus,
    StopReason,
    objective_values,
    settle,
)

GRID_LIMIT = 50_000_000
CHUNK = 1 << 18


class Exhaustive:
    """Enumerates the grid that propagation left, in order of code, and keeps what the checker accepts."""

    name = "exhaustive"
    capabilities = frozenset({Capability.FEASIBILITY, Capability.ENUMERATION, Capability.LINEAR_OBJECTIVE})
    table_rows = 1_000_000

    def solve(
        self,
        model: LoweredModel,
        objective: LinearObjective | None = None,
        *,
        limits: Limits,
        start: Codes | None = None,
    ) -> SolveResult:
        """Return the first feasible design, or the first of the best ones.

        Raises:
            LimitError: the grid has more than 50 million points.
        """
        result = self._solve(model, objective, limits)
        return result if objective is None else settle(result, model, objective, start, self.name)

    @staticmethod
    def _solve(model: LoweredModel, objective: LinearObjective | None, limits: Limits) -> SolveResult:
        best: tuple[int, Codes] | None = None
        stop = StopReason.PROVED
        for codes in _feasible_chunks(model):
            if len(codes) and objective is None:
                return SolveResult(SolveStatus.FEASIBLE, StopReason.PROVED, codes[:1])
            if len(codes) and objective is not None:
                best = _better(best, model, objective, codes)
            if limits.out_of_time():
                stop = StopReason.TIME
                break
        if best is None:
            proved = stop is StopReason.PROVED
            return SolveResult.infeasible(model) if proved else SolveResult.out_of_time(model)
        if stop is StopReason.TIME:
            return SolveResult(SolveStatus.FEASIBLE, stop, best[1], best[0])
        return SolveResult(SolveStatus.OPTIMAL, stop, best[1], best[0], best[0])

    def enumerate(self, model: LoweredModel, *, limits: Limits) -> Iterator[Codes]:
        """Yield every feasible design in order of code.

        Raises:
            LimitError: the grid has more than 50 million points, or the time is spent.
        """
        found = 0
        for codes in _feasible_chunks(model):
            if limits.solutions is not None:
                codes = codes[: limits.solutions - found]
            found += len(codes)
            if len(codes):
                yield codes
            if limits.solutions is not None and found >= limits.solutions:
                return
            if limits.out_of_time():
                raise LimitError("out of time before every design was listed", hint="give more time, or a rule")


def _feasible_chunks(model: LoweredModel) -> Iterator[Codes]:
    """Yield the feasible designs of each stretch of the grid, possibly none, in order of code."""
    allowed = model.allowed[: model.designs]
    sizes = [len(codes) for codes in allowed]
    grid = math.prod(sizes)
    if grid > GRID_LIMIT:
        raise LimitError(f"a grid of {grid:,} points is too large to try one by one", hint="use another solver")
    for start in range(0, grid, CHUNK):
        ranks = np.arange(start, min(grid, start + CHUNK))
        positions = np.unravel_index(ranks, sizes)
        codes = np.column_stack([allowed[c][positions[c]] for c in range(model.designs)]).astype(np.int32)
        yield codes[check(model, codes)]


def _better(
    best: tuple[int, Codes] | None, model: LoweredModel, objective: LinearObjective, codes: Codes
) -> tuple[int, Codes]:
    """Return the best value so far and its design; among equals the first."""
    values = objective_values(model, objective, codes)
    at = int(np.argmax(values) if objective.maximise else np.argmin(values))
    value = int(values[at])
    if best is None or (value > best[0] if objective.maximise else value < best[0]):
        return value, codes[at : at + 1]
    return best


SOLVERS.register("exhaustive")(Exhaustive())
