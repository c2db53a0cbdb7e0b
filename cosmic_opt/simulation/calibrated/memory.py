"""Bytes per GPU: Korthikanti's first-stage formulas exactly, and the footprint a training prediction is checked by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.data_parallel import expert_copies, layer_parameters, table_parameters
from cosmic_opt.simulation.calibrated.groups import weight_shards
from cosmic_opt.simulation.calibrated.job import FloatArray, Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.pipeline import most_layers
from cosmic_opt.workloads.language_model import LanguageModel

STATE_BYTES = 18
"""Per parameter: 2 weight, 4 gradient, 12 of Adam (Narayanan 2021, section 3.5)."""
WEIGHT_AND_GRADIENT_BYTES = 6
LOGIT_BYTES = 6
"""A logit in 16 bits and its gradient in fp32 (Korthikanti 2022, section 4.3)."""
ELEMENTWISE_SHARE = 0.4
"""Share of kept activations that cheap kernels can produce again: norm and activation outputs."""
WORKSPACE_BYTES = 4e9
"""Context, communication buffers, allocator slack."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the first pipeline stage of each design."""

    states_bytes: FloatArray
    activations_bytes: FloatArray

    @property
    def total_bytes(self) -> FloatArray:
        """States, activations and workspace."""
        return np.asarray(self.states_bytes + self.activations_bytes + WORKSPACE_BYTES)


def in_flight(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return micro-batches whose activations the first stage holds at once, in units of its layers.

    1F1B keeps pp, an interleaved schedule pp (1 + (pp - 1) / (pp v)) (Korthikanti 2022, section 4.2.3), GPipe all.
    """
    count = designs.micro_batches(setup)
    if setup.pipeline == "gpipe":
        return count
    more = np.where(designs.interleave > 1, 1 + (designs.pp - 1) / (designs.pp * designs.interleave), 1.0)
    return np.asarray(np.minimum(count, designs.pp * more))


def layer_activation_bytes(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return bytes one layer keeps per micro-batch without recompute.

    Inputs of norms and maps are whole on each tp rank without sequence parallelism; queries, keys, values and the
    MLP's branches are split. Unfused attention keeps its scores: 5 a s / h per token with dropout (Korthikanti 2022).
    """
    model, experts = setup.model, setup.model.experts
    whole = (2 * 4 + (2 if model.dropout else 0)) * model.hidden
    ffn = model.ffn
    inside = 2 * (2 * model.score_width + model.kv_width)
    if experts is not None:
        ffn = experts.top_k * experts.ffn + experts.shared * experts.ffn
        inside += 2 * 2 * experts.top_k * model.hidden
    inside += 2 * ffn * (3 if model.gated_mlp else 2)
    if setup.stack.attention.kind == "unfused":
        inside += (5 if model.dropout else 2) * model.heads * setup.sequence
    split = designs.tp if setup.sequence_parallel else 1.0
    return np.asarray(designs.tokens(setup) * (whole / split + inside / designs.tp))


def footprint(setup: TrainingSetup, designs: TrainingDesigns) -> Footprint:
    """Return the bytes of the first stage under the designs' recompute, embedding included."""
    layers = most_layers(setup.model.layers, designs)
    kept = layer_activation_bytes(setup, designs)
    again = designs.recompute
    split = designs.tp if setup.sequence_parallel else 1.0
    inputs = 2 * designs.tokens(setup) * setup.model.hidden / split
    partly = kept * (1 - ELEMENTWISE_SHARE * again.elementwise)
    if setup.stack.attention.kind == "unfused":
        scores = designs.tokens(setup) * 5 * setup.model.heads * setup.sequence / designs.tp
        partly = partly - again.attention * scores
    per_layer = again.layers * inputs + (1 - again.layers) * np.maximum(partly, inputs)
    logits = LOGIT_BYTES * designs.tokens(setup) * setup.model.vocabulary / designs.tp
    activations = layers * per_layer * in_flight(setup, designs) + np.where(designs.pp == 1, logits, 0.0)
    return Footprint(states_bytes(setup, designs), activations)


def states_bytes(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return weights, gradients and optimizer states of the first stage, sharded as ZeRO says.

    Stage 1 and 2 shard what Adam keeps (gradients stay whole while micro-batches accumulate), stage 3 everything.
    """
    layers = most_layers(setup.model.layers, designs)
    dense, expert = layer_parameters(setup, designs)
    tables = table_parameters(setup, designs)
    total = np.zeros_like(designs.tp)
    for held, copies in ((layers * dense + tables, weight_shards(designs)), (layers * expert, expert_copies(designs))):
        whole = held * np.where(designs.zero_stage >= 3, STATE_BYTES / copies, WEIGHT_AND_GRADIENT_BYTES)
        adam = held * (STATE_BYTES - WEIGHT_AND_GRADIENT_BYTES) / np.where(designs.zero_stage >= 1, copies, 1.0)
        total = total + whole + np.where(designs.zero_stage >= 3, 0.0, adam)
    return total


def implied_recompute(setup: TrainingSetup, designs: TrainingDesigns) -> Recompute:
    """Return the least recompute under which each design fits its device, or all of it where none does.

    First what is cheap to produce again is dropped; then so many layers run forward twice as memory demands, which
    is linear in their share.
    """
    nothing, everything = np.zeros_like(designs.tp), np.ones_like(designs.tp)
    keep, cheap, full = (
        footprint(setup, designs.with_recompute(Recompute.of(layers, elementwise=again))).total_bytes
        for layers, again in ((nothing, 0), (nothing, 1), (everything, 1))
    )
    capacity = setup.device.memory_bytes
    drop = (keep > capacity).astype(float)
    share = np.clip((cheap - capacity) / np.maximum(cheap - full, 1.0), 0.0, 1.0)
    return Recompute(np.where(drop > 0, share, 0.0), nothing, drop, nothing, nothing)


def published_states_bytes(model: LanguageModel, tp: int, pp: int) -> float:
    """Return weights and optimizer of one stage by the published formula, embeddings left out.

    18 bytes x (12 h^2 + 13 h) L / (p t): Korthikanti 2022, section 4.1, and Narayanan 2021, section 3.5.
    """
    return STATE_BYTES * (12 * model.hidden**2 + 13 * model.hidden) * model.layers / (pp * tp)


def first_stage_states_bytes(model: LanguageModel, tp: int, pp: int) -> float:
    """Return the same with the token table the first stage really holds: + 18 V h / t."""
    return published_states_bytes(model, tp, pp) + STATE_BYTES * model.head_parameters / tp


def published_activation_bytes(
    model: LanguageModel,
    sequence: int,
    micro_batch: int,
    *,
    tp: int,
    pp: int,
    interleave: int,
    selective: bool,
    sequence_parallel: bool,
) -> float:
    """Return activations of the first stage (Korthikanti 2022, Table 2 and section 4.2.3).

    s b h (34 + 5 a s / h) / t per layer, without the term in a under selective recompute; 10 of the 34 stay whole
    without sequence parallelism. Times L / p layers and p (1 + (p - 1) / (p v)) micro-batches (p if v = 1).
    """
    scores = 0.0 if selective else 5 * model.heads * sequence / model.hidden
    whole = 10 / tp if sequence_parallel else 10
    per_layer = sequence * micro_batch * model.hidden * (whole + (24 + scores) / tp)
    held = pp * (1 + (pp - 1) / (pp * interleave)) if interleave > 1 else pp
    return per_layer * model.layers / pp * held
