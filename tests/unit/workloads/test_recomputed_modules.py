"""What single modules of a layer write, and what a device does not keep where they run again; by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cosmic_opt.workloads.footprint import footprint, layer_activation_bytes
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.recomputed_modules import module_widths
from cosmic_opt.workloads.training_designs import Recompute, TrainingDesigns, named_recompute
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, DEEPSEEK_MTP, LLAMA_8B, QWEN_30B, setup

MLA_BYTES = 2 * (128 * 192 + 128 * 192 + 128 * 128)
"""Queries, keys and values of 128 heads in 16 bits."""


def dropped(model: LanguageModel, operand_bytes: float = 2.0, *, split: bool = False, **columns: int) -> float:
    """Return the bytes per token of a micro-batch that a device keeps less of where modules run again."""
    job = setup(model, sequence_parallel=split)
    none, modules = (
        footprint(job, TrainingDesigns.of(**columns, recompute=again(name)), operand_bytes).layers_bytes
        for name in ("none", "modules")
    )
    return float((none - modules)[0]) / job.sequence


def again(name: str) -> Recompute:
    return named_recompute(np.array(name), "attention")


def test_megatrons_names_are_those_of_the_modules_a_model_has() -> None:
    assert module_widths(DEEPSEEK).names == ("layernorm", "moe_act", "mla_up_proj")
    assert module_widths(QWEN_30B).names == ("layernorm", "moe_act")
    assert module_widths(LLAMA_8B).names == ()


def test_a_mixture_drops_the_norm_in_front_of_its_experts_and_their_activation() -> None:
    """One norm of 2,048; 8 experts of 768: 2 bytes each, in 48 layers."""
    assert dropped(QWEN_30B) == 48 * 2 * (2048 + 8 * 768)


def test_latent_attention_drops_its_norm_queries_keys_and_values_too() -> None:
    """3 dense layers have no norm of their own in front of the MLP, which Transformer Engine fuses, and no experts."""
    mixture = 2 * 2 * 7168 + 2 * 8 * 2048 + MLA_BYTES
    assert dropped(DEEPSEEK) == 58 * mixture + 3 * (2 * 7168 + MLA_BYTES)
    assert mixture / 577_536 == pytest.approx(1 / 3, rel=1e-3)
    kept = layer_activation_bytes(setup(DEEPSEEK), TrainingDesigns.of())
    assert float(kept[0]) == 4096 * 577_536


def test_the_layer_ahead_runs_its_modules_again_like_any_other() -> None:
    mixture = 2 * 2 * 7168 + 2 * 8 * 2048 + MLA_BYTES
    assert dropped(DEEPSEEK_MTP) - dropped(DEEPSEEK) == mixture


def test_operands_that_are_kept_cast_drop_a_byte_an_element() -> None:
    assert dropped(QWEN_30B, 1.0) == 48 * (2048 + 8 * 768)


def test_a_clamped_gate_drops_what_its_chain_keeps() -> None:
    assert dropped(replace(QWEN_30B, clamped_gate=True)) == 48 * (2 * 2048 + (2 + 8) * 8 * 768)


def test_padded_experts_drop_what_they_are_padded_to() -> None:
    assert dropped(QWEN_30B, capacity=2) == 48 * 2 * (2048 + 2 * 8 * 768)


def test_norms_divide_over_a_tensor_group_with_sequence_parallelism_only() -> None:
    assert dropped(QWEN_30B, tp=4) == 48 * 2 * (2048 + 8 * 768 / 4)
    assert dropped(QWEN_30B, tp=4, split=True) == 48 * 2 * (2048 + 8 * 768) / 4


@pytest.mark.parametrize("operand_bytes", [1.0, 2.0])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("model", [QWEN_30B, DEEPSEEK_MTP, replace(QWEN_30B, clamped_gate=True)])
def test_more_recompute_never_raises_memory(model: LanguageModel, split: bool, operand_bytes: float) -> None:
    job = setup(model, sequence_parallel=split)
    axes = np.array(list(product([1, 2, 8], [1, 4], [1, 3], [1, 2], [1, 4])), dtype=float).T
    columns = dict(zip(("tp", "pp", "interleave", "cp", "micro_batch"), axes, strict=True))
    none, modules, full = (
        footprint(job, TrainingDesigns.of(**columns, recompute=again(name)), operand_bytes).total_bytes
        for name in ("none", "modules", "full")
    )
    assert (full < modules).all()
    assert (modules < none).all()
