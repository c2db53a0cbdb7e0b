"""Rows are predicted only for jobs that a framework runs; the rules are those of the shipped models."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.validation.row_checks import check_context, check_slots
from cosmic_opt.analysis.validation.training_rows import read_model
from cosmic_opt.errors import SpecError
from tests.unit.analysis.validation.test_training import ROW


def test_context_groups_cut_sequences_in_twice_as_many_pieces_as_ranks() -> None:
    for sequence, cp in ((7, 1), (16, 8), (8208, 8), (6, 3), (131072, 64)):
        check_context(sequence, cp)


@given(layers=st.integers(1, 130), pp=st.integers(1, 64), interleave=st.integers(1, 24))
@settings(derandomize=True, deadline=None)
def test_stages_are_those_that_the_model_of_megatron_allows(layers: int, pp: int, interleave: int) -> None:
    """The rules `stages` and `more_layers` of `models/megatron.yaml`, and no stage without a layer."""
    allowed = (layers + 3) % (pp * interleave) <= 3 and pp * interleave <= layers + 3 and pp <= layers
    model = read_model(ROW | {"dims": ROW["dims"] | {"layers": layers}})
    with nullcontext() if allowed else pytest.raises(SpecError, match="empty"):
        check_slots(model, pp, interleave)
