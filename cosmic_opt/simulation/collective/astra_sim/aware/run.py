"""Runs one case on the congestion-aware backend: all NPUs together, or every communicator group at one time."""

from __future__ import annotations

import math
from functools import partial
from operator import add

import numpy as np

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.simulation.collective.astra_sim.algorithms import LATEST_NS, Costs
from cosmic_opt.simulation.collective.astra_sim.aware.engine import LinkEngine
from cosmic_opt.simulation.collective.astra_sim.aware.programs import Program, collective_program
from cosmic_opt.simulation.collective.astra_sim.case import AstraCase, parse_implementation
from cosmic_opt.simulation.collective.astra_sim.plan import SUBGROUP_DELAY_NS, cut
from cosmic_opt.simulation.collective.astra_sim.run import AstraTiming, bytes_per_ns
from cosmic_opt.simulation.collective.astra_sim.schedule import Phase


def run_aware_case(case: AstraCase) -> AstraTiming:
    """Return what ASTRA-sim's congestion-aware backend reports for `case`.

    Raises:
        SpecError: more than one dimension.
        InfeasibleError: ASTRA-sim does not end on this input; the message says why.
        LimitError: there are too many messages.
    """
    case.refuse_failures()
    engine = engine_of(case)
    npus = case.npus_per_dim[0]
    groups = case.groups or (tuple(range(npus)),)
    chunks = cut(case).count
    for group in groups:
        program = case_program(case, len(group))
        number = engine.add(program, group, chunks, case.active_chunks)
        for position in range(len(group)):
            engine.start(number, position, 0)
    times, finished = list[int](), 0
    while outputs := engine.advance(LATEST_NS):
        finished += len(outputs)
        times = [*times[:1], outputs[0].time_ns]
    if finished < sum(map(len, groups)):
        raise InfeasibleError("ASTRA-sim gives no time: a message never arrives", hint="use a higher bandwidth")
    return AstraTiming(time_ns=times[-1], first_npu_time_ns=times[0], chunks=chunks, phases=(_phase(case, groups[0]),))


def _phase(case: AstraCase, members: tuple[int, ...]) -> Phase:
    """Return the one phase of a chunk, with the time it takes alone."""
    engine = engine_of(case)
    number = engine.add(case_program(case, len(members)), members, 1, 1)
    for position in range(len(members)):
        engine.start(number, position, 0)
    time_ns = 0
    while outputs := engine.advance(LATEST_NS):
        time_ns = outputs[-1].time_ns
    one = np.zeros((1, 1), dtype=np.int64)
    return Phase(0, case.collective, len(members), cut(case).size_bytes, one, partial(add, time_ns))


def engine_of(case: AstraCase) -> LinkEngine:
    """Return the links of a case's network.

    Raises:
        SpecError: more than one dimension.
    """
    if len(case.npus_per_dim) > 1:
        raise SpecError(
            "the profile 'astra_sim_aware' has one dimension", hint="use the profile 'astra_sim' for several"
        )
    return LinkEngine(case.topologies[0], case.npus_per_dim[0], bytes_per_ns(case)[0], case.latency_ns[0])


def case_program(case: AstraCase, members: int) -> Program:
    """Return what each of `members` NPUs does with a chunk; fewer than all are a communicator group."""
    subgroup = members < math.prod(case.npus_per_dim)
    implementation = parse_implementation(case.algorithms[0])
    if subgroup and implementation.kind == "double_binary_tree":
        raise InfeasibleError(
            "ASTRA-sim gives no time: doubleBinaryTree on a communicator group reads a ring as a tree",
            hint="use ring for communicator groups",
        )
    costs = Costs(SUBGROUP_DELAY_NS if subgroup else case.endpoint_delay_ns, case.memory_gb_per_s)
    return collective_program(implementation, case.collective, members, cut(case).size_bytes, costs, subgroup=subgroup)
