"""Weights and gradients between data-parallel ranks: reductions, sharded weights, and what of them stays exposed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.groups import group_s, ranks_in_node
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.pipeline import Stages
from cosmic_opt.system.hardware import bytes_s
from cosmic_opt.workloads.footprint import expert_shards, weight_shards
from cosmic_opt.workloads.stack import WEIGHT_BYTES
from cosmic_opt.workloads.stage_weights import StageWeights, heavy_stages


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


def weight_casts_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return seconds of casting the weights of the heaviest stage, where that is done once a step; tables stay."""
    if not setup.casts_weights_once:
        return np.zeros_like(designs.tp)
    elements = _most(stage.layers + stage.experts for stage in heavy_stages(setup.model, designs))
    return bytes_s(setup.device, setup.recipe.cast_bytes * elements, setup.stack.elementwise_fraction)


def single_nic_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the traffic of ZeRO-3 as built in 2021, per micro-batch: three passes over all weights, nothing hidden.

    Each rank receives the weights twice and sends their gradients once through one network card
    (Rajbhandari 2020, section 7; the published steps imply 21 to 31 GB/s).
    """
    passed = 3 * WEIGHT_BYTES * setup.model.trained_parameters() / designs.tp
    return np.where(weight_shards(designs) > 1, passed / setup.nic_bytes_per_s, 0.0)


def gradient_s(setup: TrainingSetup, designs: TrainingDesigns, stages: Stages) -> Traffic:
    """Return the once-a-step reduction, and the gather of weights that follows it.

    2021: one all-reduce after the last backward pass. Later: a reduce-scatter and an all-gather that hide behind the
    last micro-batch, or under an interleaved schedule behind min(m, pp) of them, where a share stays exposed.
    """
    hides = (setup.gradient_overlap or setup.stack.overlap.gradient) != "none"
    exchange_s = _scattered_s if hides else _reduced_s
    traffic = _most(
        sum(
            (exchange_s(setup, designs, *group) for group in _exchanged(setup, designs, stage)),
            np.zeros_like(designs.tp),
        )
        for stage in heavy_stages(setup.model, designs)
    )
    if not hides:
        return Traffic(traffic, np.zeros_like(traffic))
    overlap, many = setup.stack.overlap, designs.interleave > 1
    passes = np.where(many, np.minimum(designs.micro_batches(setup), designs.pp), 1.0)
    left = traffic - overlap.hidden_window * passes * stages.longest_s
    shown = np.maximum(left, np.where(many, overlap.least_exposed * traffic, 0.0))
    return Traffic(shown, traffic - shown)


def _exchanged(
    setup: TrainingSetup, designs: TrainingDesigns, stage: StageWeights
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Return (weights, ranks that share them, distance of these ranks) of what is not an expert, and of experts."""
    groups = [(stage.dense, weight_shards(designs), designs.tp)]
    if setup.model.experts is not None:
        groups.append((stage.experts, expert_shards(designs), designs.ep))
    return groups


def _reduced_s(
    setup: TrainingSetup, designs: TrainingDesigns, held: FloatArray, ranks: FloatArray, inner: FloatArray
) -> FloatArray:
    """Return the all-reduce of the gradients of `held` weights over all their copies."""
    return group_s(setup, "all_reduce", ranks * designs.shard_replicas, inner, setup.gradient_bytes * held)


def _scattered_s(
    setup: TrainingSetup, designs: TrainingDesigns, held: FloatArray, ranks: FloatArray, inner: FloatArray
) -> FloatArray:
    """Return the reduction of the gradients of `held` weights to their shards, and the gather of new weights."""
    gather = group_s(setup, "all_gather", ranks, inner, WEIGHT_BYTES * held)
    return reduction_s(setup, designs, ranks, inner, held) + gather


def _most(values: Iterable[FloatArray]) -> FloatArray:
    return np.asarray(np.maximum.reduce(list(values)))


def optimizer_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return the optimizer step: its traffic over the parameters a rank owns, and the host's launches.

    The norm and the update read the gradient, master weight and moments are read and written, the weight is written:
    34 bytes with fp32 gradients and moments.
    """
    stack = setup.stack
    moved_bytes = 2 * stack.held_gradient_bytes + 2 * stack.adam_bytes + WEIGHT_BYTES
    sharded = designs.zero_stage >= 1
    shards, expert_ranks = (np.where(sharded, each(designs), 1.0) for each in (weight_shards, expert_shards))
    owned = _most(stage.dense / shards + stage.experts / expert_ranks for stage in heavy_stages(setup.model, designs))
    bandwidth = setup.device.memory_bytes_per_s * stack.elementwise_fraction
    return np.asarray(moved_bytes * owned / bandwidth + stack.host.optimizer_s)
