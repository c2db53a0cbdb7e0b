"""Megatron-LM's arguments say what the score took for granted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.reporting.launch import NO_OPTION, launch_keys, launch_options, launch_text
from cosmic_opt.reporting.megatron_launch import megatron_environment, pipeline_layout
from tests.unit.reporting.test_launch import fixed_at, freed, options
from tests.unit.simulation.calibrated.jobs import DEEPSEEK_MTP, LLAMA_405B

OVERLAP = "--overlap-moe-expert-parallel-comm"
DEEPSEEK = {"dp": 64, "tp": 1, "pp": 16, "cp": 1, "ep": 64, "sequence_parallel": 0, "interleave": 2}


def stages_of(layout: str) -> list[str]:
    """Read a layout as Megatron-LM does: groups and letters are repeated, bars separate virtual stages."""
    flat = re.sub(r"\(([^)]+)\)\*(\d+)", lambda found: found[1] * int(found[2]), layout)
    return re.sub(r"(.)\*(\d+)", lambda found: found[1] * int(found[2]), flat).split("|")


def test_three_empty_slots_are_written_as_a_layout() -> None:
    found = options("deepseek-v3/h100-1024", **DEEPSEEK, recompute="none")
    assert '--pipeline-model-parallel-layout "Et|(tt|)*30mL"' in found
    assert not any("virtual" in each for each in found)  # the layout says how many


@pytest.mark.parametrize(("layers", "pieces"), [(61, 32), (61, 16), (61, 8), (1, 4), (5, 8), (126, 16), (96, 96)])
def test_a_layout_holds_every_layer_and_as_many_stages_as_told(layers: int, pieces: int) -> None:
    stages = stages_of(pipeline_layout(replace(LLAMA_405B, layers=layers), pieces, 1))
    assert len(stages) == pieces
    assert (stages[0][0], stages[-1][-1]) == ("E", "L")
    held = [stage.count("t") for stage in stages]
    assert sum(held) == layers
    assert max(held) <= -(-layers // pieces)
    assert "".join(stages).strip("EL") == "t" * layers


@pytest.mark.parametrize(
    ("pp", "interleave", "layout"),
    [
        (4, 1, "Et*16|(t*16|)*2t*13mL"),
        (8, 1, "Et*8|(t*8|)*6t*5mL"),
        (2, 8, "Et*4|(t*4|)*14tmL"),
        (8, 4, "Et|(tt|)*30mL"),
    ],
)
def test_deepseeks_layouts_are_those_of_the_published_recipes(pp: int, interleave: int, layout: str) -> None:
    """NVIDIA-NeMo/Megatron-Bridge, recipes/deepseek/h100/deepseek_v3.py and configs of its performance scripts."""
    assert stages_of(pipeline_layout(DEEPSEEK_MTP, pp, interleave)) == stages_of(layout)


def test_layers_of_multi_token_prediction_are_typed_where_the_model_has_them() -> None:
    assert "--mtp-num-layers 1" in options("deepseek-v3/h100-1024")
    assert not any("mtp" in each for each in options("qwen3-235b-a22b/b200-256"))


def test_several_layers_ahead_rule_out_dispatch_beside_compute() -> None:
    problem = Problem.load("deepseek-v3/h100-1024").without("fits").fix(**DEEPSEEK, recompute="none")
    for ahead, typed in ((0, True), (1, True), (2, False)):
        found = problem.set(mtp_layers=ahead)
        assert (OVERLAP in launch_options(found.instance, found.baseline())) == typed


@pytest.mark.parametrize(
    ("name", "precision", "modules"),
    [
        ("deepseek-v3/gb200-256", "bf16", "layernorm moe_act mla_up_proj"),
        ("deepseek-v3/gb200-256", "mxfp8", "layernorm moe_act mla_up_proj"),
        ("mixtral-8x7b/h100-64", "bf16", "layernorm moe_act"),
    ],
)
def test_modules_that_run_again_are_named(name: str, precision: str, modules: str) -> None:
    problem = Problem.load(name).without("fits").set(precision=precision).fix(recompute="modules")
    found = launch_options(problem.instance, problem.sample(1, seed=1))
    assert "--recompute-granularity selective" in found
    assert f"--recompute-modules {modules}" in found
    assert not any(NO_OPTION in each for each in found)


def test_selective_recompute_names_no_modules_which_is_the_attention_core() -> None:
    found = options("deepseek-v3/h100-1024", **DEEPSEEK, recompute="selective")
    assert not any("--recompute-modules" in each for each in found)


def test_a_dense_model_has_no_modules_to_name_whatever_the_rules() -> None:
    problem = Problem.load("llama3-70b/h100-64").set(precision="bf16").without("modules_of_experts").without("fits")
    fixed = problem.fix(recompute="modules")
    assert not any("recompute" in each for each in launch_options(fixed.instance, fixed.sample(1, seed=1)))


@pytest.mark.parametrize("stack", ["torchtitan-2025", "maxtext-2025"])
def test_other_frameworks_cannot_be_told_modules(stack: str) -> None:
    problem = Problem.load("mixtral-8x7b/h100-64").without("fits").without("modules_of_stack").set(stack=stack)
    fixed = problem.fix(recompute="modules")
    found = launch_options(fixed.instance, fixed.sample(1, seed=1))
    assert [each for each in found if "modules" in each] == [f"{NO_OPTION} recompute=modules"]


def test_blocks_of_recompute_leave_the_layer_ahead_out_and_say_so() -> None:
    point = {**DEEPSEEK, "recompute": "full"}
    note = f"{NO_OPTION} recompute_layers=1 of multi-token prediction"
    assert freed("deepseek-v3/h100-1024", **point, recompute_layers=1)[-1] == note
    whole = freed("deepseek-v3/h100-1024", **point, recompute_layers=0)
    assert "--recompute-num-layers 1" in whole  # the only number that multi-token prediction takes
    assert not any(NO_OPTION in each for each in whole)


def test_gradients_that_are_held_in_16_bits_are_asked_for() -> None:
    assert "--grad-reduce-in-bf16" in options("llama3-70b/h100-64")
    assert "--grad-reduce-in-bf16" in options("mixtral-8x22b/h100-128")


def test_dispatch_beside_compute_is_asked_for_where_it_is_scored() -> None:
    assert OVERLAP in options("deepseek-v3/h100-1024", **DEEPSEEK, recompute="none")
    assert OVERLAP in options("deepseek-v3/gb200-256")  # whose modules run again
    assert OVERLAP not in options("deepseek-v3/h100-1024", **DEEPSEEK, recompute="full")
    assert OVERLAP not in options("deepseek-v3/h100-1024", **{**DEEPSEEK, "interleave": 1}, recompute="none")
    assert OVERLAP not in options("llama3-70b/h100-64")


@pytest.mark.parametrize(("name", "backend"), [("deepseek-v3/h100-1024", "deepep"), ("mixtral-8x7b/h100-64", "deepep")])
def test_tokens_that_travel_once_to_a_rank_need_a_dispatcher_that_sends_them_once(name: str, backend: str) -> None:
    found = options(name, ep=8)
    assert "--moe-token-dispatcher-type flex" in found
    assert found[found.index(f"--moe-flex-dispatcher-backend {backend}") + 1] == "--moe-router-dtype fp32"
    assert "--moe-token-dispatcher-type alltoall" in options(name, ep=1)


def test_a_domain_of_more_than_eight_gpus_has_another_backend() -> None:
    mixtures = [name for name in instance_names() if name.startswith(("qwen3", "deepseek")) and "/gb" in name]
    names = [name for name in mixtures if not name.endswith("serving")]
    assert names
    for name in names:
        assert "--moe-flex-dispatcher-backend hybridep" in options(name, ep=16)


@pytest.mark.parametrize(
    ("name", "knobs", "needed"),
    [
        ("llama3-70b/h100-64", {"tp": 4}, True),
        ("llama3-70b/h100-64", {"tp": 1, "cp": 2, "sequence_parallel": 0}, True),
        ("llama3-70b/h100-64", {"tp": 1, "cp": 1, "sequence_parallel": 0}, False),
        ("llama3-70b/gb200-64", {"tp": 4}, False),  # Blackwell has no such queue
        ("mixtral-8x7b/h100-64", {"tp": 2, "ep": 8, "sequence_parallel": 1, "interleave": 1}, True),
        (
            "mixtral-8x7b/h100-64",
            {"tp": 2, "ep": 8, "sequence_parallel": 1, "pp": 4, "interleave": 2, "recompute": "none"},
            False,  # dispatch runs beside compute
        ),
    ],
)
def test_one_queue_of_kernels_is_asked_for_where_megatron_asserts_it(
    name: str, knobs: dict[str, int | str], needed: bool
) -> None:
    problem = fixed_at(name, **knobs)
    design = problem.sample(1)
    keys = launch_keys(problem.instance, design)
    assert keys["environment"] == ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if needed else {})
    assert keys["launch"] == launch_options(problem.instance, design)
    assert ("CUDA_DEVICE_MAX_CONNECTIONS=1" in launch_text(problem.instance, design)) == needed


def test_a_device_whose_generation_is_not_known_is_taken_for_one_that_needs_the_queue() -> None:
    options_of_it = ["--tensor-model-parallel-size 2"]
    new, unknown = load_device("b200"), replace(load_device("b200"), compute_capability=0.0)
    assert megatron_environment(options_of_it, new) == {}
    assert megatron_environment(options_of_it, unknown) == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


def test_other_frameworks_and_engines_need_no_environment() -> None:
    for name in ("llama3-70b/tpu-v5p-512-fsdp", "llama3-8b/h200-32-fsdp", "llama3-70b/h100-8-serving"):
        problem = Problem.load(name)
        assert launch_keys(problem.instance, problem.sample(1))["environment"] == {}


def test_user_buffers_are_typed_with_sequence_parallelism_only() -> None:
    assert "--tp-comm-overlap" in options("llama3-70b/h100-64")
    assert "--tp-comm-overlap" not in options("llama3-70b/h100-64", sequence_parallel=0)


def test_what_a_dispatcher_or_grouped_products_cannot_do_has_no_option() -> None:
    padded = freed("mixtral-8x7b/h100-64", expert_load_percent=125, ep=8)
    assert f"{NO_OPTION} expert_load_percent=125" in padded
    assert not any("capacity" in each for each in padded)
    for name, ep in (("mixtral-8x7b/h100-64", 1), ("deepseek-v3/gb200-256", 64)):
        padded = freed(name, expert_load_percent=125, ep=ep)
        assert {"--moe-expert-capacity-factor 1.25", "--moe-pad-expert-input-to-capacity"} <= set(padded)
        assert not any(NO_OPTION in each for each in padded)
    problem = Problem.load("mixtral-8x7b/h100-64").without("fits").set(precision="fp16").fix(ep=1)
    half = launch_options(problem.instance, problem.baseline())
    assert "--fp16" in half
    assert not any(each.startswith("--expert-model-parallel-size") for each in half)
    assert "--moe-grouped-gemm" not in half
    assert f"{NO_OPTION} grouped products of experts in fp16" in half


def test_latent_attention_asks_for_no_user_buffers() -> None:
    """Their maps have none; Megatron-Core would switch all of them off with a warning."""
    assert "--tp-comm-overlap" in options("mixtral-8x22b/h100-128", tp=2, sequence_parallel=1)
    assert "--tp-comm-overlap" not in options("deepseek-v3/h100-1024", tp=2, sequence_parallel=1)
    problem = Problem.load("deepseek-v3/h100-1024").free("tensor_overlap").fix(tp=2)
    assert problem.fix(tensor_overlap="user_buffer").count().value == 0
    assert problem.fix(tensor_overlap="none").count().value > 0


def test_more_ranks_than_deepep_knows_are_said_to_have_no_option() -> None:
    wide = [each for each in options("deepseek-v3/h100-1024", ep=256) if each.startswith(NO_OPTION)]
    assert wide == [f"{NO_OPTION} ep=256 with DeepEP, whose kernels know 160 ranks"]
    assert not any(each.startswith(NO_OPTION) for each in options("deepseek-v3/h100-1024", ep=128))
