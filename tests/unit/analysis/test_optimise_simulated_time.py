"""The table of a simulated objective, and the time it may take to fill."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosmic_opt.analysis import simulated_table
from cosmic_opt.analysis.simulated_table import simulated_table as build_table
from cosmic_opt.errors import LimitError
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.budget import Budget
from cosmic_opt.solvers.base import SolveStatus, StopReason
from tests.unit.analysis.test_optimise_simulated import BANDWIDTHS, SERVING


def test_a_table_filled_block_by_block_is_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_table(BANDWIDTHS.instance, BANDWIDTHS.model, "step_time")
    monkeypatch.setattr(simulated_table, "BLOCK", 7)
    parts = build_table(BANDWIDTHS.instance, BANDWIDTHS.model, "step_time")
    assert len(whole) > 7
    assert np.array_equal(whole.designs, parts.designs)
    assert np.array_equal(whole.times["step_time"], parts.times["step_time"])


def test_a_table_that_is_not_full_in_time_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[int] = []
    plain = simulated_table.simulate

    def noted(instance: Any, names: Any, designs: DesignBatch) -> Any:
        filled.append(len(designs))
        return plain(instance, names, designs)

    monkeypatch.setattr(simulated_table, "BLOCK", 7)
    monkeypatch.setattr(simulated_table, "simulate", noted)
    monkeypatch.setattr(Budget, "out_of_time", lambda _: len(filled) == 2)
    optimum = BANDWIDTHS.optimise("step_time", time_limit_s=3600.0)
    assert filled == [7, 7]
    assert (optimum.status, optimum.stop) == (SolveStatus.UNKNOWN, StopReason.TIME)
    assert (optimum.value, optimum.bound, optimum.gap, optimum.solver, len(optimum.design)) == (*[None] * 4, 0)


def test_without_time_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_table, "simulate", lambda *_: pytest.fail("simulated"))
    for expression, problem in (("step_time", BANDWIDTHS), ("network_cost", BANDWIDTHS.require("step_time >= 0 s"))):
        optimum = problem.optimise(expression, time_limit_s=1e-9)
        assert (optimum.expression, optimum.status) == (expression, SolveStatus.UNKNOWN)


def test_a_table_too_large_is_refused_before_it_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_table, "simulate", lambda *_: pytest.fail("simulated"))
    with pytest.raises(LimitError, match="up to 1,000,000 are simulated"):
        SERVING.set(npus=50_000).optimise("first_token_time")
