"""The seam of agents: ask for designs, tell their scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt._registry import Registry
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.feasible_space import FeasibleSpace

Scores = NDArray[np.float64]


class Agent(Protocol):
    """Proposes members of its space only. The lower a score, the better; infinity is a design that does not count.

    Scores are positive. Every `ask` is answered by one `tell` with the same batch.
    """

    ask_size: int
    """How many designs it is best asked for at a time."""

    def ask(self, count: int) -> DesignBatch:
        """Return `count` designs to score."""

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Learn the scores of designs that `ask` returned."""


AgentFactory = Callable[[FeasibleSpace, np.random.Generator], Agent]

AGENTS: Registry[AgentFactory] = Registry("agent")
