"""Shapes against published parameter counts and Narayanan's closed forms."""

from dataclasses import replace

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.workloads.shapes import (
    ALL,
    GPT3_175B,
    LLAMA3_8B,
    LLAMA3_70B,
    LLAMA3_405B,
    VIT_BASE,
    VIT_LARGE,
)


@pytest.mark.parametrize(
    ("workload", "published"),
    [
        (LLAMA3_8B, 8_030_261_248),
        (LLAMA3_70B, 70_553_706_496),
        (LLAMA3_405B, 405_853_388_800),
        (VIT_BASE, 86_567_656),
        (VIT_LARGE, 304_326_632),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_parameters_equal_the_published_checkpoint(workload: Transformer, published: int) -> None:
    assert workload.parameters() == published


def test_gpt3_has_174_6_billion_parameters() -> None:
    assert GPT3_175B.parameters() == pytest.approx(174.6e9, rel=0.005)


def test_a_gpt_layer_has_12_h_squared_plus_13_h_parameters() -> None:
    h = GPT3_175B.hidden
    assert GPT3_175B.layer_parameters == 12 * h**2 + 13 * h


def test_gpt_parameters_follow_narayanan_2021_equation_2() -> None:
    layers, h, v, s = 96, 12288, 50257, 2048
    equation = 12 * layers * h**2 + 13 * layers * h + (v + s) * h
    assert GPT3_175B.parameters() == equation + 2 * h  # the equation leaves out the final norm


def test_grouped_queries_shrink_keys_and_values_only() -> None:
    full = replace(LLAMA3_8B, kv_heads=32)
    assert full.layer_parameters - LLAMA3_8B.layer_parameters == 2 * 4096 * (4096 - 1024)


@pytest.mark.parametrize("batch", [1, 1536])
def test_training_flops_follow_narayanan_2021_equation_3(batch: int) -> None:
    layers, h, s, v = 96, 12288, 2048, 50257
    core, attention, head = (
        72 * batch * s * layers * h**2,
        12 * batch * s**2 * layers * h,
        6 * batch * s * h * v,
    )
    assert GPT3_175B.training_flops(batch, s) == core + attention + head
    assert GPT3_175B.training_flops(batch, s, "full") == 4 * (core + attention) // 3 + head


def test_selective_recompute_runs_only_the_attention_core_again() -> None:
    layers, h, s = 96, 12288, 2048
    extra = GPT3_175B.training_flops(1, s, "selective") - GPT3_175B.training_flops(1, s)
    assert extra == 4 * s**2 * h * layers


def test_an_image_head_predicts_once_a_sequence() -> None:
    patches = 2 * 197 * 16 * 16 * 3 * 768
    assert VIT_BASE.head_flops(10, 197) == 10 * (patches + 2 * 768 * 1000)


def test_tying_the_embedding_saves_one_table() -> None:
    untied = replace(GPT3_175B, tied_embeddings=False)
    assert untied.parameters() - GPT3_175B.parameters() == 50257 * 12288


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.name)
def test_parts_sum_to_the_whole(workload: Transformer) -> None:
    stack = workload.layers * workload.layer_parameters
    assert workload.parameters() == stack + workload.embedding_parameters + workload.head_parameters


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"layers": 0}, "layers"),
        ({"kv_heads": 7}, "kv_heads"),
        ({"norm": "layer_norm"}, "norm"),
        ({"biases": frozenset({"qvk"})}, "biases"),
        ({"positions": 1024}, "positions"),
        ({"vocabulary": 0}, "vocabulary"),
        ({"patch_size": 16}, "vocabulary"),
        ({"channels": -1}, None),
    ],
)
def test_a_shape_without_meaning_is_refused_at_its_field(change: dict[str, object], key: str | None) -> None:
    with pytest.raises(SpecError) as refused:
        replace(GPT3_175B, **change)  # type: ignore[arg-type]
    assert refused.value.where is not None
    assert refused.value.where.key == key
    assert refused.value.hint


def test_an_image_model_cannot_tie_its_embeddings() -> None:
    with pytest.raises(SpecError, match="tie"):
        replace(VIT_BASE, tied_embeddings=True)
