"""Compiled: what a design's degrees, shape and job fix before any network option is chosen."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit, jit_inline
from cosmic_opt.simulation.analytical.layout import (
    BLUECONNECT,
    DEGREES,
    EXPLICIT,
    FULL,
    LIMIT_TICKS,
    MAX_DIMENSIONS,
    SELECTIVE,
    SPREAD,
    Link,
    Payload,
    Reduction,
    Scalar,
    Status,
    Whole,
)
from cosmic_opt.simulation.analytical.tables import FloatArray, IntArray, PhaseTables, Rates
from cosmic_opt.workloads.placement import GROUPS, ORDERS

_LIMIT = int(LIMIT_TICKS)
_GROUPS = len(GROUPS)
_DEGREES = tuple(map(int, DEGREES))
_FILLING = np.array([[GROUPS.index(group) for group in order.split("_")] for order in ORDERS], dtype=np.int64)
"""The groups of each order, outer dimension of the array in the order of `ORDERS`."""


@jit_inline
def prepare_row(
    tables: PhaseTables,
    rates: Rates,
    inputs: IntArray,
    whole: IntArray,
    payload: FloatArray,
    links: IntArray,
) -> int:
    """Fill one row of `whole` [W], `payload` [D, P] and `links` [D, L] from `inputs` [Scalar.COUNT + D], or
    [Scalar.COUNT + D + 4 D] where the row gives its extents.

    Returns the row's `Status`, which is also in `whole`.
    """
    whole[Whole.STATUS] = _place(tables, inputs, payload, links) if _valid(inputs) else Status.OUTSIDE
    if whole[Whole.STATUS] == Status.OK:
        _count(rates, inputs, whole)
        whole[Whole.SPREAD] = _members(links) if inputs[Scalar.MULTIDIM] == SPREAD else 0
        _compute(rates, inputs, whole)
        _update(rates, inputs, whole)
        _offload(rates, inputs, whole)
        _fill_payload(rates, inputs, payload, links)
    return int(whole[Whole.STATUS])


@jit_inline
def _valid(inputs: IntArray) -> bool:
    """Degrees, sizes and chunks are at least 1, codes and flags within their range."""
    for scalar in (Scalar.DP, Scalar.TP, Scalar.PP, Scalar.SP, Scalar.MICRO_BATCH, Scalar.CHUNKS, Scalar.INTERLEAVE):
        if inputs[scalar] < 1:
            return False
    if not (0 <= inputs[Scalar.ZERO_STAGE] <= 3 and 0 <= inputs[Scalar.RECOMPUTE] <= FULL):
        return False
    for scalar in (
        Scalar.SEQUENCE_PARALLEL,
        Scalar.OVERLAP_GRADIENTS,
        Scalar.OVERLAP_WEIGHTS,
        Scalar.WEIGHT_OFFLOAD,
        Scalar.ACTIVATION_OFFLOAD,
        Scalar.OPTIMIZER_OFFLOAD,
    ):
        if not 0 <= inputs[scalar] <= 1:
            return False
    return bool(0 <= inputs[Scalar.ORDER] <= EXPLICIT and 0 <= inputs[Scalar.MULTIDIM] <= SPREAD)


@jit_inline
def _members(links: IntArray) -> int:
    """Return a bit for every group and dimension in which it has members."""
    bits = 0
    for group in range(Link.TENSOR, Link.STAGE):
        for dim in range(links.shape[0]):
            if links[dim, group] >= 0:
                bits += 1 << (MAX_DIMENSIONS * group + dim)
    return bits


@jit_inline
def to_ticks(ticks: float) -> int:
    """Round a primitive to the nearest tick, once; what exceeds the range is held at its end."""
    return int(np.rint(min(ticks, LIMIT_TICKS)))


@jit_inline
def _count(rates: Rates, inputs: IntArray, whole: IntArray) -> None:
    """Micro-batches, flags and layers per stage (`workloads.parallelism.stage_layers`)."""
    sequences = inputs[Scalar.DP] * inputs[Scalar.MICRO_BATCH]
    pp = inputs[Scalar.PP]
    whole[Whole.MICRO_BATCHES] = (rates.global_batch + sequences - 1) // sequences
    whole[Whole.PP] = pp
    whole[Whole.CHUNKS] = inputs[Scalar.CHUNKS]
    whole[Whole.BLUECONNECT] = inputs[Scalar.MULTIDIM] == BLUECONNECT
    whole[Whole.ZERO_STAGE] = inputs[Scalar.ZERO_STAGE]
    whole[Whole.RECOMPUTE] = inputs[Scalar.RECOMPUTE]
    whole[Whole.SEQUENCE_PARALLEL] = inputs[Scalar.SEQUENCE_PARALLEL]
    whole[Whole.OVERLAP_GRADIENTS] = inputs[Scalar.OVERLAP_GRADIENTS]
    whole[Whole.OVERLAP_WEIGHTS] = inputs[Scalar.OVERLAP_WEIGHTS]
    whole[Whole.INTERLEAVE] = inputs[Scalar.INTERLEAVE]
    whole[Whole.VOCABULARY_PARALLEL] = rates.vocabulary_parallel
    least = rates.layers // pp
    extra = rates.layers - least * pp
    middle_stages = max(pp - 2, 0)
    whole[Whole.LAYERS] = rates.layers
    whole[Whole.LAYERS_FIRST] = least + (extra > middle_stages)
    whole[Whole.LAYERS_MIDDLE] = least + (extra > 0) if middle_stages > 0 else 0
    whole[Whole.LAYERS_LAST] = least


@jit_inline
def _compute(rates: Rates, inputs: IntArray, whole: IntArray) -> None:
    """Sum each operator group's roofline times; one operator is one rounded primitive."""
    split = 1 / inputs[Scalar.TP]
    tokens = inputs[Scalar.MICRO_BATCH] * rates.sequence / inputs[Scalar.SP]
    tokens_per_rank = tokens * split
    divided = tokens_per_rank if inputs[Scalar.SEQUENCE_PARALLEL] else tokens
    operators = rates.operators
    for group in range(rates.groups.shape[0] - 1):
        ticks = 0
        for row in range(rates.groups[group], rates.groups[group + 1]):
            arithmetic = tokens_per_rank * operators[row, 0]
            memory = tokens * operators[row, 1] + divided * operators[row, 2]
            memory += tokens_per_rank * operators[row, 3] + split * operators[row, 4] + operators[row, 5]
            ticks = min(ticks + to_ticks(max(arithmetic, memory)), _LIMIT)  # two limits do not wrap
        whole[Whole.FORWARD + group] = ticks


@jit_inline
def _update(rates: Rates, inputs: IntArray, whole: IntArray) -> None:
    """Optimizer ticks of a first, middle and last stage: memory-bound over the parameters it owns."""
    tp, pp = inputs[Scalar.TP], inputs[Scalar.PP]
    shards = inputs[Scalar.DP] * inputs[Scalar.SP] if inputs[Scalar.ZERO_STAGE] > 0 else 1
    ticks_per_parameter = rates.optimizer_bytes * rates.ticks_per_byte / shards
    layer = rates.layer[0] / tp + rates.layer[1]
    embedding = rates.embedding[0] / tp + rates.embedding[1]
    head = _head_sharded(rates, pp) / tp + rates.head[1]
    first = whole[Whole.LAYERS_FIRST] * layer + embedding
    if pp == 1:
        first += head
    last = whole[Whole.LAYERS_LAST] * layer + head
    whole[Whole.OPTIMIZER_FIRST] = to_ticks(first * ticks_per_parameter)
    whole[Whole.OPTIMIZER_MIDDLE] = to_ticks(whole[Whole.LAYERS_MIDDLE] * layer * ticks_per_parameter)
    whole[Whole.OPTIMIZER_LAST] = to_ticks(last * ticks_per_parameter)


@jit_inline
def _offload(rates: Rates, inputs: IntArray, whole: IntArray) -> None:
    """Ticks of the link to host memory: per layer and micro-batch each way, and once a step.

    Source: Calculon (Isaev et al., SC '23): forward reads the next layer's weights while it writes the activations of
    the one before, backward reads both. Optimizer states, which Calculon moves with every micro-batch, are read and
    written once a step, while updated weights are written behind them. The two directions do not disturb each other.
    """
    whole[Whole.HOST_FORWARD] = whole[Whole.HOST_BACKWARD] = whole[Whole.HOST_STEP] = 0
    if inputs[Scalar.WEIGHT_OFFLOAD] + inputs[Scalar.ACTIVATION_OFFLOAD] + inputs[Scalar.OPTIMIZER_OFFLOAD] == 0:
        return
    shards, layer = inputs[Scalar.DP] * inputs[Scalar.SP], rates.layer[0] / inputs[Scalar.TP] + rates.layer[1]
    dropped = inputs[Scalar.PP] == 1 or whole[Whole.MICRO_BATCHES] == 1
    weights = activations = states = 0.0
    if inputs[Scalar.WEIGHT_OFFLOAD]:
        weights = layer * rates.weight_bytes / (shards if inputs[Scalar.ZERO_STAGE] == 3 and dropped else 1)
    if inputs[Scalar.ACTIVATION_OFFLOAD]:
        activations = _kept_bytes(rates, inputs)
    if inputs[Scalar.OPTIMIZER_OFFLOAD]:
        states = layer * rates.host.state_bytes / (shards if inputs[Scalar.ZERO_STAGE] > 0 else 1)
    layers = max(whole[Whole.LAYERS_FIRST], whole[Whole.LAYERS_MIDDLE], whole[Whole.LAYERS_LAST])
    whole[Whole.HOST_FORWARD] = to_ticks(max(weights, activations) * rates.host.ticks_per_byte)
    whole[Whole.HOST_BACKWARD] = to_ticks((weights + activations) * rates.host.ticks_per_byte)
    whole[Whole.HOST_STEP] = to_ticks(layers * (states + weights) * rates.host.ticks_per_byte)


@jit_inline
def _kept_bytes(rates: Rates, inputs: IntArray) -> float:
    """Activations one layer keeps of a micro-batch (`workloads.memory.layer_activation_bytes`)."""
    tokens = inputs[Scalar.MICRO_BATCH] * rates.sequence / inputs[Scalar.SP]
    tp, recompute = inputs[Scalar.TP], inputs[Scalar.RECOMPUTE]
    divided = tp if inputs[Scalar.SEQUENCE_PARALLEL] else 1
    if recompute == FULL:
        return float(tokens * rates.hidden_bytes / divided)
    scores = 0.0 if recompute == SELECTIVE else rates.host.scores
    return float(tokens * (rates.host.kept_whole / divided + (rates.host.kept_split + scores) / tp))


@jit_inline
def _head_sharded(rates: Rates, pp: int) -> float:
    """Head parameters divided by tp; a tied output map is stored again on a last stage of its own."""
    return rates.head[0] + (rates.tied_output if pp > 1 else 0.0)


@jit_inline
def _place(tables: PhaseTables, inputs: IntArray, payload: FloatArray, links: IntArray) -> int:
    """Place the groups and look up each group's table offset on each dimension.

    Leaves each group's share, one over its extents in the dimensions below, in payload columns TENSOR, SEQUENCE and
    LAYER_UP for `_fill_payload`.
    """
    for dim in range(links.shape[0]):
        npus = inputs[Scalar.COUNT + dim]
        if npus < 1 or npus >= tables.npus_index.shape[0] or tables.npus_index[npus] < 0:
            return Status.OUTSIDE
    status = _extents(inputs, links)
    if status != Status.OK:
        return status
    tensor_top, gradient_top = -1, -1
    tensor_share = sequence_share = gradient_share = 1.0
    for dim in range(links.shape[0]):
        npus = inputs[Scalar.COUNT + dim]
        extent_tp, extent_sp = links[dim, Link.TENSOR], links[dim, Link.SEQUENCE]
        reducing = extent_sp * links[dim, Link.GRADIENT]
        links[dim, Link.STAGE] = _offset(tables, npus, links[dim, Link.STAGE], extent_tp * reducing)
        links[dim, Link.TENSOR] = _offset(tables, npus, extent_tp, 1)
        links[dim, Link.SEQUENCE] = _offset(tables, npus, extent_sp, extent_tp)
        links[dim, Link.GRADIENT] = _offset(tables, npus, reducing, extent_tp)
        tensor_top = dim if extent_tp > 1 else tensor_top
        gradient_top = dim if reducing > 1 else gradient_top
        payload[dim, Payload.TENSOR] = tensor_share
        payload[dim, Payload.SEQUENCE] = sequence_share
        payload[dim, Payload.LAYER_UP] = gradient_share
        if inputs[Scalar.MULTIDIM] == SPREAD:
            data = inputs[Scalar.DP] * inputs[Scalar.SP]
            payload[dim, Payload.TENSOR] = _alone(extent_tp, inputs[Scalar.TP])
            payload[dim, Payload.SEQUENCE] = _alone(extent_sp, inputs[Scalar.SP])
            payload[dim, Payload.LAYER_UP] = _alone(reducing, data)
        tensor_share = _shrink(tensor_share, extent_tp)
        sequence_share = _shrink(sequence_share, extent_sp)
        gradient_share = _shrink(gradient_share, reducing)
    blueconnect, spread = inputs[Scalar.MULTIDIM] == BLUECONNECT, inputs[Scalar.MULTIDIM] == SPREAD
    tensor_apart, gradient_apart = (
        inputs[Scalar.SEQUENCE_PARALLEL] > 0 or spread,
        inputs[Scalar.ZERO_STAGE] > 0 or spread,
    )
    for dim in range(links.shape[0]):
        links[dim, Link.TENSOR_REDUCTION] = _reduction(
            links[dim, Link.TENSOR], tensor_apart, blueconnect, dim == tensor_top
        )
        links[dim, Link.GRADIENT_REDUCTION] = _reduction(
            links[dim, Link.GRADIENT], gradient_apart, blueconnect, dim == gradient_top
        )
    return Status.OK


@jit_inline
def _extents(inputs: IntArray, links: IntArray) -> int:
    """Leave the extent of each group on each dimension in the group's column of `links`; see `workloads.placement`."""
    order = inputs[Scalar.ORDER]
    if order == EXPLICIT:
        return _given(inputs, links)
    if order > 0:
        return _filled(inputs, links, order)
    tp, sp, dp, pp = inputs[Scalar.TP], inputs[Scalar.SP], inputs[Scalar.DP], inputs[Scalar.PP]
    for dim in range(links.shape[0]):
        links[dim, Link.TENSOR], tp, room = _take(tp, inputs[Scalar.COUNT + dim])
        links[dim, Link.SEQUENCE], sp, room = _take(sp, room)
        links[dim, Link.GRADIENT], dp, room = _take(dp, room)
        links[dim, Link.STAGE], pp, room = _take(pp, room)
        if room != 1:
            return Status.WORLD_SIZE
    return Status.OK if tp * sp * dp * pp == 1 else Status.WORLD_SIZE


@jit
def _filled(inputs: IntArray, links: IntArray, order: int) -> int:
    """Fill the dimensions from the innermost outward by another order than the nested placement's."""
    left = 1
    for dim in range(links.shape[0]):
        room = inputs[Scalar.COUNT + dim]
        for position in range(_GROUPS):
            group = _FILLING[order, position]
            need = inputs[_DEGREES[group]]
            for inner in range(dim):
                need //= links[inner, group]
            links[dim, group], need, room = _take(need, room)
            if dim == links.shape[0] - 1:
                left *= need
        if room != 1:
            return Status.WORLD_SIZE
    return Status.OK if left == 1 else Status.WORLD_SIZE


@jit
def _given(inputs: IntArray, links: IntArray) -> int:
    """Take the extents from the row, where they multiply to the degrees and to the dimensions."""
    dimensions = links.shape[0]
    for dim in range(dimensions):
        room = inputs[Scalar.COUNT + dim]
        for group in range(_GROUPS):
            extent = inputs[Scalar.COUNT + dimensions + group * dimensions + dim]
            if extent < 1 or room % extent != 0:
                return Status.PLACEMENT
            room //= extent
            links[dim, group] = extent
        if room != 1:
            return Status.PLACEMENT
    for group in range(_GROUPS):
        need = inputs[_DEGREES[group]]
        for dim in range(dimensions):
            if need % links[dim, group] != 0:
                return Status.PLACEMENT
            need //= links[dim, group]
        if need != 1:
            return Status.PLACEMENT
    return Status.OK


@jit_inline
def _take(need: int, room: int) -> tuple[int, int, int]:
    """Return a group's extent in a dimension, what it still needs, and the room it leaves.

    Powers of two, the usual case, need one division: of two, the greatest common divisor is the smaller.
    """
    if need == 1 or room == 1:
        return 1, need, room
    if need & (need - 1) == 0 and room & (room - 1) == 0:
        if need >= room:
            return room, need // room, 1
        return need, 1, room // need
    extent, rest = need, room
    while rest:
        extent, rest = rest, extent % rest
    return extent, need // extent, room // extent


@jit_inline
def _alone(extent: int, degree: int) -> float:
    """Return the share of a payload with which a dimension does all of a group's reducing (`traffic.spread_time`)."""
    if extent == 1 or extent == degree:
        return 1.0
    return (degree - 1) / degree * extent / (extent - 1)


@jit_inline
def _shrink(share: float, extent: int) -> float:
    return share if extent == 1 else share / extent


@jit_inline
def _offset(tables: PhaseTables, npus: int, extent: int, stride: int) -> int:
    """Return the table offset of a group, -1 for a group of one member."""
    if extent == 1:
        return -1
    place = tables.npus_index[npus] * tables.divisors + tables.divisor_index[extent]
    return int(place * tables.divisors + tables.divisor_index[stride])


@jit_inline
def _reduction(offset: int, scattered: bool, blueconnect: bool, top: bool) -> int:
    """`scattered` groups never all-reduce: they reduce-scatter and all-gather apart."""
    if offset < 0:
        return Reduction.NONE
    if scattered or (blueconnect and not top):
        return Reduction.UP_DOWN
    return Reduction.TOP if blueconnect else Reduction.ALL_REDUCE


@jit_inline
def _fill_payload(rates: Rates, inputs: IntArray, payload: FloatArray, links: IntArray) -> None:
    """Bytes of one chunk on every dimension; `system.multidim.plan` gives the shares."""
    tp = inputs[Scalar.TP]
    stream = inputs[Scalar.MICRO_BATCH] * rates.sequence / inputs[Scalar.SP] * rates.hidden_bytes
    keys = inputs[Scalar.MICRO_BATCH] * rates.sequence * rates.kv_bytes / tp
    layer = rates.layer[0] / tp + rates.layer[1]
    embedding = rates.embedding[0] / tp + rates.embedding[1]
    head = _head_sharded(rates, inputs[Scalar.PP]) / tp + rates.head[1]
    gather_bytes = rates.weight_bytes if inputs[Scalar.ZERO_STAGE] > 0 else rates.gradient_bytes
    chunk = 1 / inputs[Scalar.CHUNKS]
    for dim in range(links.shape[0]):
        whole_tensor = links[dim, Link.TENSOR_REDUCTION] == Reduction.ALL_REDUCE
        whole_gradient = links[dim, Link.GRADIENT_REDUCTION] == Reduction.ALL_REDUCE
        tensor = chunk if whole_tensor else payload[dim, Payload.TENSOR] * chunk
        gradient = chunk if whole_gradient else payload[dim, Payload.LAYER_UP] * chunk
        up, down = gradient * rates.gradient_bytes, gradient * gather_bytes
        payload[dim, Payload.TENSOR] = stream * tensor
        payload[dim, Payload.SEQUENCE] = keys * (payload[dim, Payload.SEQUENCE] * chunk)
        payload[dim, Payload.LAYER_UP], payload[dim, Payload.LAYER_DOWN] = layer * up, layer * down
        payload[dim, Payload.EMBED_UP], payload[dim, Payload.EMBED_DOWN] = embedding * up, embedding * down
        payload[dim, Payload.HEAD_UP], payload[dim, Payload.HEAD_DOWN] = head * up, head * down
        payload[dim, Payload.SEND] = stream / tp if inputs[Scalar.SEQUENCE_PARALLEL] else stream
