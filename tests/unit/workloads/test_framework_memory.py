"""`memory_per_npu` of calibrated instances, against the float footprint and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.errors import LimitError
from cosmic_opt.workloads.footprint import WORKSPACE_BYTES
from cosmic_opt.workloads.framework_memory import FrameworkJob, framework_memory, framework_memory_quantity
from cosmic_opt.workloads.knobs import DEFAULTS
from cosmic_opt.workloads.language_model import Experts, LanguageModel
from cosmic_opt.workloads.stack import kept_cast_bytes

SMALL = LanguageModel(name="small", layers=4, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocabulary=32)
JOB = FrameworkJob(SMALL, load_stack("megatron-te-2025"), sequence=10, global_batch=8)


def knobs(**values: int | str) -> dict[str, np.ndarray]:
    return {name: np.array([values.get(name, default)]) for name, default in DEFAULTS.items()}


@pytest.mark.parametrize(("stack", "gradient"), [("megatron-te-2025", 2), ("torchtitan-2025", 4)])
def test_states_are_two_two_or_four_and_twelve_bytes_a_parameter(stack: str, gradient: int) -> None:
    job = replace(JOB, stack=load_stack(stack))
    parameters = 4 * (8 * (8 + 8) + 8 * 8 + 3 * 8 * 16) + 2 * 32 * 8
    found = framework_memory(job, knobs())
    assert int(found.weights_bytes[0]) == 2 * parameters
    assert int(found.gradients_bytes[0]) == gradient * parameters
    assert int(found.optimizer_bytes[0]) == 12 * parameters
    assert int(framework_memory(job, knobs(dp=4, zero_stage=1)).optimizer_bytes[0]) == 3 * parameters


def test_cast_copies_of_layers_are_held_beside_16_bits_but_none_of_the_tables() -> None:
    whole, kept = (
        framework_memory(FrameworkJob(SMALL, JOB.stack, 10, 8, cast_bytes=(2.0, each)), knobs(zero_stage=zero))
        for each, zero in ((1.125, 0), (1.125, 1))
    )
    layers, tables = 4 * (8 * (8 + 8) + 8 * 8 + 3 * 8 * 16), 2 * 32 * 8
    assert whole.weights_bytes[0] == 4 * layers + 2 * tables
    assert kept.weights_bytes[0] == 3.125 * layers + 2 * tables


@pytest.mark.parametrize(
    ("stack", "recipe", "kept"),
    [
        ("megatron-te-2025", "bf16", (0, 0)),
        ("megatron-te-2025", "fp8", (2, 0)),
        ("megatron-te-2025", "mxfp8", (2.0625, 0.0625)),
        ("megatron-te-2025", "nvfp4", (1.125, 1.125)),
        ("torchtitan-2025", "fp8-rowwise", (0, 0)),
    ],
)
def test_parameters_of_8_bits_need_a_distributed_optimizer(stack: str, recipe: str, kept: tuple[float, float]) -> None:
    assert kept_cast_bytes(load_stack(stack), load_recipe(recipe)) == kept


def test_activations_by_hand() -> None:
    per_token = 2 * 4 * 8 + 2 * (2 * 8 + 8) + 2 * 3 * 16
    assert int(framework_memory(JOB, knobs()).activations_bytes[0]) == 4 * 10 * per_token
    assert int(framework_memory(JOB, knobs(recompute="full")).activations_bytes[0]) == 4 * 10 * 2 * 8


def test_a_recipe_that_casts_keeps_operands_in_eight_bits() -> None:
    narrow = FrameworkJob(SMALL, JOB.stack, 10, 8, operand_bytes=1.0)
    per_token = 2 * 3 * 8 + 2 * (2 * 8 + 8) + 8 + 5 * 16
    assert int(framework_memory(narrow, knobs()).activations_bytes[0]) == 4 * 10 * per_token


def test_experts_are_split_over_ep_and_their_optimizer_over_what_is_left() -> None:
    mixture = LanguageModel(
        name="m", layers=2, hidden=8, heads=2, kv_heads=2, head_dim=4, ffn=0, vocabulary=32,
        experts=Experts(count=4, top_k=1, ffn=16),
    )  # fmt: skip
    job = FrameworkJob(mixture, JOB.stack, 10, 8)
    one, split = (framework_memory(job, knobs(dp=4, ep=ep, zero_stage=1)) for ep in (1, 4))
    experts = 2 * 4 * 3 * 8 * 16
    assert int((one.weights_bytes - split.weights_bytes)[0]) == 2 * experts * 3 // 4
    assert int((one.optimizer_bytes - split.optimizer_bytes)[0]) == 0


def test_the_quantity_is_the_sum_and_knobs_that_are_no_columns_are_the_job_s() -> None:
    quantity = framework_memory_quantity(JOB, {"micro_batch": 2}, {"tp", "sp", "colour"})
    (term,) = quantity.terms
    assert term.names == ("tp", "sp")
    found = term.evaluate({"tp": np.array([1, 2]), "sp": np.array([1, 2])})
    by_hand = [framework_memory(JOB, knobs(tp=n, cp=n, micro_batch=2)).total_bytes[0] for n in (1, 2)]
    assert found.tolist() == by_hand
    assert found[0] > WORKSPACE_BYTES


def test_more_bytes_than_are_counted_are_refused() -> None:
    huge = LanguageModel(
        name="h", layers=10**6, hidden=10**7, heads=1, kv_heads=1, head_dim=1, ffn=10**9, vocabulary=1
    )  # fmt: skip
    with pytest.raises(LimitError, match="more bytes"):
        framework_memory(FrameworkJob(huge, JOB.stack, 10, 8), knobs())
