"""Bytes one NPU holds while training: weights, gradients, optimizer states, activations, logits, buffers.

Vectorised over designs: every array has one entry per design. Shares are rounded up to whole elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.psa.quantity import IntArray, Values
from cosmic_opt.workloads.parallelism import Parallelism, layers_of_stage
from cosmic_opt.workloads.training import OFFLOADS, TrainingJob
from cosmic_opt.workloads.transformer import Transformer

_LOGIT_BYTES = 4  # the loss keeps logits in fp32 (Korthikanti 2022, section 4.3)
_MASK_BYTES = 1  # a dropout mask
_JOB_COLUMNS = ("zero_stage", "micro_batch", "recompute", "sequence_parallel", "interleave", *OFFLOADS)
_GATHERED_LAYERS = 2  # ZeRO-3 holds the layer in use and the next one, prefetched
_RESIDENT_LAYERS = 2  # of what is offloaded, the layer in use and the next one stay (Calculon: Isaev 2023)


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """Bytes of the pipeline stage that needs most, one entry per design.

    Attributes:
        head_bytes: Inputs of the final norm and of the output map, and the logits; last stage only.
        workspace_bytes: What one layer needs for a while: its recomputed activations, and under ZeRO 2 and 3
            its unsharded gradients and gathered weights.
        worst_stage: Index of that stage, the earliest one if several need as much.
    """

    weights_bytes: IntArray
    gradients_bytes: IntArray
    optimizer_bytes: IntArray
    activations_bytes: IntArray
    head_bytes: IntArray
    workspace_bytes: IntArray
    worst_stage: IntArray

    @property
    def total_bytes(self) -> IntArray:
        """The sum of all terms."""
        states = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return states + self.activations_bytes + self.head_bytes + self.workspace_bytes


@dataclass(frozen=True, slots=True)
class Designs:
    """The columns a footprint depends on, as arrays of one shape; `recompute` holds text."""

    dp: IntArray
    tp: IntArray
    pp: IntArray
    sp: IntArray
    zero_stage: IntArray
    micro_batch: IntArray
    recompute: NDArray[np.str_]
    sequence_parallel: IntArray
    interleave: IntArray
    weight_offload: IntArray
    activation_offload: IntArray
    optimizer_offload: IntArray

    @classmethod
    def of(cls, job: TrainingJob, columns: Mapping[str, Values]) -> Designs:
        """Take `columns`, and the job's value (degrees: 1) for every name that is not a column."""
        fixed: dict[str, object] = dict.fromkeys(("dp", "tp", "pp", "sp"), 1)
        fixed |= {name: getattr(job, name) for name in _JOB_COLUMNS}
        values = [np.asarray(columns.get(field.name, fixed[field.name])) for field in fields(cls)]
        return cls(*np.broadcast_arrays(*values))

    @property
    def shards(self) -> IntArray:
        """Ranks that share one copy of the model under ZeRO: dp * sp."""
        return self.dp * self.sp

    def micro_batches(self, job: TrainingJob) -> IntArray:
        """Micro-batches of one step on one pipeline."""
        return _ceil_div(job.global_batch, self.dp * self.micro_batch)

    def tokens(self, job: TrainingJob) -> IntArray:
        """Tokens of one micro-batch on one rank."""
        return _ceil_div(self.micro_batch * job.sequence, self.sp)


def layer_activation_bytes(workload: Transformer, job: TrainingJob, designs: Designs) -> IntArray:
    """Return the bytes one layer keeps for backward per micro-batch.

    Korthikanti 2022, Table 2: s b h (10 + 24/t + 5 a s/(h t)) for GPT at 2 bytes, everything divided by t with
    sequence parallelism; the term in a is the scores' and exists only unfused without recompute; full
    recompute keeps the layer's input alone.
    """
    tokens = designs.tokens(job)
    stored = _stored_bytes(workload, job, designs)
    scores = np.where(designs.recompute == "none", _score_bytes(workload, job, designs), 0)
    full = _replicated(designs, workload.hidden * job.bytes_per_activation)
    return np.where(designs.recompute == "full", tokens * full, tokens * stored + scores)


def memory_per_npu(workload: Transformer, job: TrainingJob, designs: Designs) -> MemoryBreakdown:
    """Return the footprint of the worst pipeline stage under the 1F1B schedule.

    Stage i of pp keeps min(m, pp - i) of the m micro-batches in flight; of v interleaved pieces it keeps
    min(m v, 2 (pp - 1 - i) + (v - 1) pp + 1) passes of one piece each (Narayanan 2021, section 2.2). Only
    the first, the second, the earliest with a left-over layer and the last stage can be the worst: any other
    has the layers of one of these and no more micro-batches in flight.

    Raises:
        LimitError: the job's activations may exceed 2^62 bytes.
    """
    check_range(workload, job)
    last = designs.pp - 1
    earliest_larger = np.maximum(last - workload.layers % designs.pp, 0)
    worst = stage_memory(workload, job, designs, np.zeros_like(last))
    for stage in (np.minimum(1, last), earliest_larger, last):
        worst = _larger(worst, stage_memory(workload, job, designs, stage))
    return worst


def memory_of(workload: Transformer, job: TrainingJob, parallelism: Parallelism) -> MemoryBreakdown:
    """Return the footprint of one design, as arrays of length one; every other choice is the job's."""
    degrees = {name: np.array([getattr(parallelism, name)]) for name in ("dp", "tp", "pp", "sp")}
    return memory_per_npu(workload, job, Designs.of(job, degrees))


def stage_memory(workload: Transformer, job: TrainingJob, designs: Designs, stage: IntArray) -> MemoryBreakdown:
    """Return the footprint of one pipeline stage per design; `stage` is its index, from 0 to pp - 1."""
    layers = layers_of_stage(workload.layers, designs.pp, stage)
    is_last = stage == designs.pp - 1
    share = _layer_share(workload, designs)
    ends = np.where(stage == 0, _embedding_share(workload, designs), 0)
    ends += np.where(is_last, _head_share(workload, designs, alone=stage > 0), 0)
    weights = ends + share * _resident(layers, designs.weight_offload)
    gradients = ends + share * layers
    states = ends + share * _resident(layers, designs.optimizer_offload)
    kept = _resident(_layers_kept(job, designs, stage, layers), designs.activation_offload)

    return MemoryBreakdown(
        weights_bytes=_sharded(weights * job.bytes_per_weight, designs, _weights_sharded(job, designs)),
        gradients_bytes=_sharded(gradients * job.bytes_per_gradient, designs, _gradients_sharded(job, designs)),
        optimizer_bytes=_sharded(states * job.bytes_per_optimizer_state, designs, designs.zero_stage >= 1),
        activations_bytes=kept * layer_activation_bytes(workload, job, designs),
        head_bytes=np.where(is_last, _head_bytes(workload, job, designs), 0),
        workspace_bytes=_workspace_bytes(workload, job, designs, layers),
        worst_stage=stage,
    )


def host_memory_per_npu(workload: Transformer, job: TrainingJob, designs: Designs) -> IntArray:
    """Return the bytes in host memory of the stage that needs most: a whole copy of what its layers offload.

    Weights, kept activations and optimizer states of layers (Calculon: Isaev 2023); gradients, which every micro-batch
    adds to, and the embedding and the head stay in the NPU's memory. The stages that can be the worst are those of
    `memory_per_npu`, for the same reason.

    Raises:
        LimitError: the job's activations may exceed 2^62 bytes.
    """
    check_range(workload, job)
    last = designs.pp - 1
    earliest_larger = np.maximum(last - workload.layers % designs.pp, 0)
    stages = (np.zeros_like(last), np.minimum(1, last), earliest_larger, last)
    return np.asarray(np.max([_stage_host_bytes(workload, job, designs, stage) for stage in stages], axis=0))


def _stage_host_bytes(workload: Transformer, job: TrainingJob, designs: Designs, stage: IntArray) -> IntArray:
    layers = layers_of_stage(workload.layers, designs.pp, stage)
    held = layers * _layer_share(workload, designs)
    weights = _sharded(held * job.bytes_per_weight, designs, _weights_sharded(job, designs))
    states = _sharded(held * job.bytes_per_optimizer_state, designs, designs.zero_stage >= 1)
    activations = _layers_kept(job, designs, stage, layers) * layer_activation_bytes(workload, job, designs)
    offloaded = designs.weight_offload * weights + designs.activation_offload * activations
    return np.asarray(offloaded + designs.optimizer_offload * states)


def _resident(layers: IntArray, offloaded: IntArray) -> IntArray:
    """Return how many of the layers stay in the NPU's memory."""
    return np.where(offloaded > 0, np.minimum(layers, _RESIDENT_LAYERS), layers)


def _layers_kept(job: TrainingJob, designs: Designs, stage: IntArray, layers: IntArray) -> IntArray:
    """Layers of a stage times the micro-batches whose activations each keeps."""
    batches, pieces, after = designs.micro_batches(job), designs.interleave, designs.pp - 1 - stage
    passes = np.where(pieces > 1, 2 * after + (pieces - 1) * designs.pp + 1, after + 1)
    return _ceil_div(layers * np.minimum(batches * pieces, passes), pieces)


def check_range(workload: Transformer, job: TrainingJob) -> None:
    """Raise a LimitError if some design of the job could need more than 2^62 bytes of states or activations."""
    state = job.bytes_per_weight + job.bytes_per_gradient + job.bytes_per_optimizer_state
    if 4 * workload.parameters() * max(1, state) >= 2**62:
        raise LimitError(
            f"{workload.parameters():.3g} parameters are beyond what is counted here (2^62 bytes)",
            hint="check layers, hidden and ffn of the workload",
        )
    per_token = sum(_stored_elements(workload)) * job.bytes_per_activation + 2 * _MASK_BYTES * workload.hidden
    scores = job.sequence * workload.heads * (2 * job.bytes_per_activation + _MASK_BYTES)
    outputs = workload.outputs * _LOGIT_BYTES
    tokens = job.global_batch * job.sequence
    if 2 * tokens * ((workload.layers + 1) * (per_token + scores) + outputs) >= 2**62:
        raise LimitError(
            f"{job.global_batch} sequences of {job.sequence} tokens are beyond what is counted here (2^62 bytes)",
            hint="check global_batch and sequence",
        )


def _sharded(held_bytes: IntArray, designs: Designs, sharded: NDArray[np.bool_]) -> IntArray:
    """Bytes per rank of a model state that ZeRO shards over dp * sp where told (Rajbhandari 2020)."""
    return _ceil_div(held_bytes, np.where(sharded, designs.shards, 1))


def _each_pass(job: TrainingJob, designs: Designs) -> NDArray[np.bool_]:
    """Whether weights are gathered and gradients reduced anew with every micro-batch.

    ZeRO-3 does so without a pipeline. With one, or below stage 3, traffic runs once a step (as the simulator has
    it), so what it moves stays whole in memory until the last micro-batch.
    """
    return np.asarray(((designs.zero_stage == 3) & (designs.pp == 1)) | (designs.micro_batches(job) == 1))


def _weights_sharded(job: TrainingJob, designs: Designs) -> NDArray[np.bool_]:
    return np.asarray((designs.zero_stage >= 3) & _each_pass(job, designs))


def _gradients_sharded(job: TrainingJob, designs: Designs) -> NDArray[np.bool_]:
    return np.asarray((designs.zero_stage >= 2) & _each_pass(job, designs))


def _layer_share(workload: Transformer, designs: Designs) -> IntArray:
    whole = workload.layer_replicated_parameters
    return _ceil_div(workload.layer_parameters - whole, designs.tp) + whole


def _embedding_share(workload: Transformer, designs: Designs) -> IntArray:
    whole = workload.embedding_replicated_parameters
    return _ceil_div(workload.embedding_parameters - whole, designs.tp) + whole


def _head_share(workload: Transformer, designs: Designs, *, alone: NDArray[np.bool_]) -> IntArray:
    """Parameters of the head; on a stage without the embedding it holds its own copy of a tied table."""
    output = workload.head_parameters - workload.norm_parameters
    copied = workload.output_matrix_parameters if workload.tied_embeddings else 0
    return _ceil_div(output + np.where(alone, copied, 0), designs.tp) + workload.norm_parameters


def _stored_elements(workload: Transformer) -> tuple[int, int]:
    """Elements per token a layer keeps: (whole on every tp rank, split over tp).

    Whole: the inputs of both norms, of qkv and of the MLP. Split: q, k, v, the input of the attention output,
    and inside the MLP every branch and their activated product.
    """
    branches = 2 if workload.gated_mlp else 1
    split = 2 * workload.query_width + 2 * workload.kv_width + (branches + 1) * workload.ffn
    return 4 * workload.hidden, split


def kept_bytes_per_token(workload: Transformer, job: TrainingJob) -> tuple[int, int, int]:
    """Return the bytes a layer keeps per token without recompute: (whole on every tp rank, split over tp, scores).

    Scores are split over tp, too: softmax output, and with dropout its mask and output.
    """
    whole, split = _stored_elements(workload)
    masks = 2 * workload.hidden * _MASK_BYTES if workload.dropout else 0
    per_score = job.bytes_per_activation * (2 if workload.dropout else 1)
    per_score += _MASK_BYTES if workload.dropout else 0
    scores = 0 if job.attention_kernel == "flash" else job.sequence * workload.heads * per_score
    return whole * job.bytes_per_activation + masks, split * job.bytes_per_activation, scores


def _stored_bytes(workload: Transformer, job: TrainingJob, designs: Designs) -> IntArray:
    """Bytes per token of a layer without recompute, the scores aside."""
    whole, split, _ = kept_bytes_per_token(workload, job)
    return _replicated(designs, whole) + _ceil_div(split, designs.tp)


def _score_bytes(workload: Transformer, job: TrainingJob, designs: Designs) -> IntArray:
    """Attention scores of one layer and micro-batch."""
    _, _, scores = kept_bytes_per_token(workload, job)
    return designs.tokens(job) * _ceil_div(scores, designs.tp)


def _replicated(designs: Designs, bytes_per_token: int) -> IntArray:
    """Bytes every tp rank keeps, or its share of them with sequence parallelism."""
    whole = np.full_like(designs.tp, bytes_per_token)
    return np.where(designs.sequence_parallel > 0, _ceil_div(whole, designs.tp), whole)


def _head_bytes(workload: Transformer, job: TrainingJob, designs: Designs) -> IntArray:
    """4 s b h (1 + v/h) / t with sequence parallelism (Korthikanti 2022, section 4.3); one micro-batch."""
    predictions = designs.micro_batch if workload.is_vision else designs.tokens(job)
    logits = predictions * _ceil_div(workload.outputs * _LOGIT_BYTES, designs.tp)
    inputs = _replicated(designs, 2 * workload.hidden * job.bytes_per_activation)
    return designs.tokens(job) * inputs + logits


def _workspace_bytes(workload: Transformer, job: TrainingJob, designs: Designs, layers: IntArray) -> IntArray:
    """One layer's recomputed activations, unsharded gradients and gathered weights."""
    scores = _score_bytes(workload, job, designs)
    layer = designs.tokens(job) * _stored_bytes(workload, job, designs) + scores
    recomputed = np.select([designs.recompute == "full", designs.recompute == "selective"], [layer, scores], 0)
    share, sharded = _layer_share(workload, designs), designs.shards > 1
    gradients = np.where(sharded & _gradients_sharded(job, designs), share * job.bytes_per_gradient, 0)
    gathered = np.minimum(layers, _GATHERED_LAYERS) * share * job.bytes_per_weight
    weights = np.where(sharded & _weights_sharded(job, designs), gathered, 0)
    return np.where(layers > 0, recomputed + gradients + weights, 0)


def _larger(one: MemoryBreakdown, other: MemoryBreakdown) -> MemoryBreakdown:
    """Per design the breakdown with the larger total, `one` where they are equal."""
    takes_other = other.total_bytes > one.total_bytes
    terms = (np.where(takes_other, getattr(other, term.name), getattr(one, term.name)) for term in fields(one))
    return MemoryBreakdown(*terms)


def _ceil_div(numerator: IntArray | int, denominator: IntArray) -> IntArray:
    return -(-numerator // denominator)
