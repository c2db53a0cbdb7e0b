"""Shapes of language models, against published parameter counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.language_model import (
    Experts,
    LanguageModel,
    LatentAttention,
    language_model,
    training_flops,
)
from tests.unit.workloads.shapes import GPT3_175B, VIT_BASE

LLAMA_405B = LanguageModel(
    name="llama3-405b", layers=126, hidden=16384, heads=128, kv_heads=8, head_dim=128, ffn=53248, vocabulary=128256
)
DEEPSEEK_V3 = LanguageModel(
    name="deepseek-v3",
    layers=61,
    hidden=7168,
    heads=128,
    kv_heads=128,
    head_dim=128,
    ffn=0,
    vocabulary=129280,
    latent=LatentAttention(),
    experts=Experts(count=256, top_k=8, ffn=2048, shared=1, dense_layers=3, dense_ffn=18432),
)


def test_llama_405b_has_405_billion_weights() -> None:
    assert LLAMA_405B.parameters() == pytest.approx(405.8e9, rel=1e-3)


def test_deepseek_v3_has_671_billion_weights() -> None:
    assert DEEPSEEK_V3.parameters() == pytest.approx(671e9, rel=2e-3)


def test_the_module_of_multi_token_prediction_has_11_5_billion_weights_of_its_own() -> None:
    """README_WEIGHTS.md of the published model: 11.5B besides the shared embedding and head; it is not served."""
    trained = replace(DEEPSEEK_V3, mtp_layers=1)
    assert trained.trained_parameters() - DEEPSEEK_V3.parameters() == pytest.approx(11.5e9, rel=2e-2)
    assert trained.parameters() == DEEPSEEK_V3.parameters()
    assert trained.joining_matmul.parameters == 2 * 7168**2


def test_multi_token_prediction_counts_a_layer_a_joining_map_and_the_head_once_more() -> None:
    plain, trained = (replace(DEEPSEEK_V3, mtp_layers=count) for count in (0, 2))
    tokens = 4 * 4096
    longer = replace(plain, layers=63)
    layers = training_flops(longer, 4, 4096, 3) - training_flops(plain, 4, 4096, 3)
    joins, heads = 3 * 2 * tokens * 2 * 7168**2, 3 * 2 * tokens * 129280 * 7168
    assert training_flops(trained, 4, 4096, 3) == training_flops(plain, 4, 4096, 3) + layers + 2 * (joins + heads)


@pytest.mark.parametrize(
    "build", [lambda: replace(DEEPSEEK_V3, mtp_layers=-1), lambda: replace(VIT_BASE, mtp_layers=1)]
)
def test_layers_that_predict_nothing_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(SpecError, match="mtp_layers is"):
        build()


def test_latent_attention_is_a_chain_of_five_maps() -> None:
    names = [matmul.name for matmul in DEEPSEEK_V3.attention_matmuls]
    assert names == ["query_down", "query_up", "kv_down", "kv_up", "out"]
    assert DEEPSEEK_V3.score_width == 128 * 192
    assert DEEPSEEK_V3.value_width == 128 * 128
    assert DEEPSEEK_V3.kv_width == 128 * (192 + 128)


def test_grouped_queries_narrow_the_qkv_map() -> None:
    qkv, out = LLAMA_405B.attention_matmuls
    assert qkv.parameters == 16384 * (16384 + 2 * 1024)
    assert out.parameters == 16384**2


def test_a_dense_model_has_no_expert_weights() -> None:
    assert LLAMA_405B.expert_parameters == 0
    assert LLAMA_405B.dense_mlp_parameters == 3 * 16384 * 53248


def test_a_declared_transformer_keeps_its_matrices() -> None:
    model = language_model(GPT3_175B)
    matrices = model.attention_parameters + model.dense_mlp_parameters
    assert matrices == GPT3_175B.layer_matrix_parameters


def test_an_image_model_is_refused() -> None:
    with pytest.raises(SpecError, match="image model"):
        language_model(VIT_BASE)


@pytest.mark.parametrize("field", ["layers", "hidden", "heads", "vocabulary"])
def test_a_size_below_one_is_refused(field: str) -> None:
    sizes = {"layers": 1, "hidden": 8, "heads": 2, "kv_heads": 2, "head_dim": 4, "ffn": 32, "vocabulary": 64}
    with pytest.raises(SpecError, match=f"{field} is 0"):
        LanguageModel(name="small", **(sizes | {field: 0}))


def test_neither_mlp_nor_experts_is_refused() -> None:
    with pytest.raises(SpecError, match="neither"):
        LanguageModel(name="small", layers=1, hidden=8, heads=2, kv_heads=2, head_dim=4, ffn=0, vocabulary=64)


def test_more_experts_per_token_than_there_are_is_refused() -> None:
    with pytest.raises(SpecError, match="top_k 9 of 8"):
        Experts(count=8, top_k=9, ffn=16)


def test_a_clamped_gate_needs_a_gate() -> None:
    with pytest.raises(SpecError, match="clamped gate without a gate") as caught:
        replace(GPT3_175B, clamped_gate=True)
    assert caught.value.where is not None
    assert caught.value.where.key == "clamped_gate"
    assert language_model(replace(GPT3_175B, gated_mlp=True, clamped_gate=True)).clamped_gate
