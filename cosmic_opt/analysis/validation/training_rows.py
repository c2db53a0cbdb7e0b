"""Measured training steps as rows state them: fields to a job and a design, and what had to be assumed.

Every rule reads fields; none reads where a row comes from or how far off it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.analysis.validation.kinds import Row, number, text, whole
from cosmic_opt.analysis.validation.row_boards import board_of, limit_notes, open_board
from cosmic_opt.analysis.validation.row_checks import check_copies, check_dense_layers, check_heads, check_training
from cosmic_opt.analysis.validation.row_fields import (
    Sharding,
    attention,
    check_sizes,
    flag,
    recompute_name,
    recomputed_block,
    reduced_bytes,
    sharding,
    stated_or,
    whole_or,
    zero_stage,
)
from cosmic_opt.catalog.published import published_workloads
from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns, TrainingSetup, shares_nics
from cosmic_opt.simulation.calibrated.memory import implied_recompute
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.language_model import Experts, LanguageModel, LatentAttention, language_model
from cosmic_opt.workloads.stack import Stack
from cosmic_opt.workloads.training_designs import named_recompute

RECIPES = {
    "amp_bf16": "bf16",
    **dict.fromkeys(("bfloat16", "bf16-mixed"), "bf16"),
    **dict.fromkeys(("float16", "fp16-mixed", "amp_fp16"), "fp16"),
    "amp_fp8": "fp8",
    "fp8-mx": "mxfp8",
    "fp8-tensorwise": "fp8-cs",
}
"""Other spellings of precision recipes: automatic mixed precision, tensor scaling, micro-scaling."""
ACTIVATIONS = ("gelu", "swiglu", "clamped_swiglu")
"""What `dims.activation` may say."""
LAYER_SHAPE = ("hidden", "heads", "kv_heads", "gated_mlp", "latent")
UNDETERMINED = "not determined"
UNCONFIRMED = "before relying on it"
RELEASE = re.compile(r"(\d{2})\.(0[1-9]|1[0-2])(\.\d+)*")
"""Year and month, as NVIDIA numbers its containers."""
FUSED_EXPERTS_RELEASE, FUSED_EXPERTS_STACK = (26, 6), "megatron-te-2026"
UNNAMED_STACKS, DEFAULT_STACK = (None, "other"), "megatron-te-2025"
CURRENT_SCALING = ("torchtitan",)
"""Frameworks without delayed scaling: their "fp8" scales by the tensor at hand. MaxText keeps a history."""


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row as a job: `assumed` says what its fields leave open, which makes it a secondary row."""

    setup: TrainingSetup
    designs: TrainingDesigns
    assumed: tuple[str, ...]
    recompute_stated: bool


def read_row(row: Row) -> TrainingRow:
    """Return the job and design of a row.

    Raises:
        SpecError: a field without which there is no prediction is missing or makes no sense.
    """
    check_sizes(row, "seq", "gbs")
    for degree in ("tp", "pp", "dp"):
        if row.get(degree) is None:
            raise SpecError("the parallel split is not stated", hint=f"give {degree}")
    stack = _stack(row)
    setup = _setup(row, stack)
    designs = _designs(row, stack)
    _check_size(row, designs)
    check_training(setup, designs)
    recompute, stated = _recompute(row, setup, designs)
    assumed = (*_assumed(row, setup, stated), *_refused_schedule(setup, designs))
    return TrainingRow(setup, designs.with_recompute(recompute), assumed, stated)


def _check_size(row: Row, designs: TrainingDesigns) -> None:
    gpus, cells = whole(row, "gpus"), int(designs.gpus[0])
    if gpus != cells:
        raise SpecError(f"{gpus} GPUs, but tp, pp, dp and cp make {cells}", hint="their product is the number of GPUs")


def read_model(row: Row, *, dropout: bool = True) -> LanguageModel:
    """Return the model's shape; a gated MLP comes with an own head, as in every such model.

    Raises:
        SpecError: the dimensions are missing or make no sense.
    """
    dims = row.get("dims")
    if not isinstance(dims, dict):
        raise SpecError(
            "the model's dimensions are missing",
            hint="give 'dims' {hidden, layers, heads, ...}; in CSV columns dims.hidden, ...",
        )
    hidden, heads = whole(dims, "hidden"), whole(dims, "heads")
    latent, kv_heads = attention(dims, heads)
    experts = _experts(dims) if dims.get("experts") else None
    gated = _gated(dims, experts)
    model = LanguageModel(
        name=str(row.get("model")),
        layers=whole(dims, "layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=whole_or(dims, "head_dim", hidden // heads),
        ffn=whole_or(dims, "ffn", 0),
        vocabulary=whole(dims, "vocab"),
        gated_mlp=gated,
        dropout=dropout,
        tied_embeddings=not gated,
        latent=LatentAttention() if latent else None,
        experts=experts,
    )
    check_heads(model)
    known = _published_like(model)
    return replace(
        model,
        clamped_gate=_clamped(dims, known),
        mlp_biases=bool(dims.get("mlp_biases", any(each.mlp_biases for each in known))),
        mtp_layers=_further_tokens(dims, known),
        experts=_with_groups(dims, model.experts, known),
    )


def _gated(dims: Row, experts: Experts | None) -> bool:
    """Return whether the MLP is gated: as the row states, or its activation says; experts are unless stated."""
    activation = dims.get("activation")
    if activation is None:
        return bool(dims.get("gated_mlp", experts is not None))
    if activation not in ACTIVATIONS:
        raise SpecError(f"unknown activation {activation!r}", hint=nearest(str(activation), ACTIVATIONS))
    gated = bool(activation != "gelu")
    if bool(dims.get("gated_mlp", gated)) != gated:
        raise SpecError(f"gated_mlp contradicts the activation {activation!r}", hint="leave gated_mlp out")
    return gated


def _published_like(model: LanguageModel) -> list[LanguageModel]:
    """Return the published models of equally shaped layers."""
    known = (language_model(each) for each in published_workloads() if not each.is_vision)
    return [each for each in known if _layer_shape(each) == _layer_shape(model)]


def _layer_shape(model: LanguageModel) -> tuple[object, ...]:
    """Return what its layers multiply: latent attention has widths of its own, and so do experts."""
    width = model.head_dim if model.latent is None else None
    mlp = model.ffn if model.experts is None else (model.experts.ffn, model.experts.top_k, model.experts.shared)
    return (*(getattr(model, name) for name in LAYER_SHAPE), width, mlp)


def _clamped(dims: Row, known: Iterable[LanguageModel]) -> bool:
    """Return whether the gate is clamped: as the row states, else as in a published model of equally shaped layers."""
    if dims.get("activation") is not None:
        return bool(dims["activation"] == "clamped_swiglu")
    return any(each.clamped_gate for each in known)


def _further_tokens(dims: Row, known: Iterable[LanguageModel]) -> int:
    """Return the layers of multi-token prediction: as the row states, else as of a published model of equal layers."""
    if dims.get("mtp_layers") is not None:
        return whole_or(dims, "mtp_layers", 0)
    return max((each.mtp_layers for each in known), default=0)


def _with_groups(dims: Row, experts: Experts | None, known: Iterable[LanguageModel]) -> Experts | None:
    """Return the experts, routing limited as the row states, else as in a published model of equally shaped layers."""
    if experts is None or dims.get("expert_groups") is not None:
        return experts
    like = (each.experts for each in known if each.experts is not None and each.experts.count == experts.count)
    same = next(like, experts)
    return replace(experts, groups=same.groups, group_top_k=same.group_top_k)


def _experts(dims: Row) -> Experts:
    dense = whole_or(dims, "dense_layers", 0)
    check_dense_layers(whole(dims, "layers"), dense)
    return Experts(
        count=whole(dims, "experts"),
        top_k=whole(dims, "top_k"),
        ffn=whole(dims, "moe_ffn"),
        shared=whole_or(dims, "shared_experts", 0),
        dense_layers=dense,
        dense_ffn=whole(dims, "dense_ffn") if dense else 0,
        groups=whole_or(dims, "expert_groups", 0),
        group_top_k=whole_or(dims, "expert_group_top_k", 0),
    )


def _stack(row: Row) -> Stack:
    """Return the software generation the row names.

    Where it names none, or the one that two generations of containers share, the release decides if it is a year and
    a month.
    """
    name = DEFAULT_STACK if row.get("stack") in UNNAMED_STACKS else text(row, "stack")
    found = RELEASE.fullmatch(str(row.get("release") or ""))
    later = found is not None and (int(found[1]), int(found[2])) >= FUSED_EXPERTS_RELEASE
    return load_stack(FUSED_EXPERTS_STACK if later and name == DEFAULT_STACK else name)


def _setup(row: Row, stack: Stack) -> TrainingSetup:
    network = row.get("network")
    if not isinstance(network, dict):
        hint = "give 'network' {gpus_per_node, scale_out_bytes_per_s}; in CSV columns network.gpus_per_node, ..."
        raise SpecError("the network is not stated", hint=hint)
    device = _linked(board_of(row), network)
    model = read_model(row, dropout=stack.attention.kind == "unfused")  # flash kernels came with dropout off
    notes = str(row.get("notes") or "")
    nic = _nic(network, device, row)
    return TrainingSetup(
        model=model,
        device=device,
        stack=stack,
        recipe=load_recipe(_recipe(row, stack)),
        sequence=whole(row, "seq"),
        global_batch=whole(row, "gbs"),
        gpus_per_node=whole(network, "gpus_per_node"),
        nic_bytes_per_s=nic,
        shared_nics=shares_nics(device, nic),
        sequence_parallel=_sequence_parallel(row, stack),
        compiled="eager" not in notes,
        tensor_mode="async" if "async TP" in notes else None,
        reduce_bytes=reduced_bytes(row),
    )


def _linked(device: Device, network: Row) -> Device:
    """Return the device, its links at the rate the row states where that is another fabric's.

    A board's links are what they are: a rate within a factor of two of theirs counts both directions, or is what a
    benchmark reached of them, and the fitted shares hold for the board's own.
    """
    if network.get("scale_up_bytes_per_s") is None or device.fabric is None:
        return device
    rate, own = number(network, "scale_up_bytes_per_s"), device.fabric.link_bytes_per_s
    return (
        device if own / 2 <= rate <= own * 2 else replace(device, fabric=replace(device.fabric, link_bytes_per_s=rate))
    )


def _nic(network: Row, device: Device, row: Row) -> float:
    """Return the rate between nodes; a job inside one node never uses it, so it need not be stated."""
    inside = whole(row, "gpus") <= whole(network, "gpus_per_node")
    if inside and network.get("scale_out_bytes_per_s") is None and device.fabric is not None:
        return device.fabric.nic_bytes_per_s
    return number(network, "scale_out_bytes_per_s")


def _sequence_parallel(row: Row, stack: Stack) -> bool:
    """Return whether norms are split over tp; where a row is silent, frameworks with sharded weights do so, and those
    whose collectives overlap by it."""
    stated = flag(row, "sequence_parallel")
    return sharding(row).sharded or stack.tensor_mode == "user_buffer" if stated is None else stated


def _recipe(row: Row, stack: Stack) -> str:
    name = text(row, "precision").strip().lower().split(" ")[0]
    if name == "fp8" and stack.framework in CURRENT_SCALING:
        return "fp8-cs"
    return RECIPES.get(name, RECIPES.get(name.replace("_", "-"), name.replace("_", "-")))


def _designs(row: Row, stack: Stack) -> TrainingDesigns:
    shared = sharding(row)
    default_zero = 3 if shared.sharded else int(stack.overlap.gradient == "window")
    interleaved = "interleaved" in str(row.get("notes") or "")
    return TrainingDesigns.of(
        dp=whole(row, "dp"),
        tp=whole(row, "tp"),
        pp=whole(row, "pp"),
        cp=stated_or(row, "cp", 1),
        ep=stated_or(row, "ep", 1),
        interleave=stated_or(row, "interleave", 2 if interleaved else 1),
        micro_batch=_micro_batch(row, stack),
        reshard=shared.reshard,
        zero_stage=zero_stage(row, default_zero),
        shard_replicas=_copies(row, shared),
    )


def _copies(row: Row, shared: Sharding) -> int:
    """Return the copies of sharded weights: by the stated group, or one a node under hybrid sharding.

    Raises:
        SpecError: groups of that size do not come out even.
    """
    dp, cp = whole(row, "dp"), stated_or(row, "cp", 1)
    if shared.group is not None:
        return check_copies(dp, cp, shared.group, f"fsdp {shared.group}")
    if not shared.hybrid:
        return 1
    size, tp = whole(row["network"], "gpus_per_node"), whole(row, "tp")
    return check_copies(dp, cp, min(max(size // tp, 1), dp * cp), f"hybrid sharding in nodes of {size} GPUs")


def _micro_batch(row: Row, stack: Stack) -> int:
    """Return the micro-batch; where a row is silent, the framework's default."""
    if row.get("mbs"):
        return whole(row, "mbs")
    if stack.splits_by_stages and row.get("local_batch"):
        return max(1, whole(row, "local_batch") // whole(row, "pp"))
    return 1


def _recompute(row: Row, setup: TrainingSetup, designs: TrainingDesigns) -> tuple[Recompute, bool]:
    """Return what is run again, and whether the row states it; what is not stated is implied by memory."""
    name, block = recompute_name(row), recomputed_block(row)
    known = "recalled" not in str(row.get("recompute")).lower()
    if name is not None:
        return named_recompute(np.array(name), setup.stack.selective), known
    if block is not None:
        layers = np.ceil(setup.model.layers / (designs.pp * designs.interleave))
        if block > layers[0]:
            raise SpecError(f"{block} layers run again, of {layers[0]:g} of a (virtual) stage", hint="count per stage")
        return Recompute.of(np.minimum(block / layers, 1.0)), known
    return implied_recompute(setup, designs), False


def _refused_schedule(setup: TrainingSetup, designs: TrainingDesigns) -> tuple[str, ...]:
    """Return that the framework refuses to interleave, where it takes whole rounds of micro-batches only.

    Megatron-Core, pipeline_parallel/schedules.py: the micro-batches of a replica are a multiple of the stages.
    """
    micro_batches, stages = int(designs.micro_batches(setup)[0]), int(designs.pp[0])
    if not setup.stack.whole_rounds or designs.interleave[0] == 1 or micro_batches % stages == 0:
        return ()
    refused = f"refuses to interleave {micro_batches} micro-batches over {stages} stages"
    return (f"the schedule runs, though {setup.stack.name} {refused}",)


def _assumed(row: Row, setup: TrainingSetup, recompute_stated: bool) -> tuple[str, ...]:
    """Return what a row leaves open, by field (the rules of primary rows)."""
    board = open_board(row)
    found = [*([] if board is None else [board]), *limit_notes(row)]
    if row.get("stack") in UNNAMED_STACKS:
        found.append(f"the software stack is not named: {DEFAULT_STACK} assumed")
    if not row.get("mbs"):
        found.append("the micro-batch is not stated: the framework's default")
    if not recompute_stated:
        implied = recompute_name(row) is None and recomputed_block(row) is None
        found.append(f"recompute is {'not stated: what memory implies is assumed' if implied else 'recalled'}")
    if isinstance(row.get("dims"), dict) and row["dims"].get("experts") and "recalled" in str(row.get("prov")):
        found.append("the experts' dimensions are recalled")
    if setup.model.mtp_layers and row["dims"].get("mtp_layers") is None:
        found.append("multi-token prediction is not stated: that of the published model of equal layers")
    if stated_or(row, "cp", 1) > 1 and not setup.stack.context_stated:
        found.append("the context-parallel schedule is not stated: balanced assumed")
    if recomputed_block(row) is not None and (whole(row, "pp") > 1 or stated_or(row, "interleave", 1) > 1):
        found.append("the layers that run again are taken to be those of each (virtual) stage")
    if sharding(row).hybrid:
        found.append("weights are sharded inside a group and copied between groups: a group is taken to be a node")
    if flag(row, "act_cpu_offload"):
        found.append("activations in host memory: their traffic is a hidden input")
    if row.get("zero") == 3:
        found.append("the overlap of sharded weights is not stated")
    if UNDETERMINED in str(row.get("precision")):
        found.append("the precision is not determined")
    if UNCONFIRMED in str(row.get("notes")):
        found.append("the configuration is not confirmed")
    return tuple(found)
