"""Experts and latent attention as workload files give them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.workloads.language_model import language_model
from cosmic_opt.workloads.transformer import from_mapping

MIXTRAL: dict[str, Any] = {
    "name": "mixtral",
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 8,
    "sequence": 4096,
    "vocabulary": 32000,
    "gated_mlp": True,
    "biases": [],
    "experts": {"count": 8, "top_k": 2, "ffn": 14336},
}


def test_mixtral_has_its_published_number_of_parameters() -> None:
    assert language_model(from_mapping(MIXTRAL, Where("file"))).parameters() / 1e9 == pytest.approx(46.7, abs=0.05)


def test_deepseek_v3_has_its_published_number_of_parameters() -> None:
    from cosmic_opt.api import Problem

    own = Problem.load("deepseek-v3/h100-1024").instance.calibrated
    assert own is not None
    assert own.model.parameters() / 1e9 == pytest.approx(671, abs=1)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("mixtral-8x22b/h100-128", 140.6), ("qwen3-235b-a22b/h100-256", 235), ("qwen3-30b-a3b/h100-16", 30.5)],
)
def test_other_mixtures_have_their_published_number_of_parameters(name: str, billions: float) -> None:
    from cosmic_opt.api import Problem

    own = Problem.load(name).instance.calibrated
    assert own is not None
    assert own.model.parameters() / 1e9 == pytest.approx(billions, rel=0.002)


@pytest.mark.parametrize(
    ("experts", "message", "key"),
    [
        (3, "is not a mapping", "experts"),
        ({"count": 8, "top_k": 2}, "needs ffn", "experts"),
        ({"count": 8, "top_k": 9, "ffn": 1}, "top_k 9 of 8", "experts"),
        ({"count": 8, "top_k": 2, "ffn": 0}, "ffn is 0", "experts.ffn"),
        ({"count": 8, "top_k": 2, "ffn": 1.5}, "not a whole number", "experts.ffn"),
        ({"count": 8, "top_k": 2, "ffn": 8, "share": 1}, "unknown key 'share'", "experts.share"),
        ({"count": 8, "top_k": 2, "ffn": 8, "nodes": 4}, "unknown key 'nodes'", "experts.nodes"),
        ({"count": 8, "top_k": 2, "ffn": 8, "groups": 4}, "group_top_k 0 of 4 groups", "experts"),
        ({"count": 8, "top_k": 2, "ffn": 8, "group_top_k": 4}, "group_top_k 4 of 0 groups", "experts"),
        ({"count": 8, "top_k": 2, "ffn": 8, "groups": 4, "group_top_k": 5}, "group_top_k 5 of 4 groups", "experts"),
        ({"count": 8, "top_k": 2, "ffn": 8, "groups": 3, "group_top_k": 1}, "8 experts in 3 groups", "experts"),
        ({"count": 8, "top_k": 3, "ffn": 8, "groups": 4, "group_top_k": 1}, "top_k 3 from 1 groups of 2", "experts"),
        ({"count": 8, "top_k": 2, "ffn": 8, "dense_layers": 2}, "of no width", "experts"),
        (
            {"count": 8, "top_k": 2, "ffn": 8, "dense_layers": 32, "dense_ffn": 8},
            "32 dense layers",
            "experts.dense_layers",
        ),
    ],
)
def test_experts_that_make_no_sense_are_refused(experts: object, message: str, key: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        from_mapping({**MIXTRAL, "experts": experts}, Where("file"))
    assert caught.value.where is not None
    assert caught.value.where.key == key


def test_a_mixture_with_another_mlp_is_refused() -> None:
    with pytest.raises(SpecError, match="no other MLP"):
        from_mapping({**MIXTRAL, "ffn": 100}, Where("file"))
