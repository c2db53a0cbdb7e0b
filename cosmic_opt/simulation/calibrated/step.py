"""The step: layers, pipeline, gradient traffic, optimizer and host put together; every term is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.simulation.calibrated.communication import contention_s, stage_exchange_s
from cosmic_opt.simulation.calibrated.data_parallel import (
    Traffic,
    gradient_s,
    is_sharded,
    optimizer_s,
    sharded_traffic_s,
    single_nic_s,
    weight_casts_s,
)
from cosmic_opt.simulation.calibrated.job import FloatArray, Terms, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.pipeline import Stages, schedule
from cosmic_opt.simulation.calibrated.work import Work, micro_batch_work
from cosmic_opt.workloads.footprint import layer_parameters, table_parameters
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stage_load import first_layers_model

STRAGGLER_GPUS = 512


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one optimizer step; `step_s` is the sum of `terms` in their order, exactly."""

    step_s: FloatArray
    terms: Mapping[str, FloatArray]


def step_time(setup: TrainingSetup, designs: TrainingDesigns) -> StepTime:
    """Return the step time of each design and its breakdown.

    Terms: matmul, attention, elementwise, casts, tensor_parallel, context_parallel, dispatch (experts only),
    contention, recompute, host, head, multi_token_prediction (models that train it only), exchange, bubble, sharding,
    gradients, optimizer, stragglers. Data loading is not part of a step.

    Raises:
        SpecError: a stack that shards weights over all ranks is told to keep copies of them.
    """
    work = micro_batch_work(setup, designs)
    stages = schedule(setup, designs, work, stage_exchange_s(setup, designs) + setup.stack.host.exchange_s)
    micro_batches = designs.micro_batches(setup)
    heads = micro_batches * stages.has_head

    terms = _layer_terms(work, micro_batches * (stages.layers - stages.first_layers))
    if work.first is not None:
        for name, each in _layer_terms(work.first, micro_batches * stages.first_layers).items():
            terms[name] = terms[name] + each
    terms["casts"] = terms["casts"] + weight_casts_s(setup, designs)
    terms["host"] = terms["host"] + heads * work.head_wait_s
    terms["head"] = heads * work.head.both_s + micro_batches * stages.has_embedding * work.embedding.both_s
    if setup.model.mtp_layers:
        terms["multi_token_prediction"] = heads * work.mtp_s
    terms["exchange"] = micro_batches * stages.exchange_s
    terms["bubble"] = stages.bubble_s
    sharding, gradients = _weights(setup, designs, work, stages)
    terms["sharding"], terms["gradients"] = sharding.exposed_s, gradients.exposed_s
    terms["contention"] = terms["contention"] + contention_s(setup, sharding.hidden_s + gradients.hidden_s)
    terms["optimizer"] = optimizer_s(setup, designs)
    busy = sum(terms.values(), np.zeros_like(designs.tp))
    doublings = np.log2(np.maximum(designs.gpus / STRAGGLER_GPUS, 1.0))
    terms["stragglers"] = setup.stack.straggler_per_doubling * doublings * busy
    return StepTime(sum(terms.values(), np.zeros_like(designs.tp)), terms)


def _layer_terms(work: Work, runs: FloatArray) -> Terms:
    """Return the terms of so many runs of a layer."""
    terms = {name: runs * each.both_s for name, each in work.layer.items()}
    return terms | {"recompute": runs * work.recompute_s, "host": runs * work.host_s}


def _weights(setup: TrainingSetup, designs: TrainingDesigns, work: Work, stages: Stages) -> tuple[Traffic, Traffic]:
    """Return (traffic of sharded weights, gradient traffic) of the step.

    Raises:
        SpecError: a stack that shards over all ranks is told to keep copies.
    """
    sharded, nothing = is_sharded(designs), np.zeros_like(designs.tp)
    per_micro_batch = Traffic(nothing, nothing)
    if np.any(sharded) and setup.stack.single_nic_sharding:
        _refuse_copies(setup, designs.shard_replicas[sharded])
        per_micro_batch = Traffic(single_nic_s(setup, designs), nothing)
    elif np.any(sharded):
        head_s = work.head.both_s + work.head_wait_s
        ends = sharded_traffic_s(setup, designs, *_windows(head_s, head_s), table_parameters(setup.model, designs))
        per_micro_batch = ends
        for layer, model, count in _kinds(setup, work):
            dense, expert = layer_parameters(model, designs)
            unit = sharded_traffic_s(setup, designs, *_windows(layer.plain_s, layer.layer_s), dense + expert)
            per_micro_batch = per_micro_batch + unit.times(count)
    sharding = per_micro_batch.times(np.where(sharded, designs.micro_batches(setup), 0.0))
    return sharding, gradient_s(setup, designs, stages).times(np.where(sharded, 0, 1))


def _refuse_copies(setup: TrainingSetup, shard_replicas: FloatArray) -> None:
    """Refuse copies of sharded weights where the stack has none.

    Raises:
        SpecError: there is more than one copy.
    """
    if np.any(shard_replicas > 1):
        raise SpecError(
            f"{setup.stack.name} shards weights over all ranks: shard_replicas is {shard_replicas.max():g}",
            where=Where(key="shard_replicas"),
            hint="write 1",
        )


def _kinds(setup: TrainingSetup, work: Work) -> list[tuple[Work, LanguageModel, int]]:
    """Return each kind of layer: its work, a model of such layers, and how many there are of it.

    Those of multi-token prediction are like the last ones; their joining maps, gathered beside them, are left out: at
    most 2 h^2 of a layer's 12 h^2 and more.
    """
    first = first_layers_model(setup.model)
    count = setup.model.layers + setup.model.mtp_layers
    if work.first is None or first is None:
        return [(work, setup.model, count)]
    return [(work.first, first, first.layers), (work, setup.model, count - first.layers)]


def _windows(plain_s: FloatArray, whole_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (forward, backward) of a unit that takes `whole_s`, and `plain_s` of it without recompute.

    A forward pass has one of three products, backward two (Narayanan 2021, eq. 3) and all that it runs again: exactly
    what recompute adds to the time it adds to a window, so that it never hides more traffic than it costs. The third
    depends on no hardware: a faster device shortens the windows, together, by no more than the time it saves.
    """
    forward_s = plain_s / 3
    return forward_s, whole_s - forward_s
