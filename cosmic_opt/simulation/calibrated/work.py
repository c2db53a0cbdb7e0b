"""What one rank does for one micro-batch: a layer, the head and the embedding, by class of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.cells import distinct_cells
from cosmic_opt.simulation.calibrated.communication import contention_s, tensor_pass
from cosmic_opt.simulation.calibrated.context import context_pass, shared_attention_pass
from cosmic_opt.simulation.calibrated.host import layer_host_s, paced_s
from cosmic_opt.simulation.calibrated.job import FloatArray, Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import (
    Pass,
    cast_pass,
    elementwise_pass,
    embedding_pass,
    head_pass,
    matmul_pass,
)
from cosmic_opt.simulation.calibrated.modules import modules_s
from cosmic_opt.simulation.calibrated.moe import (
    dispatch_exposed,
    dispatch_pass,
    expert_cast_pass,
    experts_pass,
    output_bias_pass,
    permute_pass,
)
from cosmic_opt.simulation.calibrated.mtp import joining_pass
from cosmic_opt.workloads.stage_load import first_layers_model


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of one micro-batch on one rank, one entry per design.

    Attributes:
        layer: Device work of one layer by class, its collectives included.
        whole_layer: The sum of `layer`.
        recompute_s: Forward work of the layer that backward runs again.
        launch_s: Time the host takes to launch the layer.
        host_s: Time of the layer the device waits for its host.
        plain_s: The layer's time if backward ran nothing again, waiting for the host included.
        head: Logits and loss; `embedding` the look-up.
        head_wait_s: Time of the head the device waits for its host.
        mtp_s: All layers of multi-token prediction with their logits, waiting for the host included.
        first: The same of one of the layers a mixture of experts begins with, whose MLP is dense; None: it has none.
    """

    layer: Mapping[str, Pass]
    whole_layer: Pass
    recompute_s: FloatArray
    launch_s: FloatArray
    host_s: FloatArray
    plain_s: FloatArray
    head: Pass
    embedding: Pass
    head_wait_s: FloatArray
    mtp_s: FloatArray
    first: Work | None = None

    @property
    def device_s(self) -> FloatArray:
        """The layer's time on a device that waits for nobody."""
        return self.whole_layer.both_s + self.recompute_s

    @property
    def layer_s(self) -> FloatArray:
        """The layer's time."""
        return self.device_s + self.host_s

    def take(self, index: NDArray[np.intp]) -> Work:
        """Return the entries at `index`."""
        return Work(
            {name: each.take(index) for name, each in self.layer.items()},
            self.whole_layer.take(index),
            self.recompute_s[index],
            self.launch_s[index],
            self.host_s[index],
            self.plain_s[index],
            self.head.take(index),
            self.embedding.take(index),
            self.head_wait_s[index],
            self.mtp_s[index],
            None if self.first is None else self.first.take(index),
        )


def micro_batch_work(setup: TrainingSetup, designs: TrainingDesigns) -> Work:
    """Return the work of each design, computed once for each distinct layer."""
    cells, index = distinct_cells(designs)
    return _work(setup, cells).take(index)


def _work(setup: TrainingSetup, cells: TrainingDesigns) -> Work:
    """Return the work of a layer and of both ends."""
    head = head_pass(setup, cells)
    launched = np.full_like(head.both_s, setup.stack.host.micro_batch_s)
    first = first_layers_model(setup.model)
    layer, embedding = _layer_work(setup, cells), embedding_pass(setup, cells)
    head_s = paced_s(head.both_s, launched)
    further_s = embedding.both_s + joining_pass(setup, cells).both_s + layer.layer_s + head_s
    return replace(
        layer,
        head=head,
        embedding=embedding,
        head_wait_s=head_s - head.both_s,
        mtp_s=setup.model.mtp_layers * further_s,
        first=None if first is None else _layer_work(replace(setup, model=first), cells),
    )


def _layer_work(setup: TrainingSetup, cells: TrainingDesigns) -> Work:
    """Return the work of a layer alone."""
    layer = _layer(setup, cells)
    whole = total(layer)
    recompute = _recompute_s(cells, layer, whole) + modules_s(setup, cells)
    device, launch = whole.both_s + recompute, layer_host_s(setup, cells)
    once = cells.with_recompute(Recompute.of(np.zeros_like(cells.tp)))
    plain = paced_s(whole.both_s, layer_host_s(setup, once))
    none = Pass.zero(cells)
    wait, nothing = paced_s(device, launch) - device, none.forward_s
    return Work(layer, whole, recompute, launch, wait, plain, none, none, nothing, nothing)


def _layer(setup: TrainingSetup, designs: TrainingDesigns) -> dict[str, Pass]:
    """Return one layer of the model, with experts where it has any."""
    model, experts = setup.model, setup.model.experts
    passes: dict[str, Pass] = {}
    attention = shared_attention_pass(setup, designs)
    matmuls = model.attention_matmuls
    if experts is None:
        matmuls += model.mlp_matmuls(model.ffn)
    elif experts.shared:
        matmuls += model.mlp_matmuls(experts.shared * experts.ffn)
    passes["matmul"] = matmul_pass(setup, designs, matmuls)
    passes["attention"] = attention
    passes["elementwise"] = elementwise_pass(setup, designs)
    passes["casts"] = cast_pass(setup, designs, matmuls)
    passes["tensor_parallel"] = tensor_pass(setup, designs)
    passes["context_parallel"], hidden = context_pass(setup, designs, attention)
    if experts is not None:
        passes["matmul"] += experts_pass(setup, designs, experts)
        passes["elementwise"] += permute_pass(setup, designs) + output_bias_pass(setup, designs)
        passes["casts"] += expert_cast_pass(setup, designs, experts)
        dispatch = dispatch_pass(setup, designs, experts)
        passes["dispatch"] = dispatch_exposed(setup, designs, dispatch, total(passes))
        hidden += dispatch - passes["dispatch"]
    passes["contention"] = Pass(contention_s(setup, hidden.forward_s), contention_s(setup, hidden.backward_s))
    return passes


def _recompute_s(designs: TrainingDesigns, passes: Mapping[str, Pass], whole: Pass) -> FloatArray:
    """Return forward work that backward runs again, single modules aside; whole layers repeat their collectives too
    (Korthikanti 2022)."""
    again = designs.recompute
    total = again.layers * whole.forward_s
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


def total(passes: Mapping[str, Pass]) -> Pass:
    """Return the sum of all classes of work."""
    first, *rest = passes.values()
    whole = first
    for each in rest:
        whole += each
    return whole
