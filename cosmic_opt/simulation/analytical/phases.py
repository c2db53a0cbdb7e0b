"""Compiled: the option vector of one dimension, from a prepared row and one network option."""

from __future__ import annotations

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.layout import (
    COLLECTIVES,
    INFEASIBLE,
    LIMIT_TICKS,
    Link,
    Option,
    Payload,
    Reduction,
    Slot,
    Status,
)
from cosmic_opt.simulation.analytical.structure import to_ticks
from cosmic_opt.simulation.analytical.tables import ILLEGAL, FloatArray, IntArray, PhaseTables
from cosmic_opt.units import TICKS_PER_SECOND

_ALL_REDUCE = COLLECTIVES.index("all_reduce")
_REDUCE_SCATTER = COLLECTIVES.index("reduce_scatter")
_ALL_GATHER = COLLECTIVES.index("all_gather")
_TICKS = float(TICKS_PER_SECOND)


@jit
def option_vector(tables: PhaseTables, payload: FloatArray, links: IntArray, option: IntArray, slots: IntArray) -> int:
    """Fill `slots` [K] for one dimension and return a `Status`.

    Args:
        tables: Hops and loads of the problem.
        payload: Row d of a prepared row's payload, [P].
        links: Row d of a prepared row's links, [L].
        option: Codes and base units in the order of `Option`, [4].
        slots: Written. An option the dimension cannot run fills it with INFEASIBLE.
    """
    status = _check(tables, links, option)
    if status != Status.OK:
        slots[:] = INFEASIBLE
        return status
    slots[:] = 0
    rate = _TICKS / option[Option.BANDWIDTH]
    if links[Link.TENSOR] >= 0:
        buffer = payload[Payload.TENSOR] * rate
        visits = _visits(tables, links[Link.TENSOR], option, links[Link.TENSOR_REDUCTION], buffer, buffer)
        slots[Slot.TENSOR_UP], slots[Slot.TENSOR_UP_LATENCY] = visits[0], visits[1]
        slots[Slot.TENSOR_DOWN], slots[Slot.TENSOR_DOWN_LATENCY] = visits[2], visits[3]
    if links[Link.SEQUENCE] >= 0:
        buffer = payload[Payload.SEQUENCE] * rate
        visits = _visits(tables, links[Link.SEQUENCE], option, Reduction.UP_DOWN, buffer, buffer)
        slots[Slot.SEQUENCE_UP], slots[Slot.SEQUENCE_UP_LATENCY] = visits[0], visits[1]
        slots[Slot.SEQUENCE_DOWN], slots[Slot.SEQUENCE_DOWN_LATENCY] = visits[2], visits[3]
    if links[Link.GRADIENT] >= 0:
        _gradient_slots(tables, payload, links, option, rate, slots)
    if links[Link.STAGE] >= 0:
        buffer = payload[Payload.SEND] * rate
        slots[Slot.SEND_STEP] = _send(tables, links[Link.STAGE], option, 0, buffer)
        slots[Slot.SEND_CARRY] = _send(tables, links[Link.STAGE], option, 1, buffer)
    return Status.OK


@jit
def _gradient_slots(
    tables: PhaseTables,
    payload: FloatArray,
    links: IntArray,
    option: IntArray,
    rate: float,
    slots: IntArray,
) -> None:
    """Three buckets over one group: the latencies are the same."""
    offset, reduction = links[Link.GRADIENT], links[Link.GRADIENT_REDUCTION]
    for bucket in range(3):
        up = payload[Payload.LAYER_UP + 2 * bucket] * rate
        down = payload[Payload.LAYER_DOWN + 2 * bucket] * rate
        visits = _visits(tables, offset, option, reduction, up, down)
        slots[Slot.LAYER_UP + 2 * bucket], slots[Slot.LAYER_DOWN + 2 * bucket] = visits[0], visits[2]
        slots[Slot.GRADIENT_UP_LATENCY], slots[Slot.GRADIENT_DOWN_LATENCY] = visits[1], visits[3]


@jit
def _check(tables: PhaseTables, links: IntArray, option: IntArray) -> int:
    """Return why a group of this dimension cannot run its algorithm here, or OK."""
    topology, algorithm = option[Option.TOPOLOGY], option[Option.ALGORITHM]
    if not (0 <= topology < tables.hops.shape[1] and 0 <= algorithm < tables.hops.shape[2]):
        return Status.OUTSIDE
    if option[Option.BANDWIDTH] < 1 or option[Option.LATENCY] < 0:
        return Status.OUTSIDE
    for group in range(Link.TENSOR, Link.STAGE):
        if links[group] >= 0:
            for kind in range(tables.hops.shape[3]):
                hops = tables.hops[links[group], topology, algorithm, kind]
                if hops < 0:
                    return Status.ALGORITHM if hops == ILLEGAL else Status.OUTSIDE
    if links[Link.STAGE] >= 0 and tables.send_hops[links[Link.STAGE], topology, 0] < 0:
        return Status.OUTSIDE
    return Status.OK


@jit
def _visits(
    tables: PhaseTables, offset: int, option: IntArray, reduction: int, up: float, down: float
) -> tuple[int, int, int, int]:
    """Return serialisation and latency going up, then going down.

    `up` and `down` are the ticks that the dimension's bandwidth takes for the buffer once.
    """
    if reduction == Reduction.UP_DOWN:
        return (
            to_ticks(_load(tables, offset, option, _REDUCE_SCATTER) * up),
            _latency(tables, offset, option, _REDUCE_SCATTER),
            to_ticks(_load(tables, offset, option, _ALL_GATHER) * down),
            _latency(tables, offset, option, _ALL_GATHER),
        )
    serialisation = to_ticks(_load(tables, offset, option, _ALL_REDUCE) * up)
    latency = _latency(tables, offset, option, _ALL_REDUCE)
    if reduction == Reduction.TOP:
        return serialisation, 0, 0, latency
    return serialisation, latency, 0, 0


@jit
def _load(tables: PhaseTables, offset: int, option: IntArray, kind: int) -> float:
    return float(tables.load[offset, option[Option.TOPOLOGY], option[Option.ALGORITHM], kind])


@jit
def _latency(tables: PhaseTables, offset: int, option: IntArray, kind: int) -> int:
    hops = tables.hops[offset, option[Option.TOPOLOGY], option[Option.ALGORITHM], kind]
    return _hop_ticks(hops, option[Option.LATENCY])


@jit
def _send(tables: PhaseTables, offset: int, option: IntArray, carry: int, buffer: float) -> int:
    hops = tables.send_hops[offset, option[Option.TOPOLOGY], carry]
    load = tables.send_load[offset, option[Option.TOPOLOGY], carry]
    return _hop_ticks(hops, option[Option.LATENCY]) + to_ticks(load * buffer)


@jit
def _hop_ticks(hops: int, latency_ticks: int) -> int:
    """Exact, and held at the end of the range."""
    if float(hops) * latency_ticks > LIMIT_TICKS:
        return int(LIMIT_TICKS)
    return hops * latency_ticks
