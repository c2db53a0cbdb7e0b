"""The operator graph of a training step: what each pipeline stage computes and communicates, node by node.

A stage is a row of buckets: the embedding, equal layers, the head. A bucket is worked forward and backward once per
micro-batch; its weights are gathered and its gradients reduced over data parallelism. Nodes of one pass depend on
the node before; sends join the stages, in the order of one-forward-one-backward (Narayanan 2021, 2.2.1). An interleaved
stage is cut in pieces, and a micro-batch goes through all stages once per piece (2.2.2).

Where communication stands: tensor parallelism synchronises the residual stream before and after each pair of GEMMs
(Shoeybi 2019; with sequence parallelism as a gather and a reduce-scatter, Korthikanti 2022), the vocabulary's maps
likewise; context parallelism gathers keys and values before attention and reduces their gradients after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise, product
from typing import NamedTuple

from cosmic_opt.workloads.operators import (
    Operator,
    backward_layer,
    embedding_operators,
    forward_layer,
    head_operators,
    selective_recompute,
)
from cosmic_opt.workloads.parallelism import Parallelism, stage_layers
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer

STREAM, KEYS, LAYER, EMBEDDING, HEAD = "stream", "keys", "layer", "embedding", "head"
"""Buffers: the residual stream, keys and values, and the parameters of a bucket."""

TENSOR, CONTEXT, DATA, PIPELINE = "tensor", "context", "data", "pipeline"
"""Groups that communicate: over tp, over sp, over dp * sp, and from stage to stage."""

GRADIENT = "_gradient"
_TENSOR_PHASES = {
    "qkv": ("gather", ""),
    "attention_output": ("", "reduce"),
    "mlp_up": ("gather", ""),
    "mlp_down": ("", "reduce"),
}
"""Synchronisation before and after the GEMMs of a layer going forward; going backward both swap places and kinds."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Operators that run one after the other; `part` names the group of operators they come from."""

    name: str
    part: str
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Communication:
    """A collective (or "send") of a full buffer of `size_bytes` over a group, per NPU.

    Attributes:
        name: For people.
        collective: all_reduce, reduce_scatter, all_gather or send.
        group: Of TENSOR, CONTEXT, DATA, PIPELINE.
        buffer: Of STREAM, KEYS, LAYER, EMBEDDING, HEAD.
        size_bytes: The full buffer, exact.
        blocking: Whether compute waits for it.
    """

    name: str
    collective: str
    group: str
    buffer: str
    size_bytes: Fraction
    blocking: bool = True


Node = Compute | Communication


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is gathered, worked and reduced together; `gather` and `reduce` are None where nothing is."""

    name: str
    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    gather: Communication | None
    reduce: Communication | None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one pass of a stage works: the whole stage, or one of the pieces that an interleaved stage is cut in.

    Attributes:
        stage, index: Number `index` of the pieces of stage `stage`.
        buckets: In forward order, with a name for each.
        send_forward, send_backward: The messages to the pieces after and before it, None at the ends of the model.
    """

    stage: int
    index: int
    buckets: tuple[tuple[str, Bucket], ...]
    send_forward: Communication | None
    send_backward: Communication | None


@dataclass(frozen=True)
class Stage:
    """A pipeline stage: its pieces in forward order, one unless stages are interleaved."""

    index: int
    pieces: tuple[Piece, ...]

    @cached_property
    def buckets(self) -> tuple[tuple[str, Bucket], ...]:
        """Return the buckets of all pieces, in forward order."""
        return tuple(bucket for piece in self.pieces for bucket in piece.buckets)

    @property
    def send_forward(self) -> Communication | None:
        """Return the message with which a micro-batch leaves the stage for good, going forward."""
        return self.pieces[-1].send_forward

    @property
    def send_backward(self) -> Communication | None:
        """Return the message with which a micro-batch leaves the stage for good, going backward."""
        return self.pieces[0].send_backward


class Pass(NamedTuple):
    """One pass of a stage: its direction, the piece it works and the micro-batch."""

    forward: bool
    piece: int
    batch: int


@dataclass(frozen=True)
class TrainingGraph:
    """A training step.

    Attributes:
        stages: In forward order.
        micro_batches: Passes of each piece, forward and backward.
        gathers_each_pass: Whether weights are gathered for every pass, and gradients reduced after every one: ZeRO-3
            without a pipeline. Else weights are gathered for the first forward pass, gradients reduced after the last.
        gathers_backward: Whether a backward pass that reduces gathers weights again, the embedding's aside (its
            gradient needs none): ZeRO-3 where it drops them in between.
    """

    stages: tuple[Stage, ...]
    micro_batches: int
    gathers_each_pass: bool
    gathers_backward: bool

    @property
    def pieces(self) -> int:
        """Return the pieces of each stage."""
        return len(self.stages[0].pieces)

    @cached_property
    def forward_passes(self) -> tuple[tuple[int, int], ...]:
        """Return piece and micro-batch of every forward pass of a stage, in order; backward the pieces count down.

        Interleaved stages work rounds of as many micro-batches as there are stages, piece after piece (Narayanan 2021,
        2.2.2); micro-batches that fill no round of their own belong to the last one.
        """
        batches, stages, pieces = self.micro_batches, len(self.stages), self.pieces
        rounds = max(1, batches // stages) if pieces > 1 else 1
        starts = [number * stages for number in range(rounds)] + [batches]
        return tuple(
            (piece, index)
            for start, stop in pairwise(starts)
            for piece in range(pieces)
            for index in range(start, stop)
        )

    def ahead(self, stage: int) -> int:
        """Return how many forward passes a stage starts before it alternates.

        Interleaved, that is twice the stages after it, and all pieces but one of the largest round, so that the last
        stage has a micro-batch to send back (the schedule of Megatron-LM).
        """
        after = len(self.stages) - 1 - stage
        if self.pieces > 1:
            batches, stages = self.micro_batches, len(self.stages)
            largest = batches - (max(1, batches // stages) - 1) * stages
            after = 2 * after + (self.pieces - 1) * largest
        return min(self.micro_batches * self.pieces, after)

    def passes(self, stage: int) -> Iterator[Pass]:
        """Yield the passes of a stage in the order in which it runs them."""
        order, ahead, last = self.forward_passes, self.ahead(stage), self.pieces - 1
        forward = [Pass(True, piece, index) for piece, index in order]
        backward = [Pass(False, last - piece, index) for piece, index in order]
        yield from forward[:ahead]
        for pair in zip(forward[ahead:], backward, strict=False):
            yield from pair
        yield from backward[len(order) - ahead :]

    def source(self, stage: int, one: Pass) -> tuple[int, Pass] | None:
        """Return the stage and the pass whose message a pass waits for, None at the ends of the model."""
        step = 1 if one.forward else -1
        before, around = stage - step, one.piece
        if not 0 <= before < len(self.stages):
            before, around = before % len(self.stages), one.piece - step
        return (before, one._replace(piece=around)) if 0 <= around < self.pieces else None

    def order(self, stage: int) -> Iterator[tuple[bool, int]]:
        """Yield direction and micro-batch of the passes of a stage in order."""
        yield from ((one.forward, one.batch) for one in self.passes(stage))


def training_graph(
    workload: Transformer,
    job: TrainingJob,
    parallelism: Parallelism,
    *,
    overlap_gradients: bool = True,
    overlap_weights: bool = True,
) -> TrainingGraph:
    """Return the graph of one step; the flags say whether data-parallel traffic runs beside compute."""
    build = _Builder(workload, job, parallelism, overlap_gradients, overlap_weights)
    pp, micro_batches = parallelism.pp, -(-job.global_batch // (parallelism.dp * job.micro_batch))
    pieces = job.interleave if pp > 1 else 1
    cut = [stage_layers(layers, pieces) for layers in stage_layers(workload.layers, pp)]
    layer, embedding, head = build.layer(), build.embedding(), build.head()
    to_next, to_last = build.send("send to the next stage"), build.send("send to the stage before")
    stages: list[list[Piece]] = [[] for _ in range(pp)]
    first = 0
    for piece, stage in product(range(pieces), range(pp)):
        buckets = [(f"layer {first + place}", layer) for place in range(cut[stage][piece])]
        first += len(buckets)
        is_first, is_last = (piece, stage) == (0, 0), (piece, stage) == (pieces - 1, pp - 1)
        buckets = [*[(EMBEDDING, embedding)] * is_first, *buckets, *[(HEAD, head)] * is_last]
        sends = None if is_last else to_next, None if is_first else to_last
        stages[stage].append(Piece(stage, piece, tuple(buckets), *sends))
    sharded = job.zero_stage == 3
    return TrainingGraph(
        tuple(Stage(index, tuple(own)) for index, own in enumerate(stages)),
        micro_batches,
        sharded and pp == 1,
        sharded and (pp == 1 or micro_batches == 1),
    )


@dataclass(frozen=True, slots=True)
class _Builder:
    """Buckets of one job; every bucket of a kind is the same value."""

    workload: Transformer
    job: TrainingJob
    parallelism: Parallelism
    overlap_gradients: bool
    overlap_weights: bool

    def layer(self) -> Bucket:
        forward = self._layer_pass("forward", forward_layer(self.workload), forward=True)
        backward = self._layer_pass("backward", backward_layer(self.workload), forward=False)
        if self.job.recompute == "full":
            backward = (*forward, *backward)
        parameters = (self.workload.layer_parameters, self.workload.layer_replicated_parameters)
        return self._bucket(LAYER, forward, backward, parameters)

    def embedding(self) -> Bucket:
        passes = embedding_operators(self.workload)
        forward = (Compute("embed", "embed_forward", passes.forward), *self._vocabulary("reduce"))
        backward = (*self._vocabulary("gather"), Compute("embedding gradient", "embed_backward", passes.backward))
        parameters = (self.workload.embedding_parameters, self.workload.embedding_replicated_parameters)
        return self._bucket(EMBEDDING, forward, backward, parameters)

    def head(self) -> Bucket:
        passes = head_operators(self.workload)
        forward = (*self._vocabulary("gather"), Compute("head and loss", "head_forward", passes.forward))
        backward = (Compute("head gradient", "head_backward", passes.backward), *self._vocabulary("reduce"))
        tied = self.workload.tied_embeddings and self.parallelism.pp > 1
        parameters = self.workload.head_parameters + (self.workload.output_matrix_parameters if tied else 0)
        return self._bucket(HEAD, forward, backward, (parameters, self.workload.norm_parameters))

    def send(self, name: str) -> Communication:
        size = self._stream_bytes() / (self.parallelism.tp if self.job.sequence_parallel else 1)
        return Communication(name, "send", PIPELINE, STREAM, size)

    def _bucket(
        self, name: str, forward: tuple[Node, ...], backward: tuple[Node, ...], parameters: tuple[int, int]
    ) -> Bucket:
        """Add data parallelism; `parameters` are all of the bucket's and those that tp does not divide."""
        if self.parallelism.dp * self.parallelism.sp == 1:
            return Bucket(name, forward, backward, None, None)
        every, replicated = parameters
        owned = Fraction(every - replicated, self.parallelism.tp) + replicated
        sharded = self.job.zero_stage > 0
        reduce = Communication(
            f"reduce gradients of {name}",
            "reduce_scatter" if sharded else "all_reduce",
            DATA,
            name,
            owned * self.job.bytes_per_gradient,
            blocking=not self.overlap_gradients,
        )
        gather = Communication(
            f"gather weights of {name}",
            "all_gather",
            DATA,
            name,
            owned * self.job.bytes_per_weight,
            blocking=not self.overlap_weights,
        )
        return Bucket(name, forward, backward, gather if sharded else None, reduce)

    def _layer_pass(self, part: str, operators: Sequence[Operator], *, forward: bool) -> tuple[Node, ...]:
        """Put communication where it belongs, and operators between it together."""
        nodes = list[Operator | Node]()
        for operator in operators:
            before, after = self._around(operator.name, forward=forward)
            nodes += [*before, operator, *after]
        found = list[Node]()
        for is_operator, group in groupby(nodes, key=lambda node: isinstance(node, Operator)):
            members = list(group)
            if is_operator:
                run = tuple(member for member in members if isinstance(member, Operator))
                found.append(Compute(run[0].name.replace("_", " "), part, run))
            else:
                found += [member for member in members if not isinstance(member, Operator)]
        return tuple(found)

    def _around(self, name: str, *, forward: bool) -> tuple[list[Node], list[Node]]:
        """Return the nodes right before and right after an operator of a layer."""
        if name.startswith("attention") and name in ("attention", f"attention{GRADIENT}"):
            return self._around_attention(forward=forward)
        if forward:
            before, after = _TENSOR_PHASES.get(name, ("", ""))
            return self._tensor(before), self._tensor(after)
        for gemm, (before, after) in _TENSOR_PHASES.items():
            if name == f"{gemm}_input{GRADIENT}" and after:
                return self._tensor("gather"), []
            if name == f"{gemm}_weight{GRADIENT}" and before:
                return [], self._tensor("reduce")
        return [], []

    def _around_attention(self, *, forward: bool) -> tuple[list[Node], list[Node]]:
        gather = self._keys("gather keys and values", "all_gather")
        if forward:
            return gather, []
        before = gather
        if self.job.recompute == "selective":
            again = Compute("attention again", "selective", selective_recompute(self.workload))
            before = [*gather, again, *gather]
        return before, self._keys("reduce gradients of keys and values", "reduce_scatter")

    def _keys(self, name: str, collective: str) -> list[Node]:
        if self.parallelism.sp == 1:
            return []
        size = self.job.micro_batch * self.job.sequence * 2 * self.workload.kv_width * self.job.bytes_per_activation
        return [Communication(name, collective, CONTEXT, KEYS, Fraction(size, self.parallelism.tp))]

    def _vocabulary(self, phase: str) -> list[Node]:
        return [] if self.workload.is_vision else self._tensor(phase)

    def _tensor(self, phase: str) -> list[Node]:
        """Return one half of a synchronisation; without sequence parallelism the reduction is the whole."""
        if self.parallelism.tp == 1 or not phase or (phase == "gather" and not self.job.sequence_parallel):
            return []
        name, collective = "sum activations", "all_reduce"
        if self.job.sequence_parallel:
            name = f"{phase} activations"
            collective = "all_gather" if phase == "gather" else "reduce_scatter"
        return [Communication(name, collective, TENSOR, STREAM, self._stream_bytes())]

    def _stream_bytes(self) -> Fraction:
        size = self.job.micro_batch * self.job.sequence * self.workload.hidden * self.job.bytes_per_activation
        return Fraction(size, self.parallelism.sp)
