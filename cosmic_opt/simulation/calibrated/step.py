"""The step: layers, pipeline, gradient traffic, optimizer and host put together; every term is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.communication import context_pass, stage_exchange_s, tensor_pass
from cosmic_opt.simulation.calibrated.data_parallel import (
    gradient_s,
    is_sharded,
    layer_parameters,
    optimizer_s,
    sharded_exposed_s,
    single_nic_s,
)
from cosmic_opt.simulation.calibrated.host import layer_host_s, paced_s
from cosmic_opt.simulation.calibrated.job import FloatArray, Terms, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import (
    Pass,
    attention_pass,
    cast_pass,
    elementwise_pass,
    embedding_pass,
    head_pass,
    matmul_pass,
)
from cosmic_opt.simulation.calibrated.moe import dispatch_pass, expert_cast_pass, experts_pass, permute_pass
from cosmic_opt.simulation.calibrated.pipeline import Stages, schedule

STRAGGLER_GPUS = 512


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one optimizer step; `step_s` is the sum of `terms` in their order, exactly."""

    step_s: FloatArray
    terms: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer and micro-batch: device seconds by class, and the part of host time the device waits for."""

    passes: Mapping[str, Pass]
    recompute_s: FloatArray
    host_s: FloatArray

    @property
    def device_s(self) -> FloatArray:
        """All device work of the layer."""
        return _total(self.passes).forward_s + _total(self.passes).backward_s + self.recompute_s

    @property
    def total_s(self) -> FloatArray:
        """The layer's time."""
        return self.device_s + self.host_s


def step_time(setup: TrainingSetup, designs: TrainingDesigns) -> StepTime:
    """Return the step time of each design and its breakdown.

    Terms: matmul, attention, elementwise, casts, recompute, tensor_parallel, context_parallel, dispatch, head, host,
    exchange, bubble, sharding, gradients, optimizer, stragglers. Data loading is not part of a step.
    """
    layer = _layer(setup, designs)
    head, embedding = head_pass(setup, designs), embedding_pass(setup, designs)
    head_device = head.forward_s + head.backward_s
    head_s = paced_s(head_device, np.full_like(head_device, setup.stack.host.micro_batch_s))
    embedding_s = embedding.forward_s + embedding.backward_s
    exchange = np.where(designs.pp > 1, stage_exchange_s(setup, designs) + setup.stack.host.exchange_s, 0.0)
    stages = schedule(setup, designs, layer.total_s, head_s, embedding_s, exchange)
    micro_batches = designs.micro_batches(setup)

    runs = micro_batches * stages.layers
    terms: Terms = {name: runs * (each.forward_s + each.backward_s) for name, each in layer.passes.items()}
    terms["recompute"] = runs * layer.recompute_s
    terms["host"] = runs * layer.host_s + micro_batches * stages.has_head * (head_s - head_device)
    ends = stages.has_head * head_device + stages.has_embedding * embedding_s
    terms["head"] = micro_batches * ends
    terms["exchange"] = micro_batches * exchange
    terms["bubble"] = stages.bubble_s
    terms["sharding"], terms["gradients"] = _weights(setup, designs, layer, head, stages)
    terms["optimizer"] = optimizer_s(setup, designs)
    busy = sum(terms.values(), np.zeros_like(designs.tp))
    doublings = np.log2(np.maximum(designs.gpus / STRAGGLER_GPUS, 1.0))
    terms["stragglers"] = setup.stack.straggler_per_doubling * doublings * busy
    return StepTime(sum(terms.values(), np.zeros_like(designs.tp)), terms)


def _layer(setup: TrainingSetup, designs: TrainingDesigns) -> _Layer:
    """Return one layer of the model; expert layers stand for all layers of a mixture of experts but its dense ones."""
    model, experts = setup.model, setup.model.experts
    passes: dict[str, Pass] = {}
    attention = attention_pass(setup, designs)
    matmuls = model.attention_matmuls
    if experts is None:
        matmuls += model.mlp_matmuls(model.ffn)
        ffn: FloatArray | float = model.ffn
    else:
        matmuls += model.mlp_matmuls(experts.shared * experts.ffn) if experts.shared else ()
        routed = 0.0 if setup.fused_experts else experts.top_k * experts.ffn * setup.capacity
        ffn = routed + experts.shared * experts.ffn
    passes["matmul"] = matmul_pass(setup, designs, matmuls)
    passes["attention"] = attention
    passes["elementwise"] = elementwise_pass(setup, designs, ffn)
    passes["casts"] = cast_pass(setup, designs, matmuls)
    passes["tensor_parallel"] = tensor_pass(setup, designs)
    passes["context_parallel"] = context_pass(setup, designs, attention)
    if experts is not None:
        passes["matmul"] += experts_pass(setup, designs, experts)
        passes["elementwise"] += permute_pass(setup, designs)
        passes["casts"] += expert_cast_pass(setup, designs, experts)
        passes["dispatch"] = dispatch_pass(setup, designs, experts)
    recompute = _recompute_s(designs, passes)
    whole = _total(passes)
    device = whole.forward_s + whole.backward_s + recompute
    return _Layer(passes, recompute, paced_s(device, layer_host_s(setup, designs)) - device)


def _recompute_s(designs: TrainingDesigns, passes: Mapping[str, Pass]) -> FloatArray:
    """Return forward work that backward runs again; whole layers repeat their collectives too (Korthikanti 2022)."""
    again = designs.recompute
    total = again.layers * _total(passes).forward_s
    rest = 1 - again.layers
    shares = {
        "attention": again.attention,
        "elementwise": again.elementwise,
        "matmul": again.matmul,
        "casts": again.matmul,
        "tensor_parallel": again.collectives,
    }
    for kind, share in shares.items():
        total = total + rest * share * passes[kind].forward_s
    return np.asarray(total)


def _weights(
    setup: TrainingSetup, designs: TrainingDesigns, layer: _Layer, head: Pass, stages: Stages
) -> tuple[FloatArray, FloatArray]:
    """Return (exposed traffic of sharded weights, exposed gradient traffic) of the step."""
    sharded = is_sharded(designs)
    per_micro_batch = np.zeros_like(designs.tp)
    if np.any(sharded) and setup.stack.single_nic_sharding:
        per_micro_batch = single_nic_s(setup, designs)
    elif np.any(sharded):
        whole = _total(layer.passes)
        dense, expert = layer_parameters(setup, designs)
        unit = sharded_exposed_s(
            setup, designs, whole.forward_s, whole.backward_s + layer.recompute_s + layer.host_s, dense + expert
        )
        ends = sharded_exposed_s(
            setup, designs, head.forward_s, head.backward_s, 2 * setup.model.head_parameters / designs.tp
        )
        per_micro_batch = setup.model.layers * unit + ends
    sharding = np.where(sharded, designs.micro_batches(setup) * per_micro_batch, 0.0)
    return sharding, np.where(sharded, 0.0, gradient_s(setup, designs, stages))


def _total(passes: Mapping[str, Pass]) -> Pass:
    total = list(passes.values())
    whole = total[0]
    for each in total[1:]:
        whole += each
    return whole
