"""What a front without points says: a limit that came before any look says nothing of designs."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.reporting.fronts import front_text
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.pareto import ParetoFront


@pytest.mark.parametrize(
    ("stop", "scored", "closed", "said"),
    [
        (Stop.PROVED, 10, 0, "no feasible design, proved"),
        (Stop.TIME, 0, 0, "no design was scored before the limit: time limit"),
        (Stop.TIME, 4096, 0, "no feasible design among the 4,096 scored before the limit: time limit"),
        (Stop.TIME, None, 0, "no region was closed before the limit: time limit"),
        (Stop.TIME, None, 7, "no feasible design in the 7 regions closed before the limit: time limit"),
    ],
)
def test_a_front_without_points_says_how_far_the_search_looked(
    stop: Stop, scored: int | None, closed: int, said: str
) -> None:
    parameter_set = Problem.load("llama3-8b/h100-8").parameter_set
    none = np.zeros((0, 1), dtype=np.int64)
    empty = parameter_set.batch(np.zeros((0, len(parameter_set.columns)), dtype=np.int32))
    front = ParetoFront((), empty, none[:, 0], none, 10, 0, closed, 0, stop, designs_scored=scored)
    assert front_text("title", front) == f"title\n{said}"
