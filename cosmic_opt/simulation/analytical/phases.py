"""Compiled: the option vector of one dimension, from a prepared row and one network option."""

from __future__ import annotations

from cosmic_opt.simulation.analytical._jit import jit_inline
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
from cosmic_opt.simulation.analytical.tables import FIELDS, ILLEGAL, SEND_FIELDS, FloatArray, IntArray, PhaseTables
from cosmic_opt.units import TICKS_PER_SECOND

_ALL_REDUCE = 2 * COLLECTIVES.index("all_reduce")
_REDUCE_SCATTER = 2 * COLLECTIVES.index("reduce_scatter")
_ALL_GATHER = 2 * COLLECTIVES.index("all_gather")
"""Where a collective's hops are among the FIELDS; its load follows."""

_TICKS = float(TICKS_PER_SECOND)


@jit_inline
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
    latency = option[Option.LATENCY]
    if links[Link.TENSOR] >= 0:
        buffer = payload[Payload.TENSOR] * rate
        place = _phase_place(tables, links[Link.TENSOR], option)
        visits = _visits(tables, place, latency, links[Link.TENSOR_REDUCTION], buffer, buffer)
        slots[Slot.TENSOR_UP], slots[Slot.TENSOR_UP_LATENCY] = visits[0], visits[1]
        slots[Slot.TENSOR_DOWN], slots[Slot.TENSOR_DOWN_LATENCY] = visits[2], visits[3]
    if links[Link.SEQUENCE] >= 0:
        buffer = payload[Payload.SEQUENCE] * rate
        place = _phase_place(tables, links[Link.SEQUENCE], option)
        visits = _visits(tables, place, latency, Reduction.UP_DOWN, buffer, buffer)
        slots[Slot.SEQUENCE_UP], slots[Slot.SEQUENCE_UP_LATENCY] = visits[0], visits[1]
        slots[Slot.SEQUENCE_DOWN], slots[Slot.SEQUENCE_DOWN_LATENCY] = visits[2], visits[3]
    if links[Link.GRADIENT] >= 0:
        _gradient_slots(tables, payload, links, option, rate, slots)
    if links[Link.STAGE] >= 0:
        buffer = payload[Payload.SEND] * rate
        place = _send_place(tables, links[Link.STAGE], option)
        slots[Slot.SEND_STEP] = _message(tables.sends, place, latency, buffer)
        slots[Slot.SEND_CARRY] = _message(tables.sends, place + 2, latency, buffer)
    return Status.OK


@jit_inline
def _gradient_slots(
    tables: PhaseTables,
    payload: FloatArray,
    links: IntArray,
    option: IntArray,
    rate: float,
    slots: IntArray,
) -> None:
    """Three buckets over one group: the latencies are the same."""
    place = _phase_place(tables, links[Link.GRADIENT], option)
    reduction = links[Link.GRADIENT_REDUCTION]
    for bucket in range(3):
        up = payload[Payload.LAYER_UP + 2 * bucket] * rate
        down = payload[Payload.LAYER_DOWN + 2 * bucket] * rate
        visits = _visits(tables, place, option[Option.LATENCY], reduction, up, down)
        slots[Slot.LAYER_UP + 2 * bucket], slots[Slot.LAYER_DOWN + 2 * bucket] = visits[0], visits[2]
        slots[Slot.GRADIENT_UP_LATENCY], slots[Slot.GRADIENT_DOWN_LATENCY] = visits[1], visits[3]


@jit_inline
def _check(tables: PhaseTables, links: IntArray, option: IntArray) -> int:
    """Return why a group of this dimension cannot run its algorithm here, or OK."""
    topology, algorithm = option[Option.TOPOLOGY], option[Option.ALGORITHM]
    if not (0 <= topology < tables.topologies and 0 <= algorithm < tables.algorithms):
        return Status.OUTSIDE
    if option[Option.BANDWIDTH] < 1 or option[Option.LATENCY] < 0:
        return Status.OUTSIDE
    for group in range(Link.TENSOR, Link.STAGE):
        if links[group] >= 0:
            mark = tables.phases[_phase_place(tables, links[group], option)]
            if mark < 0:
                return Status.ALGORITHM if mark == ILLEGAL else Status.OUTSIDE
    if links[Link.STAGE] >= 0 and tables.sends[_send_place(tables, links[Link.STAGE], option)] < 0:
        return Status.OUTSIDE
    return Status.OK


@jit_inline
def _phase_place(tables: PhaseTables, offset: int, option: IntArray) -> int:
    place = (offset * tables.topologies + option[Option.TOPOLOGY]) * tables.algorithms
    return int((place + option[Option.ALGORITHM]) * FIELDS)


@jit_inline
def _send_place(tables: PhaseTables, offset: int, option: IntArray) -> int:
    return int((offset * tables.topologies + option[Option.TOPOLOGY]) * SEND_FIELDS)


@jit_inline
def _visits(
    tables: PhaseTables, place: int, latency_ticks: int, reduction: int, up: float, down: float
) -> tuple[int, int, int, int]:
    """Return serialisation and latency going up, then going down.

    `up` and `down` are the ticks that the dimension's bandwidth takes for the buffer once.
    """
    phases = tables.phases
    if reduction == Reduction.UP_DOWN:
        scatter, gather = place + _REDUCE_SCATTER, place + _ALL_GATHER
        return (
            to_ticks(phases[scatter + 1] * up),
            _hop_ticks(phases[scatter], latency_ticks),
            to_ticks(phases[gather + 1] * down),
            _hop_ticks(phases[gather], latency_ticks),
        )
    serialisation = to_ticks(phases[place + _ALL_REDUCE + 1] * up)
    latency = _hop_ticks(phases[place + _ALL_REDUCE], latency_ticks)
    if reduction == Reduction.TOP:
        return serialisation, 0, 0, latency
    return serialisation, latency, 0, 0


@jit_inline
def _message(sends: FloatArray, place: int, latency_ticks: int, buffer: float) -> int:
    return _hop_ticks(sends[place], latency_ticks) + to_ticks(sends[place + 1] * buffer)


@jit_inline
def _hop_ticks(hops: float, latency_ticks: int) -> int:
    """Exact, and held at the end of the range."""
    if hops * latency_ticks > LIMIT_TICKS:
        return int(LIMIT_TICKS)
    return int(hops) * latency_ticks
