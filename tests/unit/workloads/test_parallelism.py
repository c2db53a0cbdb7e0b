"""Stages: every layer exactly once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.parallelism import (
    Parallelism,
    layers_of_stage,
    stage_layers,
)

factors = st.integers(min_value=1, max_value=48)


@pytest.mark.parametrize(
    ("layers", "pp", "stages"),
    [
        (96, 1, (96,)),
        (96, 8, (12,) * 8),
        (126, 16, (7, *(8,) * 14, 7)),
        (10, 4, (2, 3, 3, 2)),
        (9, 4, (2, 2, 3, 2)),
        (11, 4, (3, 3, 3, 2)),
        (3, 2, (2, 1)),
        (2, 4, (0, 1, 1, 0)),
    ],
)
def test_left_over_layers_go_to_the_middle_then_to_the_first_stage(
    layers: int, pp: int, stages: tuple[int, ...]
) -> None:
    assert stage_layers(layers, pp) == stages


@settings(derandomize=True, deadline=None)
@given(layers=st.integers(0, 300), pp=st.integers(1, 320))
def test_stages_sum_to_the_layers_and_differ_by_at_most_one(layers: int, pp: int) -> None:
    stages = stage_layers(layers, pp)
    assert len(stages) == pp
    assert sum(stages) == layers
    assert max(stages) - min(stages) <= 1
    assert stages[-1] == min(stages)


@settings(derandomize=True, deadline=None)
@given(layers=st.integers(0, 300), pp=st.integers(1, 64))
def test_the_vectorised_closed_form_equals_the_list(layers: int, pp: int) -> None:
    stage = np.arange(pp)
    assert tuple(layers_of_stage(layers, np.full(pp, pp), stage)) == stage_layers(layers, pp)


def test_no_stages_are_refused() -> None:
    with pytest.raises(SpecError, match="0 stages"):
        stage_layers(12, 0)


def test_world_size_is_the_product_of_the_degrees() -> None:
    cut = Parallelism(dp=32, tp=4, pp=1, sp=8)
    assert cut.npus == 1024
    assert cut.degrees == (4, 8, 32, 1)


def test_a_degree_of_zero_is_refused() -> None:
    with pytest.raises(SpecError, match="pp is 0"):
        Parallelism(dp=1, tp=1, pp=0, sp=1)
