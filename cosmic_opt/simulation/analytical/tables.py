"""Constant arrays of one problem: phase costs of every group that can occur, operators, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.analytical.layout import CATEGORIES, COLLECTIVES, LIMIT_TICKS
from cosmic_opt.system.collectives.base import ALGORITHMS
from cosmic_opt.system.npu import Npu
from cosmic_opt.system.phase import phase_cost, send_cost
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.memory import kept_bytes_per_token
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

ILLEGAL = -1.0
UNKNOWN = -2.0
"""Marks in place of hops: the algorithm does not exist there; not among the domains."""

FIELDS = 2 * len(COLLECTIVES)
"""Hops and load of each collective, in the order of `COLLECTIVES`."""

SEND_FIELDS = 4
"""Hops and load of a step, then of a carry."""


class PhaseTables(NamedTuple):
    """Hops and loads of `system.phase` by table offset.

    The offset of a group of `extent` members `stride` apart in a block is
    (npus_index[npus] * E + divisor_index[extent]) * E + divisor_index[stride] with E divisors in all.

    Attributes:
        npus_index: int64 [max NPUs + 1], -1 where no dimension has that many.
        divisor_index: int64 [max NPUs + 1], -1 for what divides no block.
        divisors: E.
        topologies, algorithms: How many codes there are.
        phases: float64, flat [offset, topology, algorithm, FIELDS].
        sends: float64, flat [offset, topology, SEND_FIELDS].
    """

    npus_index: IntArray
    divisor_index: IntArray
    divisors: int
    topologies: int
    algorithms: int
    phases: FloatArray
    sends: FloatArray


class HostRates(NamedTuple):
    """What offloading to host memory moves, and how fast.

    Attributes:
        ticks_per_byte: Of the link to host memory, one direction; LIMIT_TICKS without one.
        kept_whole, kept_split, scores: Bytes per token that a layer keeps for backward: whole on every tp rank, split
            over tp, and attention scores, split over tp.
        state_bytes: Optimizer states of one parameter.
    """

    ticks_per_byte: float
    kept_whole: float
    kept_split: float
    scores: float
    state_bytes: float


class Rates(NamedTuple):
    """What one NPU and one workload fix, as the kernel wants it.

    Attributes:
        ticks_per_byte: At memory bandwidth.
        operators: float64 [operators, 6], ticks at peak of the FLOPs per token; then ticks at memory bandwidth of
            the bytes per token that tensor parallelism never divides, divides only with sequence
            parallelism, always divides; and of the weight bytes it divides, and does not.
        groups: int64 [8], where each operator group of `Whole.FORWARD` and on starts.
        hidden_bytes: Activation bytes of one token in the residual stream.
        kv_bytes: Bytes of one token's keys and values.
        layer, embedding, head: Parameters (divided by tp, replicated over tp).
        tied_output: Parameters of an output map tied to the embedding; a last stage of its own holds a copy.
        optimizer_bytes: Memory traffic per owned parameter: Adam reads and writes the fp32 master weight, momentum
            and variance (Rajbhandari 2020, section 3.1), reads the gradient and writes the weight.
        host: Host memory.
    """

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
    host: HostRates


def build_phase_tables(
    npus: Iterable[int], topologies: Sequence[str], algorithms: Sequence[str], *, reducing: bool = True
) -> PhaseTables:
    """Tabulate every (block, algorithm, collective, extent, stride) with these names and block sizes.

    Where switches are not `reducing`, algorithms that need it exist nowhere.
    """
    sizes = sorted(set(npus))
    divisors = sorted({divisor for size in sizes for divisor in _divisors(size)})
    index = np.full((2, max(sizes) + 1), -1, dtype=np.int64)
    index[0, sizes] = np.arange(len(sizes))
    index[1, divisors] = np.arange(len(divisors))
    offsets = len(sizes) * len(divisors) ** 2
    blocks, codes = len(CATEGORIES["topology"]), len(CATEGORIES["algorithm"])
    phases = np.full((offsets, blocks, codes, FIELDS), UNKNOWN)
    sends = np.full((offsets, blocks, SEND_FIELDS), UNKNOWN)
    for place, size in enumerate(sizes):
        for extent in _divisors(size):
            for stride in _divisors(size // extent):
                offset = (place * len(divisors) + index[1, extent]) * len(divisors) + index[1, stride]
                for topology in topologies:
                    block = CATEGORIES["topology"].index(topology)
                    sends[offset, block] = _send_fields(topology, (size, extent, stride))
                    for algorithm in algorithms:
                        code = CATEGORIES["algorithm"].index(algorithm)
                        legal = reducing or not ALGORITHMS.get(algorithm).in_switch
                        group = (size, extent, stride)
                        phases[offset, block, code] = _phase_fields(topology, algorithm, group) if legal else ILLEGAL
    return PhaseTables(index[0], index[1], len(divisors), blocks, codes, phases.reshape(-1), sends.reshape(-1))


def _phase_fields(topology: str, algorithm: str, group: tuple[int, int, int]) -> list[float]:
    """Return FIELDS of a group (npus, extent, stride), or marks where one collective does not exist."""
    try:
        costs = [phase_cost(topology, algorithm, collective, *group) for collective in COLLECTIVES]
    except InfeasibleError:
        return [ILLEGAL] * FIELDS
    return [float(number) for cost in costs for number in (cost.hops, cost.load)]


def _send_fields(topology: str, group: tuple[int, int, int]) -> list[float]:
    npus, extent, stride = group
    costs = [send_cost(topology, npus, stride, wrap) for wrap in (None, extent)]
    return [float(number) for cost in costs for number in (cost.hops, cost.load)]


def build_rates(
    workload: Transformer, job: TrainingJob, npu: Npu, *, causal_half: bool, host_bytes_per_s: int = 0
) -> Rates:
    """Return the constants of a workload and job on an NPU.

    `causal_half` counts the attention of a causal model at half the square of the sequence. `host_bytes_per_s` is the
    bandwidth of the link to host memory in one direction, 0 where there is none.
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
    ticks_per_byte = TICKS_PER_SECOND / npu.memory_bytes_per_s
    rates = np.array([TICKS_PER_SECOND / npu.peak_flop_per_s, *[ticks_per_byte] * 5])
    rows = [_operator_row(operator, context, element) for group in groups for operator in group]
    norm = workload.norm_parameters
    return Rates(
        ticks_per_byte=ticks_per_byte,
        operators=np.array(rows, dtype=np.float64) * rates,
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
        host=_host_rates(workload, job, host_bytes_per_s),
    )


def _host_rates(workload: Transformer, job: TrainingJob, bytes_per_s: int) -> HostRates:
    ticks_per_byte = TICKS_PER_SECOND / bytes_per_s if bytes_per_s else LIMIT_TICKS
    whole, split, scores = map(float, kept_bytes_per_token(workload, job))
    return HostRates(ticks_per_byte, whole, split, scores, float(job.bytes_per_optimizer_state))


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
