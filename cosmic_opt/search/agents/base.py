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

    Scores are positive. Agents on one space may be told what others asked for, so that all go on from the best.
    """

    ask_size: int
    """How many designs it is best asked for at a time."""

    def ask(self, count: int) -> DesignBatch:
        """Return `count` designs to score."""

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Learn the scores of members: the batch that `ask` returned last, as it was, or designs from elsewhere."""


AgentFactory = Callable[[FeasibleSpace, np.random.Generator], Agent]

AGENTS: Registry[AgentFactory] = Registry("agent")
