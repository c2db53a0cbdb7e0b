"""The framework's own options of a calibrated design."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.stacks import load_recipe
from cosmic_opt.catalog.store import data_root
from cosmic_opt.reporting.launch import NO_OPTION, launch_options, launch_text


def options(name: str, **knobs: int | str) -> list[str]:
    problem = Problem.load(name).without("fits").fix(knobs)
    return launch_options(problem.instance, problem.baseline())


def test_megatron_s_published_split_of_llama_70b() -> None:
    assert options("llama3-70b/h100-64") == [
        "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 8",
        "--num-virtual-stages-per-pipeline-rank 5",
        "--micro-batch-size 1",
        "--global-batch-size 128",
        "--seq-length 8192",
        "--sequence-parallel",
        "--use-distributed-optimizer",
        "--overlap-grad-reduce",
        "--overlap-param-gather",
        "--tp-comm-overlap",
        "--bf16",
        "--grad-reduce-in-bf16",
        "--fp8-format hybrid",
        "--fp8-recipe delayed",
        "--fp8-param-gather",
    ]


def test_parameters_are_8_bits_only_where_the_optimizer_is_distributed() -> None:
    narrow = {"--fp8-param-gather", "--reuse-grad-buf-for-mxfp8-param-ag"}
    assert narrow <= set(options("llama3-70b/gb200-64"))
    assert not narrow & set(options("llama3-70b/gb200-64", zero_stage=0))


def test_parameters_in_mxfp8_need_gradients_and_weights_that_travel_beside_compute(tmp_path: Path) -> None:
    """DistributedDataParallelConfig asserts so; a stack that reduces after the last micro-batch cannot have them."""
    problem = Problem.load("llama3-70b/gb200-64").without("fits").set(precision="mxfp8")
    freed = problem.free("gradient_overlap").fix(gradient_overlap="none")
    assert freed.fix(zero_stage=1).count().value == 0
    assert freed.fix(zero_stage=0).count().value > 0
    assert freed.set(precision="fp8").fix(zero_stage=1).count().value > 0
    text = (data_root() / "instances" / "_stacks" / "megatron-te-2025.yaml").read_text(encoding="utf-8")
    own = tmp_path / "late.yaml"
    own.write_text(text.replace("gradient: window", "gradient: none"), encoding="utf-8")
    late = problem.set(stack=str(own)).fix(zero_stage=1)
    found = launch_options(late.instance, late.baseline())
    assert found[-1].startswith(f"{NO_OPTION} 8-bit parameters")
    assert not any("param" in each for each in found[:-1])


def test_nvfp4_is_typed_without_the_overlap_it_does_not_have() -> None:
    problem = Problem.load("llama3-70b/gb200-64").without("fits")
    own = problem.instance.calibrated
    assert isinstance(own, Calibrated)
    for name, typed in (("mxfp8", True), ("nvfp4", False)):
        instance = replace(problem.instance, calibrated=replace(own, recipe=load_recipe(name)))
        assert ("--tp-comm-overlap" in launch_options(instance, problem.baseline())) == typed


def test_llama_405b_gives_two_slots_to_embedding_and_loss() -> None:
    found = options("llama3-405b/gb200-256")
    assert "--account-for-embedding-in-pipeline-split" in found
    assert "--account-for-loss-in-pipeline-split" in found
    assert "--recompute-granularity full" in found


def test_what_is_one_or_off_is_not_typed() -> None:
    found = options("qwen3-30b-a3b/h100-16", zero_stage=0)
    assert found[0] == "--expert-model-parallel-size 16"
    assert not any("tensor" in each or "distributed" in each or "sequence-parallel" in each for each in found)


def test_torchtitan_has_names_of_its_own() -> None:
    assert options("llama3-8b/h200-32-fsdp") == [
        "--parallelism.data_parallel_shard_degree 32",
        "--parallelism.tensor_parallel_degree 1",
        "--parallelism.context_parallel_degree 1",
        "--training.local_batch_size 2",
        "--training.global_batch_size 64",
        "--training.seq_len 8192",
        "--training.compile",
        "--activation_checkpoint.mode selective",
        "--activation_checkpoint.selective_ac_option op",
        "--parallelism.fsdp_reshard_after_forward always",
        "--model.converters float8",
        "--float8.recipe_name tensorwise",
    ]


def test_maxtext_has_keys_and_values() -> None:
    assert options("llama3-70b/tpu-v5p-512-fsdp", dp=128, tp=4) == [
        "ici_fsdp_parallelism=128",
        "ici_tensor_parallelism=4",
        "ici_context_parallelism=1",
        "per_device_batch_size=0.25",
        "gradient_accumulation_steps=4",
        "max_target_length=8192",
        "remat_policy=full",
    ]


def test_maxtext_without_recompute_keeps_what_attention_gives() -> None:
    kept = options("llama3-70b/tpu-v5p-512-fsdp", dp=128, tp=4, recompute="none")
    assert "remat_policy=minimal_with_context" in kept


def test_knobs_that_are_freed_are_typed() -> None:
    problem = Problem.load("llama3-70b/h100-64").without("fits").free("context_exchange", "recompute_layers")
    point = {"dp": 1, "tp": 2, "pp": 8, "cp": 4, "interleave": 1, "micro_batch": 1, "recompute": "full"}
    fixed = problem.fix(**point, context_exchange="all_to_all", recompute_layers=3)
    found = launch_options(fixed.instance, fixed.sample(1))
    assert "--cp-comm-type a2a" in found
    assert found[found.index("--recompute-method block") + 1] == "--recompute-num-layers 3"


def test_an_analytical_instance_has_no_options() -> None:
    plain = Problem.load("llama3-405b/h100-16k")
    assert launch_options(plain.instance, plain.baseline()) == []


@pytest.mark.parametrize(
    ("name", "stack"),
    [
        ("llama3-8b/h200-32-fsdp", "fsdp-2023"),
        ("llama3-70b/h100-64", "megatron-2021"),
        ("llama3-70b/h100-64", "megatron-deepspeed-2021"),
    ],
)
def test_a_stack_whose_options_are_not_known_says_so(name: str, stack: str) -> None:
    problem = Problem.load(name).set(stack=stack, precision="bf16")
    found = launch_options(problem.instance, problem.baseline())
    assert found == [f"{NO_OPTION} stack={stack}"]
    assert launch_text(problem.instance, problem.baseline()) == f"  {NO_OPTION} stack={stack}"


def test_a_stack_file_decides_whose_options_are_typed_not_its_name(tmp_path: Path) -> None:
    text = (data_root() / "instances" / "_stacks" / "megatron-te-2025.yaml").read_text(encoding="utf-8")
    own = tmp_path / "own.yaml"
    own.write_text(text.replace("name: megatron-te-2025", "name: ours"), encoding="utf-8")
    problem = Problem.load("llama3-70b/h100-64")
    mine = problem.set(stack=str(own))
    assert launch_options(mine.instance, mine.baseline()) == launch_options(problem.instance, problem.baseline())


def test_the_command_line_is_folded() -> None:
    problem = Problem.load("llama3-405b/h100-1024")
    lines = launch_text(problem.instance, problem.baseline()).splitlines()
    assert lines[0] == "  set  CUDA_DEVICE_MAX_CONNECTIONS=1"
    assert lines[1].startswith("  type --tensor-model-parallel-size 8 ")
    assert all(len(line) <= 130 for line in lines)


FSDP = "llama3-8b/h200-32-fsdp"


def fixed_at(name: str, **knobs: int | str) -> Problem:
    """Return the problem at knobs some of which the instance does not free by itself."""
    problem = Problem.load(name).without("fits")
    optional = [
        knob for knob in knobs if knob not in {column.name for column in problem.instance.parameter_set.columns}
    ]
    return problem.free(*optional).fix(knobs) if optional else problem.fix(knobs)


def freed(name: str, **knobs: int | str) -> list[str]:
    """Return the options of a design of `fixed_at`."""
    fixed = fixed_at(name, **knobs)
    return launch_options(fixed.instance, fixed.sample(1))


def test_experts_are_whole_on_a_rank_of_a_tensor_group() -> None:
    """Megatron splits experts over tp unless told otherwise; the model does not."""
    found = options("mixtral-8x7b/h100-64", tp=2, ep=8, dp=8, pp=4)
    assert "--expert-tensor-parallel-size 1" in found
    assert "--moe-token-dispatcher-type flex" in found
    assert "--moe-grouped-gemm" in found
    assert not any(each.startswith(("--expert", "--moe")) for each in options("llama3-70b/h100-64"))


@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
def test_a_schedule_that_megatron_lacks_is_said_to_have_no_option(schedule: str) -> None:
    split = {"dp": 4, "tp": 4, "pp": 4, "cp": 1, "interleave": 1, "micro_batch": 1}
    found = freed("llama3-70b/h100-64", **split, pipeline_schedule=schedule)
    assert found[-1] == f"{NO_OPTION} pipeline_schedule={schedule}"
    problem = fixed_at("llama3-70b/h100-64", **split, pipeline_schedule=schedule)
    assert launch_text(problem.instance, problem.sample(1)).splitlines()[-1] == f"  {found[-1]}"
    plain = freed("llama3-70b/h100-64", **split, pipeline_schedule="one_f_one_b")
    assert not any(NO_OPTION in each for each in plain)


@pytest.mark.parametrize(
    ("layers", "options_of_it"),
    [
        (8, ["--activation_checkpoint.mode selective", "--activation_checkpoint.selective_ac_option 4"]),
        (16, ["--activation_checkpoint.mode selective", "--activation_checkpoint.selective_ac_option 2"]),
        (0, ["--activation_checkpoint.mode full"]),
        (20, ["--activation_checkpoint.mode full", f"{NO_OPTION} recompute_layers=20"]),
    ],
)
def test_torchtitan_recomputes_every_nth_layer(layers: int, options_of_it: list[str]) -> None:
    found = freed(FSDP, recompute="full", recompute_layers=layers)
    assert [each for each in found if "activation" in each or "recompute_layers" in each] == options_of_it


@pytest.mark.parametrize(
    ("exchange", "entry"),
    [
        ("ring", "--parallelism.context_parallel_rotate_method alltoall"),
        ("all_gather", "--parallelism.context_parallel_rotate_method allgather"),
        ("all_to_all", f"{NO_OPTION} context_exchange=all_to_all"),
    ],
)
def test_torchtitan_rotates_keys_in_two_of_three_ways(exchange: str, entry: str) -> None:
    assert freed(FSDP, dp=16, cp=2, tp=1, context_exchange=exchange)[-1] in (entry, "--float8.recipe_name tensorwise")
    assert entry in freed(FSDP, dp=16, cp=2, tp=1, context_exchange=exchange)


@pytest.mark.parametrize(("precision", "typed"), [("bf16", False), ("fp8-rowwise", True), ("mxfp8", True)])
def test_torchtitan_s_precision_is_typed(precision: str, typed: bool) -> None:
    problem = Problem.load(FSDP).without("fits")
    own = problem.instance.calibrated
    assert isinstance(own, Calibrated)
    instance = replace(problem.instance, calibrated=replace(own, recipe=load_recipe(precision)))
    found = launch_options(instance, problem.baseline())
    assert any(each.startswith("--model.converters") for each in found) == typed
    assert not any(NO_OPTION in each for each in found)


@pytest.mark.parametrize("precision", ["fp8", "fp16"])
def test_a_precision_that_torchtitan_lacks_is_said_to_have_no_option(precision: str) -> None:
    problem = Problem.load(FSDP).without("fits").set(precision=precision)
    found = launch_options(problem.instance, problem.baseline())
    assert found[-1].startswith(f"{NO_OPTION} precision=")


def test_hybrid_sharding_is_two_degrees() -> None:
    found = freed(FSDP, dp=32, shard_replicas=4)
    assert found[:2] == [
        "--parallelism.data_parallel_replicate_degree 4",
        "--parallelism.data_parallel_shard_degree 8",
    ]
    found = freed("llama3-70b/tpu-v5p-512-fsdp", dp=512, cp=1, tp=1, shard_replicas=2)
    assert found[:2] == ["ici_data_parallelism=2", "ici_fsdp_parallelism=256"]


@pytest.mark.parametrize(("zero_stage", "first"), [(0, "replicate_degree 32"), (3, "shard_degree 32")])
def test_all_ranks_share_one_copy_or_hold_one_each(zero_stage: int, first: str) -> None:
    assert freed(FSDP, dp=32, cp=1, tp=1, zero_stage=zero_stage)[0].endswith(first)


@pytest.mark.parametrize(
    ("split", "possible"),
    [
        ({"dp": 32}, True),
        ({"dp": 1, "tp": 16}, True),  # one copy: nobody to replicate to
        ({"dp": 16, "cp": 2}, False),
        ({"dp": 8, "tp": 4}, False),
        ({"dp": 1, "tp": 8, "cp": 4}, False),
    ],
)
def test_torchtitan_replicates_weights_over_a_mesh_of_data_ranks_alone(split: dict[str, int], possible: bool) -> None:
    found = options(FSDP, **{"dp": 1, "tp": 1, "cp": 1, **split, "zero_stage": 0})
    assert (f"{NO_OPTION} zero_stage=0" not in found) == possible


def test_maxtext_shards_weights_over_context_ranks() -> None:
    name, noted = "llama3-70b/tpu-v5p-512-fsdp", f"{NO_OPTION} zero_stage=0"
    assert noted not in options(name, dp=128, tp=4, cp=1, zero_stage=0)
    assert noted in options(name, dp=128, tp=1, cp=4, zero_stage=0)


def test_no_two_designs_of_the_fsdp_model_are_typed_alike() -> None:
    """Freed copies and all: a command line runs one design, or says what it does not run."""
    problem = Problem.load(FSDP).free("shard_replicas").without("fits")
    designs = problem.sample(400, seed=1)
    typed = {tuple(launch_options(problem.instance, designs.take([row]))) for row in range(len(designs))}
    assert len(typed) == len(np.unique(designs.codes, axis=0)) > 300


def test_whole_weights_and_a_context_group_do_not_go_together() -> None:
    problem = Problem.load(FSDP).without("fits").fix(zero_stage=0)
    assert problem.fix(cp=2).count().value == 0
    assert problem.fix(cp=1).count().value > 0


def test_prefetch_has_no_option() -> None:
    assert f"{NO_OPTION} prefetch=0" in freed(FSDP, prefetch=0)


def test_maxtext_names_how_keys_are_exchanged_and_what_it_cannot_do() -> None:
    name = "llama3-70b/tpu-v5p-512-fsdp"
    assert "context_parallel_strategy=ring" in freed(name, dp=256, cp=2, tp=1, context_exchange="ring")
    found = freed(name, dp=512, cp=1, tp=1, recompute="full", recompute_layers=8)
    assert found[-1] == f"{NO_OPTION} recompute_layers=8"


def test_every_calibrated_default_can_be_typed_whole() -> None:
    for name in ("llama3-70b/h100-64", FSDP, "llama3-70b/tpu-v5p-512-fsdp", "qwen3-30b-a3b/h100-16"):
        assert not any(NO_OPTION in each for each in options(name))


def test_megatron_has_no_row_wise_scaling() -> None:
    problem = Problem.load("llama3-70b/h100-64").without("fits").set(precision="fp8-rowwise")
    assert f"{NO_OPTION} precision=fp8-rowwise" in launch_options(problem.instance, problem.baseline())


@pytest.mark.parametrize("name", ["llama3-8b/h200-32-fsdp", "llama3-70b/tpu-v5p-512-fsdp"])
def test_multi_token_prediction_is_said_to_have_no_option_where_a_framework_has_none(name: str) -> None:
    problem = Problem.load(name).without("fits").set(mtp_layers=1)
    assert f"{NO_OPTION} mtp_layers=1" in launch_options(problem.instance, problem.baseline())
    assert not any("mtp" in each for each in options(name))
