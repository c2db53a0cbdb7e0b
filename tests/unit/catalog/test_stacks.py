"""Software stacks, precision recipes and accuracy, by name and from a user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.catalog.stacks import load_accuracy, load_recipe, load_stack, stack_names
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError

SHIPPED = data_root() / "instances" / "_stacks" / "fsdp-2023.yaml"


@pytest.mark.parametrize("name", stack_names())
def test_every_shipped_stack_loads_under_its_own_name(name: str) -> None:
    stack = load_stack(name)
    assert stack.name == name
    assert 0 < stack.elementwise_fraction < 1
    assert stack.tensor_mode in stack.overlap.tensor_exposed


@pytest.mark.parametrize("name", stack_names())
def test_every_shipped_stack_states_its_sources(name: str) -> None:
    text = (SHIPPED.parent / f"{name}.yaml").read_text(encoding="utf-8")
    for part in ("elementwise_fraction", "attention", "host", "overlap"):
        assert f"\n  {part}: " in text.partition("\nsource:")[2]


@pytest.mark.parametrize("name", stack_names())
def test_every_shipped_stack_has_a_framework_or_says_why_not(name: str) -> None:
    text = (SHIPPED.parent / f"{name}.yaml").read_text(encoding="utf-8")
    assert bool(load_stack(name).framework) != ('\n  framework: "none: ' in text.partition("\nsource:")[2])


def test_the_longest_prefix_of_a_device_names_its_kernel() -> None:
    kernel = load_stack("torchtitan-2025").attention
    assert kernel.fraction_on("h100-96-500w") == 0.30
    assert kernel.fraction_on("h100-sxm") == 0.36
    assert kernel.fraction_on("b200") is None


def test_an_unknown_stack_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(SpecError, match="fsdp-2023"):
        load_stack("fsdp-2024")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("elementwise_fraction: 0.58", "elementwise_fraction: fast", "not a number"),
        ("elementwise_fraction: 0.58", "elementwise_fraction: -1", "not a usable number"),
        ("elementwise_fraction: 0.58", "elementwise_fraction: .inf", "not a usable number"),
        ("elementwise_fraction: 0.58\n", "", "is missing"),
        ("elementwise_fraction: 0.58", "elementwise_fraction: 0", "elementwise_fraction is 0"),
        ("held_gradient_bytes: 4", "held_gradient_bytes: .nan", "not a usable number"),
        ("adam_bytes: 12\n", "", "is missing"),
        ("{default: 2}", "{fp16: 2}", "has no default"),
        ("fused_experts: false", "fused_experts: false\nframework: megatron", "unknown framework"),
        ("fused_experts: false", "fused_experts: false\nframework: ''", "framework"),
        ("fused_experts: false", "fused_experts: false\nframework: null", "framework"),
        ("context_exchange: ring", "context_exchange: rign", "unknown context_exchange"),
        ("fsdp_exposed: 0.9", "fsdp_exposed: 5", "fsdp_exposed is 5"),
        ("async: 0.5", "async: 1.5", "tensor_exposed.async is 1.5"),
        ("backward_share: 0.75", "backward_share: 0", "backward_share is 0"),
        ("a100: 0.38", "a100: 0", "forward_fraction.a100 is 0"),
        ("selective: attention", "selective: everything", "unknown selective"),
        ("tensor_mode: none", "tensor_mode: magic", "unknown tensor_mode"),
        ("context_schedule: balanced", "context_schedule: spiral", "unknown context_schedule"),
        ("fused_experts: false", "fused_experts: false\npads_vocabulary: 128", "pads_vocabulary|true or false"),
        ("fused_experts: false", "fused_experts: false\nrepeats_keys: perhaps", "repeats_keys|true or false"),
        ("fused_experts: false", "fused_experts: false\ncontext_sum_bytes: 0", "context_sum_bytes is 0"),
        (
            "fused_experts: false",
            "fused_experts: false\nexpert_bias_bytes: {forward: -28, backward: 40}",
            r"expert_bias_bytes\.forward: -28 is not a usable number",
        ),
        (
            "fused_experts: false",
            "fused_experts: false\nexpert_bias_bytes: {forward: 28, backward: .inf}",
            "expert_bias_bytes",
        ),
        ("fused_experts: false", "fused_experts: false\nexpert_bias_bytes: {forward: 28}", "backward"),
        ("fused_experts: false", "fused_experts: false\nexpert_bias_bytes: 28", "expert_bias_bytes"),
        ("kind: flash", "kind: flashy", "unknown attention.kind"),
        ("gradient: window", "gradient: sometimes", "unknown overlap.gradient"),
        ("schema: cosmic-opt/stack@1", "schema: cosmic-opt/device@1", "expected|device@1"),
        ("launch_s: 8e-6", "launch_s: 8e-6\n  lunch_s: 1", "unknown key"),
    ],
)
def test_a_damaged_stack_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "own.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError, match=message) as caught:
        load_stack(str(path))
    assert caught.value.where is not None
    assert caught.value.where.file is not None


def test_a_users_own_stack_loads_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(SHIPPED.read_text(encoding="utf-8").replace("name: fsdp-2023", "name: ours"), encoding="utf-8")
    assert load_stack(str(path)).name == "ours"


def test_what_blocks_of_keys_cost_is_plain_unless_a_stack_says_otherwise() -> None:
    plain, torch = load_stack("fsdp-2023"), load_stack("torchtitan-2025")
    assert (plain.repeats_keys, plain.context_blocks, plain.context_sum_bytes) == (False, False, 2)
    assert (torch.repeats_keys, torch.context_blocks, torch.context_sum_bytes) == (True, True, 4)


def test_recipes_are_found_in_any_case() -> None:
    assert load_recipe("MXFP8") == load_recipe("mxfp8")
    assert load_recipe("nvfp4").precision == "fp4"
    assert load_recipe("bf16").cast_bytes == 0


def test_experts_are_sharded_in_every_precision_but_fp16() -> None:
    for name in ("bf16", "fp8", "fp8-cs", "fp8-rowwise", "mxfp8", "nvfp4"):
        assert load_recipe(name).expert_groups
    assert not load_recipe("fp16").expert_groups


def test_modules_run_again_in_every_precision_but_fp16_and_delayed_scaling() -> None:
    assert [name for name in ("bf16", "fp8-cs", "mxfp8", "nvfp4") if not load_recipe(name).modules_again] == []
    assert [name for name in ("fp16", "fp8") if load_recipe(name).modules_again] == []


def test_an_unknown_recipe_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown precision 'fp9'"):
        load_recipe("fp9")


def test_accuracy_covers_unknown_groups() -> None:
    accuracy = load_accuracy()
    assert max(accuracy.p90.values()) < 1
    assert accuracy.p90["other"] > accuracy.p90["megatron-2021 16-bit"]
