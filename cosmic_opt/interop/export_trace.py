"""The execution traces of a training step: one template per pipeline stage, filled in rank by rank.

Ranks of a stage do the same; their traces differ in the names of communicator groups and in the peers of messages. A
template holds one operation per operator and communication, in the order in which a stage works: the order of the
numbers is also ASTRA-sim's order of issue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from cosmic_opt.errors import LimitError
from cosmic_opt.interop.chakra import MOST_OPERATIONS, MOST_PER_OPERATION
from cosmic_opt.interop.export_groups import CommunicatorGroups, Placement
from cosmic_opt.simulation.replay.trace import Kind, Operation
from cosmic_opt.system.npu import Npu
from cosmic_opt.workloads.graph import EMBEDDING, Bucket, Communication, Compute, Node, Stage, TrainingGraph
from cosmic_opt.workloads.operators import Operator, attended_context
from cosmic_opt.workloads.parallelism import Parallelism
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer

NS_PER_S = 10**9
SEND = "send"


@dataclass(frozen=True, slots=True)
class Shapes:
    """FLOPs and bytes of one rank: what `workloads.operators` says of an operator, in whole numbers.

    Attributes:
        chunks: Pieces that a collective is cut in; ASTRA-sim's all-gather has at least a byte for each.
    """

    workload: Transformer
    job: TrainingJob
    parallelism: Parallelism
    npu: Npu
    chunks: int
    causal_half: bool

    def flops(self, operator: Operator) -> int:
        """Return the FLOPs of an operator, at least 1: a roofline has no time for none."""
        context = attended_context(self.workload, self.job.sequence, causal_half=self.causal_half)
        per_token = operator.flops_per_token + operator.flops_per_token_per_context * context
        return max(1, round(self._tokens * per_token / self.parallelism.tp))

    def moved_bytes(self, operator: Operator) -> int:
        """Return the bytes that an operator reads and writes."""
        tp = self.parallelism.tp
        divided = operator.kind == "memory" and self.job.sequence_parallel
        replicated = Fraction(operator.replicated_elements_per_token, tp if divided else 1)
        activations = self._tokens * (replicated + Fraction(operator.sharded_elements_per_token, tp))
        weights = Fraction(operator.weight_elements, tp) + operator.replicated_weight_elements
        return self.longer(round((activations + weights) * self.job.bytes_per_activation))

    def longer(self, size_bytes: int) -> int:
        """Return the bytes, or what the memory moves in two nanoseconds: shorter computation stops ASTRA-sim."""
        return max(size_bytes, ceil(2 * self.npu.memory_bytes_per_s / NS_PER_S))

    def optimizer_bytes(self, stage: Stage, stages: int) -> int:
        """Return the memory traffic of the parameters that a rank of a stage owns (Rajbhandari 2020, section 3.1)."""
        job, tp = self.job, self.parallelism.tp
        owned = sum(self._parameters(name, bucket, stages) for name, bucket in stage.buckets)
        shards = self.parallelism.dp * self.parallelism.sp if job.zero_stage > 0 else 1
        per_parameter = 2 * job.bytes_per_optimizer_state + job.bytes_per_gradient + job.bytes_per_weight
        return self.longer(round(Fraction(owned, tp * shards) * per_parameter))

    def _parameters(self, name: str, bucket: Bucket, stages: int) -> int:
        """Return tp times the parameters of a bucket that a rank holds."""
        workload, tp = self.workload, self.parallelism.tp
        if name == EMBEDDING:
            every, replicated = workload.embedding_parameters, workload.embedding_replicated_parameters
        elif bucket.name == "head":
            tied = workload.tied_embeddings and stages > 1
            every = workload.head_parameters + (workload.output_matrix_parameters if tied else 0)
            replicated = workload.norm_parameters
        else:
            every, replicated = workload.layer_parameters, workload.layer_replicated_parameters
        return every - replicated + tp * replicated

    def message_bytes(self, node: Communication, degree: int) -> int:
        """Return ASTRA-sim's comm_size: the full buffer, of an all-gather the shard that goes in."""
        if node.collective == "all_gather":
            return max(ceil(node.size_bytes / degree), self.chunks)
        return max(ceil(node.size_bytes), 1)

    @property
    def _tokens(self) -> Fraction:
        return Fraction(self.job.micro_batch * self.job.sequence, self.parallelism.sp)


@dataclass
class _Stage:
    """Writes the operations of one stage; `tail` is what the next one in the stage's own order waits for."""

    graph: TrainingGraph
    stage: Stage
    shapes: Shapes
    placement: Placement
    operations: list[Operation] = field(default_factory=list)
    tail: tuple[int, ...] = ()
    reduces: list[int] = field(default_factory=list)

    def run(self) -> tuple[Operation, ...]:
        for forward, micro_batch in self.graph.order(self.stage.index):
            (self._forward if forward else self._backward)(micro_batch)
        size = self.shapes.optimizer_bytes(self.stage, len(self.graph.stages))
        self.tail += tuple(self.reduces)
        self._chain(Operation(0, Kind.COMPUTE, "optimizer", flops=1, size_bytes=size))
        return tuple(self.operations)

    def _forward(self, micro_batch: int) -> None:
        label = f"micro-batch {micro_batch}, forward"
        if self.stage.index > 0:
            self._receive(label, self.graph.stages[self.stage.index - 1].send_forward, -1, 2 * micro_batch)
        gathered = self.graph.gathers_each_pass or micro_batch == 0
        began = self.tail
        for name, bucket in self.stage.buckets:
            self._gather(f"{label}, {name}", bucket if gathered else None, began)
            for node in bucket.forward:
                self._node(f"{label}, {name}", node)
        self._send(label, self.stage.send_forward, 1, 2 * micro_batch)

    def _backward(self, micro_batch: int) -> None:
        label = f"micro-batch {micro_batch}, backward"
        if self.stage.index < len(self.graph.stages) - 1:
            self._receive(label, self.graph.stages[self.stage.index + 1].send_backward, 1, 2 * micro_batch + 1)
        reduced = self.graph.gathers_each_pass or micro_batch == self.graph.micro_batches - 1
        again = reduced and self.graph.gathers_backward
        began = self.tail
        for name, bucket in reversed(self.stage.buckets):
            self._gather(f"{label}, {name}", bucket if again and name != EMBEDDING else None, began)
            for node in bucket.backward:
                self._node(f"{label}, {name}", node)
            if reduced and bucket.reduce is not None:
                self._reduce(f"{label}, {name}", bucket.reduce)
        self._send(label, self.stage.send_backward, -1, 2 * micro_batch + 1)

    def _gather(self, label: str, bucket: Bucket | None, began: tuple[int, ...]) -> None:
        """Gather weights: in front of the bucket's work, or beside the work since the pass `began`."""
        if bucket is None or bucket.gather is None:
            return
        operation = self._collective(label, bucket.gather)
        if bucket.gather.blocking:
            self._chain(operation)
        else:
            self.tail += (self._add(operation, began),)

    def _reduce(self, label: str, reduce: Communication) -> None:
        operation = self._collective(label, reduce)
        if reduce.blocking:
            self._chain(operation)
        else:
            self.reduces.append(self._add(operation, self.tail))

    def _node(self, label: str, node: Node) -> None:
        if isinstance(node, Communication):
            self._chain(self._collective(label, node))
            return
        for operation in self._computations(label, node):
            self._chain(operation)

    def _computations(self, label: str, node: Compute) -> Iterator[Operation]:
        for operator in node.operators:
            name = f"{label}, {operator.name}"
            flops, size = self.shapes.flops(operator), self.shapes.moved_bytes(operator)
            yield Operation(0, Kind.COMPUTE, name, flops=flops, size_bytes=size)

    def _collective(self, label: str, node: Communication) -> Operation:
        """Return a collective; its group is the role that `filled` turns into a name."""
        flags = self.placement.whole_dims(node.group)
        return Operation(
            0,
            Kind.COLLECTIVE,
            f"{label}, {node.name}",
            size_bytes=self.shapes.message_bytes(node, self.placement.degree(node.group)),
            collective=node.collective,
            group=node.group if flags is None else "",
            involved_dims=flags,
        )

    def _send(self, label: str, node: Communication | None, offset: int, tag: int) -> None:
        """Send to the stage `offset` on; `filled` turns the offset into a rank."""
        if node is not None:
            size = self.shapes.message_bytes(node, 1)
            self._chain(Operation(0, Kind.SEND, f"{label}, {node.name}", size_bytes=size, peer=offset, tag=tag))

    def _receive(self, label: str, node: Communication | None, offset: int, tag: int) -> None:
        assert node is not None, "the neighbour sends"
        size = self.shapes.message_bytes(node, 1)
        self._chain(Operation(0, Kind.RECEIVE, f"{label}, receive", size_bytes=size, peer=offset, tag=tag))

    def _chain(self, operation: Operation) -> None:
        """Add an operation that the next one waits for."""
        self.tail = (self._add(operation, self.tail),)

    def _add(self, operation: Operation, needs: tuple[int, ...]) -> int:
        number = len(self.operations) + 1
        hint = "export fewer layers or micro-batches: --set layers=4, --set global_batch=..."
        if number > MOST_OPERATIONS:
            raise LimitError(f"a trace has more than {MOST_OPERATIONS:,} operations", hint=hint)
        if len(needs) > MOST_PER_OPERATION:
            raise LimitError(f"an operation waits for more than {MOST_PER_OPERATION:,} others", hint=hint)
        self.operations.append(replace(operation, id=number, dependencies=needs))
        return number


def stage_operations(graph: TrainingGraph, stage: int, shapes: Shapes, placement: Placement) -> tuple[Operation, ...]:
    """Return the template of a stage: groups are roles, peers are offsets in stages.

    Raises:
        LimitError: it has more operations than a trace that is read, or one of them waits for more.
    """
    return _Stage(graph, graph.stages[stage], shapes, placement).run()


def differs(operation: Operation) -> bool:
    """Say whether an operation of a template differs from rank to rank."""
    return operation.kind in (Kind.SEND, Kind.RECEIVE) or operation.group != ""


def filled(operation: Operation, rank: int, groups: CommunicatorGroups) -> Operation:
    """Return an operation of a template as the rank runs it."""
    if operation.kind in (Kind.SEND, Kind.RECEIVE):
        return replace(operation, peer=groups.placement.neighbour(rank, operation.peer))
    return replace(operation, group=groups.name(rank, operation.group)) if operation.group else operation
