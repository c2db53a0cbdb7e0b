"""One NPU per stage stands for all: every NPU of small networks, with dimensions of its own and rendezvous."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product
from math import prod

import pytest

from cosmic_opt.simulation.events import Call, Program, Stream, run_program
from cosmic_opt.simulation.events.passes import whole_program
from cosmic_opt.simulation.events.step import StepSimulation
from cosmic_opt.workloads.placement import GROUPS, nested_placement
from tests.unit.simulation.analytical_design import Design
from tests.unit.simulation.events.designs import random_steps, small_simulator
from tests.unit.simulation.events.reference import reference

SHAPE = (2, 3, 1)
MODEL = small_simulator()
MEMBERS = {"stream": ("tp",), "keys": ("sp",)}
"""The groups along which a buffer's collective runs; parameters run along sequence and data parallelism."""


def extents_of(design: Design) -> dict[str, tuple[int, ...]]:
    filled = design.order.split("_")
    rows = nested_placement([getattr(design, group) for group in filled], design.npus_per_dim)
    return dict(zip(filled, rows, strict=True))


def every_rank(simulation: StepSimulation, ranks: int) -> tuple[Program, Program]:
    """The program of one NPU per stage, and `ranks` copies of it side by side, each with its own dimensions."""
    one = whole_program(simulation.lowered, simulation.graph)
    calls, streams = [], []
    for rank in range(ranks):
        for call in one.calls:
            moved = tuple(
                tuple(visit._replace(dim=visit.dim + rank * one.dimensions) for visit in route) for route in call.routes
            )
            calls.append(Call(moved, call.chunks))
        for stream in one.streams:
            ops = tuple(
                op.__class__(
                    op.name,
                    op.ticks,
                    op.call + rank * len(one.calls) if op.call >= 0 else -1,
                    op.wait + rank * len(one.ops) if op.wait >= 0 else -1,
                )
                for op in stream.ops
            )
            streams.append(Stream(stream.name, stream.lane + rank * len(one.streams), ops))
    return one, Program(ranks * one.dimensions, tuple(calls), tuple(streams))


@pytest.mark.parametrize(
    "degrees",
    [
        {"dp": 6, "tp": 1, "pp": 1, "sp": 1, "zero_stage": 3},
        {"dp": 3, "tp": 2, "pp": 1, "sp": 1, "chunks": 2},
        {"dp": 2, "tp": 1, "pp": 3, "sp": 1, "chunks": 3},
        {"dp": 1, "tp": 2, "pp": 1, "sp": 3, "zero_stage": 1},
        {"dp": 1, "tp": 3, "pp": 2, "sp": 1},
        {"dp": 2, "tp": 1, "pp": 1, "sp": 3, "zero_stage": 2},
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_all_ranks_end_when_the_representative_does(degrees: dict[str, int], seed: int) -> None:
    ((design, simulation, _),) = random_steps(seed, 1, MODEL, **{**degrees, "npus_per_dim": SHAPE, "micro_batch": 3})
    extents = extents_of(design)
    axes = [(group, dim) for group in GROUPS if group != "pp" for dim in range(len(SHAPE))]
    places = list(product(*(range(extents[group][dim]) for group, dim in axes)))
    assert len(places) * design.pp == prod(SHAPE)
    one, every = every_rank(simulation, len(places))
    kinds = list(simulation.lowered.call_places)

    def partners(stream: int, call: int, dim: int) -> tuple[Hashable, int]:
        place = places[stream // len(one.streams)]
        collective, buffer = kinds[call % len(kinds)]
        local = dim % len(SHAPE)
        own = () if collective == "send" else MEMBERS.get(buffer, ("sp", "dp"))
        fixed = tuple(at for at, axis in zip(place, axes, strict=True) if not (axis[0] in own and axis[1] == local))
        size = prod(extents[group][local] for group in own)
        return (fixed, stream % len(one.streams), dim % one.dimensions), size

    ends, busy = reference(every, policy=simulation.lowered.policy, partners=partners)
    replay = run_program(one, policy=simulation.lowered.policy)
    assert ends == replay.ends.tolist() * len(places), design
    assert busy == replay.busy_ticks.tolist() * len(places), design
