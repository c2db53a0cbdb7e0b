"""What to type tomorrow: a calibrated design as the options of the framework or engine it runs on."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.serving_launch import serving_options
from cosmic_opt.workloads.knobs import DEFAULTS, knob_names

FP8_RECIPES = {"fp8": "delayed", "fp8-cs": "tensorwise", "mxfp8": "mxfp8"}
"""Megatron-Core's name of each scaling."""
MEGATRON_EXCHANGES = {"ring": "p2p", "all_gather": "all_gather", "all_to_all": "a2a"}
MAXTEXT_REMAT = {"none": "minimal", "selective": "save_dot_with_context_except_mlp", "full": "full"}


def launch_options(instance: BoundInstance, design: DesignBatch) -> list[str]:
    """Return the options, one entry each ("--micro-batch-size 1"); empty where the framework's are not known.

    They say how the job is cut, how it recomputes and overlaps; the model and the data are the user's own.
    """
    own = instance.calibrated
    if own is None:
        return []
    point = next(design.points())
    if isinstance(own, Serving):
        return serving_options(own, point)
    knobs: dict[str, Value] = {**DEFAULTS, **{name: instance.data[name] for name in DEFAULTS if name in instance.data}}
    knobs |= {knob: point[name] for knob, name in knob_names(point).items()}
    knobs["seq"], knobs["global_batch"] = instance.data["seq"], instance.data["global_batch"]
    knobs["tensor_overlap"] = point.get("tensor_overlap", own.stack.tensor_mode)
    knobs["gradient_overlap"] = point.get("gradient_overlap", own.stack.overlap.gradient)
    knobs["context_exchange"] = point.get("context_exchange", own.stack.context_exchange)
    if own.stack.name.startswith("megatron"):
        return _megatron(knobs, own)
    if own.stack.name.startswith("torchtitan"):
        return _torchtitan(knobs)
    if own.stack.name.startswith("maxtext"):
        return _maxtext(knobs)
    return []


def _megatron(knobs: Mapping[str, Value], own: Calibrated) -> list[str]:
    """Arguments of Megatron-LM's pretrain_gpt.py (megatron/training/arguments.py)."""
    sizes = {
        "--tensor-model-parallel-size": "tp",
        "--pipeline-model-parallel-size": "pp",
        "--context-parallel-size": "cp",
        "--expert-model-parallel-size": "ep",
        "--num-virtual-stages-per-pipeline-rank": "interleave",
    }
    found = [f"{option} {knobs[name]}" for option, name in sizes.items() if knobs[name] != 1]
    found += [f"--micro-batch-size {knobs['micro_batch']}", f"--global-batch-size {knobs['global_batch']}"]
    found += [f"--seq-length {knobs['seq']}"]
    pieces = int(knobs["pp"]) * int(knobs["interleave"])
    empty = -own.model.layers % pieces
    if empty in (1, 2):
        found.append("--account-for-loss-in-pipeline-split")
    if empty == 2:
        found.append("--account-for-embedding-in-pipeline-split")
    if empty > 2:
        found.append("--pipeline-model-parallel-layout ...")
    flags = {
        "--sequence-parallel": knobs["sequence_parallel"] == 1,
        "--use-distributed-optimizer": knobs["zero_stage"] == 1,
        "--overlap-grad-reduce": knobs["gradient_overlap"] == "window",
        "--overlap-param-gather": knobs["gradient_overlap"] == "window" and knobs["zero_stage"] == 1,
        "--tp-comm-overlap": knobs["tensor_overlap"] == "user_buffer" and knobs["tp"] != 1,
    }
    found += [flag for flag, given in flags.items() if given]
    if knobs["cp"] != 1 and knobs["context_exchange"] != "ring":
        found.append(f"--cp-comm-type {MEGATRON_EXCHANGES[str(knobs['context_exchange'])]}")
    if knobs["expert_load_percent"] != 100:
        factor = int(knobs["expert_load_percent"]) / 100
        found += [f"--moe-expert-capacity-factor {factor:g}", "--moe-pad-expert-input-to-capacity"]
    recompute = _megatron_recompute(str(knobs["recompute"]), int(knobs["recompute_layers"]))
    return found + recompute + _megatron_precision(own.recipe.name)


def _megatron_recompute(recompute: str, layers: int) -> list[str]:
    if recompute == "full" and layers:
        return ["--recompute-granularity full", "--recompute-method block", f"--recompute-num-layers {layers}"]
    if recompute == "full":
        return ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
    return ["--recompute-granularity selective"] if recompute == "selective" else []


def _megatron_precision(recipe: str) -> list[str]:
    if recipe == "fp16":
        return ["--fp16"]
    if recipe == "nvfp4":
        return ["--bf16", "--fp4-format e2m1"]
    scaling = FP8_RECIPES.get(recipe)
    return ["--bf16"] + ([] if scaling is None else ["--fp8-format hybrid", f"--fp8-recipe {scaling}"])


def _torchtitan(knobs: Mapping[str, Value]) -> list[str]:
    """Fields of TorchTitan's job configuration (torchtitan/config/job_config.py)."""
    sharded = knobs["zero_stage"] == 3
    reshard = "always" if knobs["reshard_after_forward"] == 1 else "never"
    return [
        f"--parallelism.data_parallel_{'shard' if sharded else 'replicate'}_degree {knobs['dp']}",
        f"--parallelism.tensor_parallel_degree {knobs['tp']}",
        f"--parallelism.context_parallel_degree {knobs['cp']}",
        f"--training.local_batch_size {knobs['micro_batch']}",
        f"--training.global_batch_size {knobs['global_batch']}",
        f"--training.seq_len {knobs['seq']}",
        f"--activation_checkpoint.mode {knobs['recompute']}",
        *([f"--parallelism.fsdp_reshard_after_forward {reshard}"] if sharded else []),
    ]


def _maxtext(knobs: Mapping[str, Value]) -> list[str]:
    """Keys of MaxText's configuration (MaxText/configs/base.yml), given as key=value."""
    chips = int(knobs["tp"]) * int(knobs["cp"])
    return [
        f"ici_{'fsdp' if knobs['zero_stage'] == 3 else 'data'}_parallelism={knobs['dp']}",
        f"ici_tensor_parallelism={knobs['tp']}",
        f"ici_context_parallelism={knobs['cp']}",
        f"per_device_batch_size={int(knobs['micro_batch']) / chips:g}",
        f"max_target_length={knobs['seq']}",
        f"remat_policy={MAXTEXT_REMAT[str(knobs['recompute'])]}",
    ]


def launch_text(options: list[str]) -> str:
    """Return the options as a command line is written, a few on each line."""
    lines: list[str] = []
    line = "  type"
    for option in options:
        if len(line) + len(option) > 100:
            lines, line = [*lines, line], "      "
        line += f" {option}"
    return "\n".join([*lines, line])
