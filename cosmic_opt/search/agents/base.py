"""The seam of agents: ask for designs, tell their scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt._registry import Registry
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.feasible_space import FeasibleSpace


class Agent(Protocol):
    """Proposes feasible designs only; the lower a score, the better."""

    def ask(self, count: int) -> DesignBatch:
        """Return `count` designs to score."""

    def tell(self, batch: DesignBatch, scores: NDArray[np.float64]) -> None:
        """Learn the scores of designs that `ask` returned."""


AGENTS: Registry[Callable[[FeasibleSpace, np.random.Generator], Agent]] = Registry("agent")
