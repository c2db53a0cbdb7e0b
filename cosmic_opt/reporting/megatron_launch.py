"""What to type tomorrow on Megatron-LM: the arguments of pretrain_gpt.py (megatron/training/arguments.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby

import numpy as np

from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.psa.domain import Value
from cosmic_opt.reporting.launch_entries import NO_OPTION, missing, notes_last
from cosmic_opt.system.hardware import BLACKWELL, Device
from cosmic_opt.workloads.dispatch import hides_dispatch
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.recomputed_modules import module_widths
from cosmic_opt.workloads.stage_load import stage_layers
from cosmic_opt.workloads.training_designs import Recompute, TrainingDesigns

SIZES = {
    "--tensor-model-parallel-size": "tp",
    "--pipeline-model-parallel-size": "pp",
    "--context-parallel-size": "cp",
    "--expert-model-parallel-size": "ep",
}
FP8_RECIPES = {"fp8": "delayed", "fp8-cs": "tensorwise", "mxfp8": "mxfp8"}
"""Megatron-Core's name of each scaling."""
DEEPEP_NPUS, DEEPEP_RANKS = 8, 160
"""GPUs of a scale-up domain that DeepEP's kernels know, and ranks of all domains: 20 of them (NUM_MAX_NVL_PEERS and
NUM_MAX_RDMA_PEERS in deepseek-ai/DeepEP)."""
OVERLAPPED_EXPERTS = "--overlap-moe-expert-parallel-comm"
EXCHANGES = {"ring": "p2p", "all_gather": "all_gather", "all_to_all": "a2a"}


def megatron_options(knobs: Mapping[str, Value], own: Calibrated, domain_npus: int) -> list[str]:
    """Return the options, one entry each, of a job whose scale-up domains have `domain_npus` GPUs."""
    found = [f"{option} {knobs[name]}" for option, name in SIZES.items() if knobs[name] != 1]
    found += _pieces(own.model, int(knobs["pp"]), int(knobs["interleave"]))
    found += [f"--mtp-num-layers {own.model.mtp_layers}"] if own.model.mtp_layers else []
    if own.model.experts is not None:
        found += _experts(knobs, own, domain_npus)
    found += [f"--micro-batch-size {knobs['micro_batch']}", f"--global-batch-size {knobs['global_batch']}"]
    found += [f"--seq-length {knobs['seq']}"]
    flags = {
        "--sequence-parallel": knobs["sequence_parallel"] == 1,
        "--use-distributed-optimizer": knobs["zero_stage"] == 1,
        "--overlap-grad-reduce": knobs["gradient_overlap"] == "window",
        "--overlap-param-gather": knobs["gradient_overlap"] == "window" and knobs["zero_stage"] == 1,
        "--tp-comm-overlap": knobs["tensor_overlap"] == "user_buffer" and knobs["tp"] != 1,
    }
    found += [flag for flag, given in flags.items() if given]
    if knobs["cp"] != 1 and knobs["context_exchange"] != "ring":
        found.append(f"--cp-comm-type {EXCHANGES[str(knobs['context_exchange'])]}")
    found += _recompute(str(knobs["recompute"]), int(knobs["recompute_layers"]), own.model)
    if knobs["recompute_layers"] and own.model.mtp_layers:  # the block method leaves them out
        found += [f"{NO_OPTION} recompute_layers={knobs['recompute_layers']} of multi-token prediction"]
    found += _precision(own, distributed=knobs["zero_stage"] == 1, beside=knobs["gradient_overlap"] == "window")
    known = {"pipeline_schedule": ("one_f_one_b",), "zero_stage": (0, 1), "shard_replicas": (1,)}
    return notes_last(found + missing(knobs, known))


def megatron_environment(options: Collection[str], device: Device) -> dict[str, str]:
    """Return the environment variables without which the options do not start.

    Before Blackwell tensor and context parallelism need a single queue, which `validate_args` asserts unless dispatch
    runs beside compute.
    """
    split = any(option.startswith(("--tensor-model-parallel-size", "--context-parallel-size")) for option in options)
    free = OVERLAPPED_EXPERTS in options or device.compute_capability >= BLACKWELL
    return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if split and not free else {}


def _pieces(model: LanguageModel, pp: int, interleave: int) -> list[str]:
    """Return how layers are dealt out: evenly, or with slots that embedding and loss take, or by a written layout."""
    empty = -model.layers % (pp * interleave)
    if empty > 2 or (empty and model.mtp_layers):
        return [f'--pipeline-model-parallel-layout "{pipeline_layout(model, pp, interleave)}"']
    found = [f"--num-virtual-stages-per-pipeline-rank {interleave}"] if interleave != 1 else []
    found += ["--account-for-loss-in-pipeline-split"] if empty else []
    return found + (["--account-for-embedding-in-pipeline-split"] if empty == 2 else [])


def pipeline_layout(model: LanguageModel, pp: int, interleave: int) -> str:
    """Return the layers (t) of each virtual stage, in the order of the model, from the embedding (E) to the loss (L).

    Slots without a layer are where `stage_load` counts them, layers of multi-token prediction (m) in front of the loss;
    equal neighbours are written once: `(tt|)*29`. The number of virtual stages is that of the pieces, so that it is not
    given by itself.
    """
    pieces = pp * interleave
    places = np.arange(float(pieces))
    held = stage_layers(model.layers, TrainingDesigns.of(pp=np.full(pieces, pieces)), places, model.mtp_layers)
    stages = ["t" * int(count) for count in held]
    stages[0], stages[-1] = f"E{stages[0]}", f"{stages[-1]}{'m' * model.mtp_layers}L"
    runs = [(stage, len(list(run))) for stage, run in groupby(f"{stage}|" for stage in stages)]
    return "".join(f"({stage})*{count}" if count > 1 else stage for stage, count in runs).removesuffix("|")


def _experts(knobs: Mapping[str, Value], own: Calibrated, domain_npus: int) -> list[str]:
    """Return how experts are held, fed and overlapped.

    DeepEP (domains of up to eight GPUs) and HybridEP send a token once to a rank, which a plain all-to-all does not.
    Dispatch beside another micro-batch's compute has a flag of its own, not with full recompute or several layers of
    multi-token prediction.
    """
    ep, full = int(knobs["ep"]), float(knobs["recompute"] == "full")
    design = TrainingDesigns.of(ep=ep, interleave=int(knobs["interleave"]), recompute=Recompute.of(full))
    found = ["--expert-tensor-parallel-size 1"] if knobs["tp"] != 1 else []  # the flag's default is tp
    plain = own.recipe.name == "fp16"  # grouped products are for bf16
    found += [f"{NO_OPTION} grouped products of experts in fp16" if plain else "--moe-grouped-gemm"]
    backend = None
    if ep > 1 and own.stack.sends_once_per_rank:
        backend = "deepep" if domain_npus <= DEEPEP_NPUS else "hybridep"
        found += ["--moe-token-dispatcher-type flex", f"--moe-flex-dispatcher-backend {backend}"]
        found += ["--moe-router-dtype fp32"]
    else:
        found += ["--moe-token-dispatcher-type alltoall"]
    if backend == "deepep" and ep > DEEPEP_RANKS:
        found += [f"{NO_OPTION} ep={ep} with DeepEP, whose kernels know {DEEPEP_RANKS} ranks"]
    if hides_dispatch(own.model, own.stack, design)[0]:
        found += [OVERLAPPED_EXPERTS]
    if knobs["expert_load_percent"] != 100 and backend == "deepep":  # it does not pad to a capacity
        found += [f"{NO_OPTION} expert_load_percent={knobs['expert_load_percent']}"]
    elif knobs["expert_load_percent"] != 100:
        factor = int(knobs["expert_load_percent"]) / 100
        found += [f"--moe-expert-capacity-factor {factor:g}", "--moe-pad-expert-input-to-capacity"]
    return found


def _recompute(recompute: str, layers: int, model: LanguageModel) -> list[str]:
    """Return how it recomputes; selective recompute is that of the attention core unless modules are named.

    A model without such modules runs nothing again.
    """
    if recompute == "modules":
        names = " ".join(module_widths(model).names)
        return ["--recompute-granularity selective", f"--recompute-modules {names}"] if names else []
    if recompute == "full" and layers:
        return ["--recompute-granularity full", "--recompute-method block", f"--recompute-num-layers {layers}"]
    if recompute == "full":
        return ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
    return ["--recompute-granularity selective"] if recompute == "selective" else []


def _precision(own: Calibrated, *, distributed: bool, beside: bool) -> list[str]:
    """Return the options of a recipe: parameters are 8 bits themselves where the optimizer is distributed.

    Block-scaled ones also need gradients and parameters that travel `beside` compute. Under --bf16 gradients add up in
    32 bits unless told otherwise.
    """
    recipe = own.recipe.name
    if recipe == "fp16":
        return ["--fp16"]
    found = ["--bf16", *(["--grad-reduce-in-bf16"] if own.stack.held_gradient_bytes == 2 else [])]
    if recipe == "bf16":
        return found
    if recipe == "nvfp4":
        return [*found, "--fp4-format e2m1"]
    if recipe not in FP8_RECIPES:
        return [*found, f"{NO_OPTION} precision={recipe}"]
    scaled = recipe == "mxfp8"
    found += [f"--fp8-format {'e4m3' if scaled else 'hybrid'}", f"--fp8-recipe {FP8_RECIPES[recipe]}"]
    if distributed and scaled and not beside:
        return [*found, f"{NO_OPTION} 8-bit parameters whose gradients are reduced after the last micro-batch"]
    gather = ["--fp8-param-gather", *(["--reuse-grad-buf-for-mxfp8-param-ag"] if scaled else [])]
    return found + (gather if distributed else [])
