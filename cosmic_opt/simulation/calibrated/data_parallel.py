"""Weights and gradients between data-parallel ranks: reductions, sharded weights, and what of them stays exposed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.groups import group_s, ranks_in_node
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.pipeline import Stages
from cosmic_opt.system.hardware import bytes_s
from cosmic_opt.workloads.footprint import expert_shards, layer_parameters, table_parameters, weight_shards
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stack import WEIGHT_BYTES
from cosmic_opt.workloads.stage_load import end_layers, first_layers, first_layers_model, most_layers


@dataclass(frozen=True, slots=True)
class Traffic:
    """Seconds of communication: what lengthens the step, and what hides behind compute."""

    exposed_s: FloatArray
    hidden_s: FloatArray

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.exposed_s + other.exposed_s, self.hidden_s + other.hidden_s)

    def times(self, count: FloatArray | int) -> Traffic:
        """Return `count` times as much."""
        return Traffic(self.exposed_s * count, self.hidden_s * count)


def is_sharded(designs: TrainingDesigns) -> FloatArray:
    """Return where weights are fully sharded and gathered anew for each micro-batch: ZeRO 3 without a pipeline."""
    return np.asarray((designs.zero_stage >= 3) & (designs.pp == 1))


def sharded_traffic_s(
    setup: TrainingSetup, designs: TrainingDesigns, forward_s: FloatArray, backward_s: FloatArray, weights: FloatArray
) -> Traffic:
    """Return gathers and reductions of one unit of `weights` beside its forward and backward compute.

    Time is max(c, x) + xi min(c, x) with traffic x and the stack's xi: how far a generation fails to overlap.
    Forward gathers, backward gathers again (unless kept) and reduces the gradients. Without prefetch the layer waits
    for its weights, and only the reduction hides. Under hybrid sharding all of it stays in the shard group, whose
    gradients are then reduced over its copies, on a stream of its own (PyTorch FSDP2, `all_reduce_stream`).
    """
    ranks, inner = weight_shards(designs), designs.tp
    gather = group_s(setup, "all_gather", ranks, inner, WEIGHT_BYTES * weights)
    again, early = designs.reshard * gather, designs.prefetch
    free = reduction_s(setup, designs, ranks, inner, weights, early * again)
    return _beside(setup, forward_s, gather, early * gather) + _beside(
        setup, backward_s, (1 - early) * again + free, free
    )


def reduction_s(
    setup: TrainingSetup,
    designs: TrainingDesigns,
    shards: FloatArray,
    inner: FloatArray,
    weights: FloatArray,
    gather_s: FloatArray | float = 0.0,
) -> FloatArray:
    """Return the reduction of gradients, scattered over the shards of a copy and summed over the copies.

    `gather_s` is what else the ranks of a copy exchange meanwhile. If a copy stays inside a node and the copies do not,
    the two use different fabrics and work side by side, one on the next unit's gradients; else they take turns.
    """
    size, copies, distance = setup.gradient_bytes * weights, designs.shard_replicas, inner * shards
    within = gather_s + group_s(setup, "reduce_scatter", shards, inner, size)
    between = group_s(setup, "all_reduce", copies, distance, size / shards)
    apart = (ranks_in_node(setup, shards, inner) == shards) & (ranks_in_node(setup, copies, distance) < copies)
    return np.where(apart, np.maximum(within, between), within + between)


def _beside(setup: TrainingSetup, compute_s: FloatArray, traffic_s: FloatArray, free_s: FloatArray) -> Traffic:
    """Return what shows, and the rest: max(c, x) + xi min(c, x) - c of the part x that is free to hide."""
    hidden = (1 - setup.stack.overlap.fsdp_exposed) * np.minimum(compute_s, free_s)
    return Traffic(traffic_s - hidden, hidden)


def stage_parameters(model: LanguageModel, designs: TrainingDesigns) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the fullest stage on one rank, its table included: (split over tp, routed experts).

    Of a mixture that begins with dense layers it is the last but one, or the last of two: it has most experts.
    """
    layers = most_layers(model.layers, designs)
    dense, expert = layer_parameters(model, designs)
    first = first_layers_model(model)
    held = table_parameters(model, designs)
    if first is not None:
        middle = designs.pp > 2
        few = first_layers(model, designs, designs.pp - np.where(middle, 2.0, 1.0))
        layers = np.where(middle, layers, end_layers(model.layers, designs)[1]) - few
        held = held + few * layer_parameters(first, designs)[0]
    return layers * dense + held, layers * expert


def weight_casts_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return seconds of casting the fullest stage's weights where that is done once a step; tables stay as they are."""
    if not setup.casts_weights_once:
        return np.zeros_like(designs.tp)
    held, expert = stage_parameters(setup.model, designs)
    elements = held - table_parameters(setup.model, designs) + expert
    return bytes_s(setup.device, setup.recipe.cast_bytes * elements, setup.stack.elementwise_fraction)


def single_nic_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the traffic of ZeRO-3 as built in 2021, per micro-batch: three passes over all weights, nothing hidden.

    Each rank receives the weights twice and sends their gradients once through one network card
    (Rajbhandari 2020, section 7; the published steps imply 21 to 31 GB/s).
    """
    passed = 3 * WEIGHT_BYTES * setup.model.parameters() / designs.tp
    return np.where(weight_shards(designs) > 1, passed / setup.nic_bytes_per_s, 0.0)


def gradient_s(setup: TrainingSetup, designs: TrainingDesigns, stages: Stages) -> Traffic:
    """Return the once-a-step reduction, and the gather of weights that follows it.

    2021: one all-reduce after the last backward pass. Later: a reduce-scatter and an all-gather that hide behind the
    last micro-batch, or under an interleaved schedule behind min(m, pp) of them, where a share stays exposed.
    """
    dense, expert = stage_parameters(setup.model, designs)
    groups = [(dense, weight_shards(designs), designs.tp)]
    if setup.model.experts is not None:
        groups.append((expert, expert_shards(designs), designs.ep))
    size, copies = setup.gradient_bytes, designs.shard_replicas
    if (setup.gradient_overlap or setup.stack.overlap.gradient) == "none":
        shown = sum(
            (group_s(setup, "all_reduce", ranks * copies, inner, size * held) for held, ranks, inner in groups),
            np.zeros_like(designs.tp),
        )
        return Traffic(shown, np.zeros_like(shown))
    traffic = np.zeros_like(designs.tp)
    for held, ranks, inner in groups:
        traffic = traffic + reduction_s(setup, designs, ranks, inner, held)
        traffic = traffic + group_s(setup, "all_gather", ranks, inner, WEIGHT_BYTES * held)
    overlap, many = setup.stack.overlap, designs.interleave > 1
    passes = np.where(many, np.minimum(designs.micro_batches(setup), designs.pp), 1.0)
    left = traffic - overlap.hidden_window * passes * stages.longest_s
    shown = np.maximum(left, np.where(many, overlap.least_exposed * traffic, 0.0))
    return Traffic(shown, traffic - shown)


def optimizer_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the optimizer step: its traffic over the parameters a rank owns, and the host's launches.

    The norm and the update read the gradient, master weight and moments are read and written, the weight is written:
    34 bytes with fp32 gradients and moments.
    """
    stack = setup.stack
    moved_bytes = 2 * stack.held_gradient_bytes + 2 * stack.adam_bytes + WEIGHT_BYTES
    held, expert = stage_parameters(setup.model, designs)
    sharded = designs.zero_stage >= 1
    owned = held / np.where(sharded, weight_shards(designs), 1.0)
    owned = owned + expert / np.where(sharded, expert_shards(designs), 1.0)
    bandwidth = setup.device.memory_bytes_per_s * stack.elementwise_fraction
    return np.asarray(moved_bytes * owned / bandwidth + stack.host.optimizer_s)
