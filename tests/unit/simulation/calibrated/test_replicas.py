"""Replicas that are alike: each kind once, however large its numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.replicas import Replicas
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns


@pytest.mark.parametrize("scale", [1, 10**12])
def test_designs_that_differ_in_the_number_of_replicas_have_one_kind(scale: int) -> None:
    """Products of degrees beyond 2^62 are no key, and are told apart all the same."""
    batch = [scale, 2 * scale, scale, scale]
    designs = ServingDesigns.of(tp=[2 * scale, 1, 2 * scale, 1], pp=scale, dp=[1, 2, 3, 4], batch=batch)
    replicas = Replicas.of(designs)
    kinds = replicas.kinds
    assert len(kinds.tp) == 3
    assert set(kinds.dp) == {1}
    for column, given in ((kinds.tp, designs.tp), (kinds.pp, designs.pp), (kinds.batch, designs.batch)):
        np.testing.assert_array_equal(replicas.spread(column), given)


def test_terms_of_a_kind_are_those_of_each_of_its_designs() -> None:
    replicas = Replicas.of(ServingDesigns.of(dp=[1, 2, 1], batch=[8, 8, 4]))
    found = replicas.spread_terms({"step": replicas.kinds.batch / 4, "host": np.array([7.0])})
    assert found["step"].tolist() == [2, 2, 1]
    assert found["host"].tolist() == [7, 7, 7]
