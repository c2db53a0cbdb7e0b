"""The framework's own options of a calibrated design."""

from __future__ import annotations

from cosmic_opt.api import Problem
from cosmic_opt.reporting.launch import launch_options, launch_text


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
        "--fp8-format hybrid",
        "--fp8-recipe delayed",
    ]


def test_llama_405b_gives_two_slots_to_embedding_and_loss() -> None:
    found = options("llama3-405b/gb200-256")
    assert "--account-for-embedding-in-pipeline-split" in found
    assert "--account-for-loss-in-pipeline-split" in found
    assert "--recompute-granularity full" in found


def test_three_empty_slots_need_a_layout_of_one_s_own() -> None:
    assert "--pipeline-model-parallel-layout ..." in options("deepseek-v3/h100-1024")


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
        "--activation_checkpoint.mode selective",
        "--parallelism.fsdp_reshard_after_forward always",
    ]


def test_maxtext_has_keys_and_values() -> None:
    assert options("llama3-70b/tpu-v5p-512-fsdp", dp=128, tp=4) == [
        "ici_fsdp_parallelism=128",
        "ici_tensor_parallelism=4",
        "ici_context_parallelism=1",
        "per_device_batch_size=0.25",
        "max_target_length=8192",
        "remat_policy=full",
    ]


def test_knobs_that_are_freed_are_typed() -> None:
    problem = Problem.load("llama3-70b/h100-64").without("fits").free("context_exchange", "recompute_layers")
    point = {"dp": 1, "tp": 2, "pp": 8, "cp": 4, "interleave": 1, "micro_batch": 1, "recompute": "full"}
    fixed = problem.fix(**point, context_exchange="all_to_all", recompute_layers=3)
    found = launch_options(fixed.instance, fixed.sample(1))
    assert "--cp-comm-type a2a" in found
    assert found[found.index("--recompute-method block") + 1] == "--recompute-num-layers 3"


def test_an_unknown_framework_and_an_analytical_instance_have_none() -> None:
    problem = Problem.load("llama3-8b/h200-32-fsdp").set(stack="fsdp-2023", precision="bf16")
    assert launch_options(problem.instance, problem.baseline()) == []
    plain = Problem.load("llama3-405b/h100-16k")
    assert launch_options(plain.instance, plain.baseline()) == []


def test_the_command_line_is_folded() -> None:
    assert all(len(line) <= 130 for line in launch_text(options("llama3-405b/h100-1024")).splitlines())
