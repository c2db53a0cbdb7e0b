"""Constant arrays of one problem: phase costs of every group that can occur, operators, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.analytical.layout import CATEGORIES, COLLECTIVES
from cosmic_opt.system.npu import Npu
from cosmic_opt.system.phase import phase_cost, send_cost
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.operators import (
    Operator,
    attended_context,
    backward_layer,
    embedding_operators,
    forward_layer,
    head_operators,
    selective_recompute,
)
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
TickArray = NDArray[np.int64] | NDArray[np.float64]
"""Ticks: integers, or floating point where a kernel measures whether integers would overflow."""

ILLEGAL = -1
UNKNOWN = -2
"""Marks in `PhaseTables.hops`: the algorithm does not exist there; not among the domains."""


class PhaseTables(NamedTuple):
    """Hops and loads of `system.phase` by table offset.

    The offset of a group of `extent` members `stride` apart in a block is
    (npus_index[npus] * E + divisor_index[extent]) * E + divisor_index[stride] with E divisors in all.

    Attributes:
        npus_index: int64 [max NPUs + 1], -1 where no dimension has that many.
        divisor_index: int64 [max NPUs + 1], -1 for what divides no block.
        divisors: E.
        hops, load: [offset, topology, algorithm, collective].
        send_hops, send_load: [offset, topology, step or carry].
    """

    npus_index: IntArray
    divisor_index: IntArray
    divisors: int
    hops: IntArray
    load: FloatArray
    send_hops: IntArray
    send_load: FloatArray


class Rates(NamedTuple):
    """What one NPU and one workload fix, as the kernel wants it.

    Attributes:
        ticks_per_flop, ticks_per_byte: At peak, and at memory bandwidth.
        operators: float64 [operators, 6]: FLOPs per token; bytes per token that tensor parallelism never
            divides, divides only with sequence parallelism, always divides; weight bytes divided, not divided.
        groups: int64 [8], where each operator group of `Whole.FORWARD` and on starts.
        hidden_bytes: Activation bytes of one token in the residual stream.
        kv_bytes: Bytes of one token's keys and values.
        layer, embedding, head: Parameters (divided by tp, replicated over tp).
        tied_output: Parameters of an output map tied to the embedding; a last stage of its own holds a copy.
        optimizer_bytes: Memory traffic per owned parameter: Adam reads and writes the fp32 master weight, momentum
            and variance (Rajbhandari 2020, section 3.1), reads the gradient and writes the weight.
    """

    ticks_per_flop: float
    ticks_per_byte: float
    operators: FloatArray
    groups: IntArray
    global_batch: int
    sequence: int
    layers: int
    vocabulary_parallel: int
    hidden_bytes: float
    kv_bytes: float
    layer: tuple[float, float]
    embedding: tuple[float, float]
    head: tuple[float, float]
    tied_output: float
    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float


def build_phase_tables(npus: Iterable[int], topologies: Sequence[str], algorithms: Sequence[str]) -> PhaseTables:
    """Tabulate every (block, algorithm, collective, extent, stride) with these names and block sizes."""
    sizes = sorted(set(npus))
    divisors = sorted({divisor for size in sizes for divisor in _divisors(size)})
    index = np.full((2, max(sizes) + 1), -1, dtype=np.int64)
    index[0, sizes] = np.arange(len(sizes))
    index[1, divisors] = np.arange(len(divisors))
    offsets = len(sizes) * len(divisors) ** 2
    shape = (offsets, len(CATEGORIES["topology"]), len(CATEGORIES["algorithm"]), len(COLLECTIVES))
    tables = PhaseTables(
        npus_index=index[0],
        divisor_index=index[1],
        divisors=len(divisors),
        hops=np.full(shape, UNKNOWN, dtype=np.int64),
        load=np.zeros(shape),
        send_hops=np.full((offsets, shape[1], 2), UNKNOWN, dtype=np.int64),
        send_load=np.zeros((offsets, shape[1], 2)),
    )
    for size in sizes:
        for extent in _divisors(size):
            for stride in _divisors(size // extent):
                _fill(tables, (size, extent, stride), topologies, algorithms)
    return tables


def _fill(
    tables: PhaseTables, group: tuple[int, int, int], topologies: Sequence[str], algorithms: Sequence[str]
) -> None:
    npus, extent, stride = group
    place = tables.npus_index[npus] * tables.divisors + tables.divisor_index[extent]
    offset = int(place * tables.divisors + tables.divisor_index[stride])
    for topology in topologies:
        block = CATEGORIES["topology"].index(topology)
        for carry, wrap in enumerate((None, extent)):
            send = send_cost(topology, npus, stride, wrap)
            tables.send_hops[offset, block, carry] = send.hops
            tables.send_load[offset, block, carry] = float(send.load)
        for algorithm in algorithms:
            code = CATEGORIES["algorithm"].index(algorithm)
            for kind, collective in enumerate(COLLECTIVES):
                try:
                    phase = phase_cost(topology, algorithm, collective, *group)
                except InfeasibleError:
                    tables.hops[offset, block, code, kind] = ILLEGAL
                    continue
                tables.hops[offset, block, code, kind] = phase.hops
                tables.load[offset, block, code, kind] = float(phase.load)


def build_rates(workload: Transformer, job: TrainingJob, npu: Npu, *, causal_half: bool) -> Rates:
    """Return the constants of a workload and job on an NPU.

    `causal_half` counts the attention of a causal model at half the square of the sequence.
    """
    embedding, head = embedding_operators(workload), head_operators(workload)
    groups = (
        forward_layer(workload),
        backward_layer(workload),
        selective_recompute(workload),
        embedding.forward,
        embedding.backward,
        head.forward,
        head.backward,
    )
    context = attended_context(workload, job.sequence, causal_half=causal_half)
    element = job.bytes_per_activation
    rows = [_operator_row(operator, context, element) for group in groups for operator in group]
    norm = workload.norm_parameters
    return Rates(
        ticks_per_flop=TICKS_PER_SECOND / npu.peak_flop_per_s,
        ticks_per_byte=TICKS_PER_SECOND / npu.memory_bytes_per_s,
        operators=np.array(rows, dtype=np.float64),
        groups=np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64),
        global_batch=job.global_batch,
        sequence=job.sequence,
        layers=workload.layers,
        vocabulary_parallel=int(not workload.is_vision),
        hidden_bytes=float(workload.hidden * element),
        kv_bytes=float(2 * workload.kv_width * element),
        layer=_split(workload.layer_parameters, workload.layer_replicated_parameters),
        embedding=_split(workload.embedding_parameters, workload.embedding_replicated_parameters),
        head=_split(workload.head_parameters, norm),
        tied_output=float(workload.output_matrix_parameters if workload.tied_embeddings else 0),
        weight_bytes=float(job.bytes_per_weight),
        gradient_bytes=float(job.bytes_per_gradient),
        optimizer_bytes=float(2 * job.bytes_per_optimizer_state + job.bytes_per_gradient + job.bytes_per_weight),
    )


def _operator_row(operator: Operator, context: int, element_bytes: int) -> tuple[int, ...]:
    replicated = operator.replicated_elements_per_token
    divides = operator.kind == "memory"  # a GEMM's input is gathered before it (Korthikanti 2022, 4.2.2)
    traffic = (
        0 if divides else replicated,
        replicated if divides else 0,
        operator.sharded_elements_per_token,
        operator.weight_elements,
        operator.replicated_weight_elements,
    )
    flops = operator.flops_per_token + operator.flops_per_token_per_context * context
    return (flops, *(elements * element_bytes for elements in traffic))


def _split(parameters: int, replicated: int) -> tuple[float, float]:
    return float(parameters - replicated), float(replicated)


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
