"""Rows are predicted only for jobs that a framework runs; the rules are those of the shipped models."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.validation.row_checks import check_context, check_slots, check_tensor, uneven_parts
from cosmic_opt.analysis.validation.training_rows import read_model
from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.language_model import LanguageModel
from tests.unit.analysis.validation.test_training import ROW


def model(**dims: object) -> LanguageModel:
    return read_model(ROW | {"dims": ROW["dims"] | dims})


def test_key_heads_are_split_evenly_or_each_is_copied_equally_often() -> None:
    """Its rule `whole_kv_heads`: `kv_heads % tp == 0 or tp % kv_heads == 0`."""
    for kv_heads, tp in ((8, 4), (8, 16), (12, 6), (12, 24), (1, 48)):
        check_tensor(model(heads=48, kv_heads=kv_heads, ffn=48), tp)
    for kv_heads, tp in ((12, 8), (8, 12), (6, 16)):
        assert uneven_parts(model(heads=48, kv_heads=kv_heads, ffn=48), tp) == {"kv_heads": kv_heads}


def test_one_compressed_vector_of_keys_belongs_to_all_heads() -> None:
    latent = model(heads=48, kv_heads=12, ffn=48, attention="MLA")
    assert uneven_parts(latent, 8) == {}


def test_routed_experts_may_be_whole_or_split() -> None:
    mixture = model(experts=8, top_k=2, moe_ffn=7, ffn=7)
    assert uneven_parts(mixture, 4) == {}
    assert uneven_parts(mixture, 4, splits_experts=True) == {"columns of an expert": 7}
    shared = model(experts=8, top_k=2, moe_ffn=7, shared_experts=2)
    assert uneven_parts(shared, 2) == {}
    assert uneven_parts(shared, 4) == {"columns of shared experts": 14}


def test_context_groups_cut_sequences_in_twice_as_many_pieces_as_ranks() -> None:
    for sequence, cp in ((7, 1), (16, 8), (8208, 8), (6, 3), (131072, 64)):
        check_context(sequence, cp)


@given(layers=st.integers(1, 130), pp=st.integers(1, 64), interleave=st.integers(1, 24))
@settings(derandomize=True, deadline=None)
def test_stages_are_those_that_the_model_of_megatron_allows(layers: int, pp: int, interleave: int) -> None:
    """The rules `stages` and `more_layers` of `models/megatron.yaml`, and no stage without a layer."""
    allowed = (layers + 3) % (pp * interleave) <= 3 and pp * interleave <= layers + 3 and pp <= layers
    with nullcontext() if allowed else pytest.raises(SpecError, match="empty"):
        check_slots(model(layers=layers), pp, interleave)
