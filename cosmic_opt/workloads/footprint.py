"""Bytes per GPU that a training design needs under a framework's rules, on its fullest pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.workloads.dispatch import hides_dispatch
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.recomputed_modules import module_widths
from cosmic_opt.workloads.stack import WEIGHT_BYTES, Stack
from cosmic_opt.workloads.stage_load import StageLoad, first_layers_model, loads
from cosmic_opt.workloads.training_designs import Batch, FloatArray, TrainingDesigns

LOGIT_BYTES = 6
"""A logit in 16 bits and its gradient in fp32 (Korthikanti 2022, section 4.3)."""
ELEMENTWISE_SHARE = 0.4
"""Share of kept activations that cheap kernels can produce again: norm and activation outputs."""
CLAMPED_GATE_KEPT_BYTES = 8
"""What a clamped gate, a chain of separate kernels, keeps beyond a fused one: clamped gate, sigmoid, their product and
the shifted branch, in 16 bits."""
WORKSPACE_BYTES = 4e9
"""Context, communication buffers, allocator slack."""


class FootprintJob(Batch, Protocol):
    """What a footprint depends on besides the designs; `sequence_parallel` may be one flag per design."""

    @property
    def model(self) -> LanguageModel:
        """What is trained."""

    @property
    def stack(self) -> Stack:
        """The framework."""

    @property
    def sequence_parallel(self) -> bool | NDArray[np.bool_]:
        """Whether norms and residuals are split over tp."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the pipeline stage of each design that needs most, and which that is."""

    weights_bytes: FloatArray
    gradients_bytes: FloatArray
    optimizer_bytes: FloatArray
    layers_bytes: FloatArray
    logits_bytes: FloatArray
    stage: FloatArray

    @property
    def states_bytes(self) -> FloatArray:
        """Weights, gradients and what Adam keeps."""
        return np.asarray(self.weights_bytes + self.gradients_bytes + self.optimizer_bytes)

    @property
    def activations_bytes(self) -> FloatArray:
        """What backward needs of the layers, and the logits."""
        return np.asarray(self.layers_bytes + self.logits_bytes)

    @property
    def total_bytes(self) -> FloatArray:
        """States, activations and workspace."""
        return np.asarray(self.states_bytes + self.activations_bytes + WORKSPACE_BYTES)


# --- who holds what --------------------------------------------------------------------------------------------


def weight_shards(designs: TrainingDesigns) -> FloatArray:
    """Return the ranks that share one copy of the weights: dp * cp, or their part under hybrid sharding."""
    return np.asarray(np.maximum(designs.dp * designs.cp / designs.shard_replicas, 1.0))


def expert_copies(designs: TrainingDesigns) -> FloatArray:
    """Return the ranks that hold the same experts: dp * cp * tp / ep."""
    return np.asarray(np.maximum(designs.dp * designs.cp * designs.tp / designs.ep, 1.0))


def expert_shards(designs: TrainingDesigns) -> FloatArray:
    """Return the ranks that share one copy of the experts, likewise."""
    return np.asarray(np.maximum(expert_copies(designs) / designs.shard_replicas, 1.0))


def layer_parameters(model: LanguageModel, designs: TrainingDesigns) -> tuple[FloatArray, FloatArray]:
    """Return the weights of one layer on one rank: (attention, MLP and router, routed experts split over ep).

    tp splits the first but for what each of its ranks holds whole (`replicated_parameters`).
    """
    whole = model.replicated_parameters
    dense = whole + (model.attention_parameters + model.dense_mlp_parameters - whole) / designs.tp
    return dense, model.expert_parameters / designs.ep


def joining_parameters(model: LanguageModel, designs: TrainingDesigns) -> FloatArray:
    """Return the weights of the joining map of one layer of multi-token prediction on one rank."""
    return np.asarray(model.joining_matmul.parameters / designs.tp)


def table_parameters(model: LanguageModel, designs: TrainingDesigns) -> FloatArray:
    """Return the weights of embedding and head on an end stage; a single stage holds both unless they are tied."""
    both = 1.0 if model.tied_embeddings else 2.0
    return np.asarray(model.head_parameters / designs.tp * np.where(designs.pp == 1, both, 1.0))


# --- bytes -----------------------------------------------------------------------------------------------------


def layer_activation_bytes(job: FootprintJob, designs: TrainingDesigns, operand_bytes: float = 2.0) -> FloatArray:
    """Return bytes one layer keeps per micro-batch without recompute.

    Inputs of norms and maps are whole on each tp rank without sequence parallelism; queries, keys, values and the
    MLP's branches are split. Unfused attention keeps its scores, too (`score_bytes`).
    A recipe that casts the operands of maps keeps them cast, in `operand_bytes` per element (Transformer Engine); the
    output of attention twice then, since its own backward reads 16 bits. Keys and values are kept as attention reads
    them: once for each query head where the framework repeats them.
    """
    model, experts = job.model, job.model.experts
    whole = (2 * (2 + operand_bytes) + (2 if model.dropout else 0)) * model.hidden
    ffn: FloatArray | float = model.ffn
    keys = model.score_width + model.value_width if job.stack.repeats_keys else model.kv_width
    inside: FloatArray | float = 2.0 * (2 * model.score_width + keys)
    if operand_bytes < 2:
        inside += operand_bytes * model.value_width
    if experts is not None:
        copies = experts.top_k * designs.capacity
        ffn = copies * experts.ffn + experts.shared * experts.ffn
        inside = inside + (2 + operand_bytes) * copies * model.hidden
    chain = CLAMPED_GATE_KEPT_BYTES if model.clamped_gate else 0
    inside = inside + ffn * (2 * (2 if model.gated_mlp else 1) + chain + operand_bytes)
    kept = designs.tokens(job) * (whole / _split(job, designs) + inside / designs.tp)
    return np.asarray(kept + score_bytes(job, designs))


def score_bytes(job: FootprintJob, designs: TrainingDesigns) -> FloatArray:
    """Return bytes of kept attention scores of one layer and micro-batch; 0 for a flash kernel.

    The softmax in 16 bits, with dropout also its output in 16 bits and a mask of one byte (Korthikanti 2022, 4.1).
    """
    if job.stack.attention.kind != "unfused":
        return np.zeros_like(designs.tp)
    each = 5 if job.model.dropout else 2
    return np.asarray(designs.tokens(job) * each * job.model.heads * job.sequence / designs.tp)


def footprint(
    job: FootprintJob,
    designs: TrainingDesigns,
    operand_bytes: float = 2.0,
    cast_bytes: tuple[float, float] = (0.0, 0.0),
) -> Footprint:
    """Return the bytes of the stage that needs most under the designs' recompute; the earliest of equals.

    Matrix operands are kept in `operand_bytes` per element, and beside two bytes of a layer's weight `cast_bytes` more:
    with one optimizer a replica, and with a distributed one.
    """
    first = first_layers_model(job.model)
    per_layer = _kept_bytes(job, designs, operand_bytes)
    per_first = per_layer if first is None else _kept_bytes(_with_model(job, first), designs, operand_bytes)
    joining = _joining_bytes(job, designs, operand_bytes)
    logits = LOGIT_BYTES * designs.tokens(job) * job.model.vocabulary / designs.tp
    parts = [
        Footprint(
            *_states(job, designs, stage, cast_bytes),
            layers_bytes=stage.in_flight
            * (
                (stage.layers - stage.first_layers) * per_layer
                + stage.first_layers * per_first
                + stage.mtp_layers * (per_layer + joining)
            ),
            logits_bytes=(stage.has_head + stage.mtp_layers) * logits,
            stage=stage.index,
        )
        for stage in loads(job.model, job, designs, hides_dispatch(job.model, job.stack, designs))
    ]
    worst = np.argmax(np.stack([part.total_bytes for part in parts]), axis=0)
    columns = (np.stack([getattr(part, each.name) for part in parts]) for each in fields(Footprint))
    return Footprint(*(np.take_along_axis(column, worst[None], axis=0)[0] for column in columns))


def _kept_bytes(job: FootprintJob, designs: TrainingDesigns, operand_bytes: float) -> FloatArray:
    """Return what one layer keeps per micro-batch under the designs' recompute: at least its input."""
    kept = layer_activation_bytes(job, designs, operand_bytes)
    again = designs.recompute
    inputs = 2 * designs.tokens(job) * job.model.hidden / _split(job, designs)
    partly = kept * (1 - ELEMENTWISE_SHARE * again.elementwise) - again.attention * score_bytes(job, designs)
    partly = partly - again.modules * _module_bytes(job, designs, operand_bytes)
    return np.asarray(again.layers * inputs + (1 - again.layers) * np.maximum(partly, inputs))


def _module_bytes(job: FootprintJob, designs: TrainingDesigns, operand_bytes: float) -> FloatArray:
    """Return what one layer does not keep per micro-batch where its modules run again: outputs of norms and of the
    activation, as operands of maps, what a clamped gate keeps, and queries, keys and values."""
    model, widths = job.model, module_widths(job.model)
    chain = CLAMPED_GATE_KEPT_BYTES if model.clamped_gate else 0
    keys = model.score_width + model.value_width if job.stack.repeats_keys else model.kv_width
    attention = 2.0 * (model.score_width + keys) if widths.up_maps else 0.0
    inside = attention + (operand_bytes + chain) * widths.activation * designs.capacity
    return np.asarray(designs.tokens(job) * (operand_bytes * widths.norms / _split(job, designs) + inside / designs.tp))


def _joining_bytes(job: FootprintJob, designs: TrainingDesigns, operand_bytes: float) -> FloatArray:
    """Return what the joining map of multi-token prediction keeps per micro-batch: an embedding and a hidden state in
    16 bits, as their norms read them, and both together as the map's operand."""
    kept = designs.tokens(job) * 2 * (2 + operand_bytes) * job.model.hidden
    return np.asarray(kept / _split(job, designs))


@dataclass(frozen=True, slots=True)
class _Job:
    """A job of other layers."""

    model: LanguageModel
    stack: Stack
    sequence: int
    global_batch: int
    sequence_parallel: bool | NDArray[np.bool_]


def _with_model(job: FootprintJob, model: LanguageModel) -> FootprintJob:
    return _Job(model, job.stack, job.sequence, job.global_batch, job.sequence_parallel)


def _split(job: FootprintJob, designs: TrainingDesigns) -> FloatArray:
    """Return over how many ranks norms and residuals are split."""
    return np.where(job.sequence_parallel, designs.tp, 1.0)


def _gathered(model: LanguageModel, designs: TrainingDesigns, stage: StageLoad) -> FloatArray:
    """Return weights a rank holds whole while the layers of its stage run, beside its shards (PyTorch FSDP2).

    Resharding after forward: the running layer, the prefetched one, and the gradient of one before it is reduced.
    Without it, or under a pipeline, every layer stays, and the gradient of one.
    """
    layer = sum(layer_parameters(model, designs), np.zeros_like(designs.tp))
    few = np.minimum(1 + designs.prefetch, stage.layers) * layer
    whole = sum(_stage_layers(model, designs, stage), np.zeros_like(designs.tp))
    held = np.where((designs.reshard > 0) & (designs.pp == 1), few, whole)
    return np.where(weight_shards(designs) > 1, held + layer, 0.0)


def _stage_layers(model: LanguageModel, designs: TrainingDesigns, stage: StageLoad) -> tuple[FloatArray, FloatArray]:
    """Return the weights of a stage's layers on one rank: (those split over tp, routed experts)."""
    dense, expert = layer_parameters(model, designs)
    first = first_layers_model(model)
    own = np.zeros_like(designs.tp) if first is None else layer_parameters(first, designs)[0]
    others = stage.layers - stage.first_layers + stage.mtp_layers
    joining = stage.mtp_layers * joining_parameters(model, designs)
    return others * dense + stage.first_layers * own + joining, others * expert


def _states(
    job: FootprintJob, designs: TrainingDesigns, stage: StageLoad, cast_bytes: tuple[float, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, gradients and optimizer states of a stage, sharded as ZeRO says.

    Stage 1 and 2 shard what Adam keeps (gradients stay whole while micro-batches accumulate), stage 3 everything.
    """
    model, stack = job.model, job.stack
    tables = stage.tables * model.head_parameters / designs.tp
    layers, held_experts = _stage_layers(model, designs, stage)
    held, copies, copies_experts = layers + tables, weight_shards(designs), expert_shards(designs)
    whole = np.where(designs.zero_stage >= 3, held / copies + held_experts / copies_experts, held + held_experts)
    adam = np.where(designs.zero_stage >= 1, held / copies + held_experts / copies_experts, held + held_experts)
    running = np.where(designs.zero_stage >= 3, _gathered(model, designs, stage), 0.0)
    cast = np.where(designs.zero_stage >= 3, running, layers + held_experts)
    whole_cast, sharded_cast = cast_bytes
    weights = WEIGHT_BYTES * (whole + running) + np.where(designs.zero_stage >= 1, sharded_cast, whole_cast) * cast
    return weights, stack.held_gradient_bytes * whole, stack.adam_bytes * adam
