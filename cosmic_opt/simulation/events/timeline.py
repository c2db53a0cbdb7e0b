"""A simulated step as a timeline that Chrome and Perfetto show: one process per pipeline stage, one row per stream.

Every pass is a block. The first and the last micro-batch are shown node by node, with every chunk on every network
dimension; what lies between repeats and would only make the file large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cosmic_opt.simulation.events.passes import Builder, add_pass, traffic_of
from cosmic_opt.simulation.events.program import Program
from cosmic_opt.simulation.events.replay import run_program
from cosmic_opt.simulation.events.step import WAIT, EventStep, StepSimulation
from cosmic_opt.workloads.graph import CONTEXT, DATA, KEYS, PIPELINE, STREAM, TENSOR, Stage

PASSES, COMPUTE_ROW = "passes", "compute"
COMMUNICATION = {
    TENSOR: "tensor-parallel communication",
    CONTEXT: "context-parallel communication",
    DATA: "data-parallel communication",
    PIPELINE: "pipeline sends",
}
BUFFER_GROUP = {STREAM: TENSOR, KEYS: CONTEXT}
"""The group of a buffer's collectives; parameters are data-parallel."""

TICKS_PER_US = 10**6
Event = dict[str, object]


def timeline(simulation: StepSimulation, step: EventStep, dimensions: Sequence[str]) -> dict[str, object]:
    """Return the trace, ready for JSON. `dimensions` names every network dimension, innermost first."""
    rows = [PASSES, COMPUTE_ROW, *COMMUNICATION.values(), *dimensions]
    events = list[Event]()
    for stage in simulation.graph.stages:
        events += _names(stage.index, len(simulation.graph.stages), rows)
        events += _passes(simulation, step, stage)
        for forward, index in _detailed(step.micro_batches):
            begin = int(step.begins[stage.index, int(forward), index])
            events += _details(simulation, stage, forward, index, begin, rows)
        start, optimizer = max(step.settled), step.step_ticks - max(step.settled)
        events.append(_block(stage.index, 1, "optimizer", start, optimizer))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "step_time_s": step.step_ticks / (TICKS_PER_US * 10**6),
            "shown": "every pass; node by node, the first and the last micro-batch",
            "stands for": "one NPU of each pipeline stage: the others of the stage do the same",
        },
    }


def _detailed(micro_batches: int) -> list[tuple[bool, int]]:
    indices = sorted({0, micro_batches - 1})
    return [(forward, index) for index in indices for forward in (True, False)]


def _names(stage: int, stages: int, rows: Sequence[str]) -> Iterator[Event]:
    name = f"pipeline stage {stage}" if stages > 1 else "every NPU"
    yield {"ph": "M", "pid": stage, "name": "process_name", "args": {"name": name}}
    for place, row in enumerate(rows):
        yield {"ph": "M", "pid": stage, "tid": place, "name": "thread_name", "args": {"name": row}}
        yield {"ph": "M", "pid": stage, "tid": place, "name": "thread_sort_index", "args": {"sort_index": place}}


def _passes(simulation: StepSimulation, step: EventStep, stage: Stage) -> Iterator[Event]:
    """Yield a block per pass: as long as the pass, up to where its message is out."""
    for forward, index in simulation.graph.order(stage.index):
        begin = int(step.begins[stage.index, int(forward), index])
        name = f"{'forward' if forward else 'backward'}, micro-batch {index}"
        yield _block(stage.index, 0, name, begin, simulation.pass_duration(stage, forward, index, begin))


def _details(
    simulation: StepSimulation, stage: Stage, forward: bool, index: int, begin: int, rows: Sequence[str]
) -> Iterator[Event]:
    """Yield every operation of a pass in the row of its stream, and every chunk in that of its dimension."""
    program, offset = _pass_program(simulation, stage, forward, index, begin)
    replay = run_program(program, policy=simulation.lowered.policy, visits=True)
    kinds = list(simulation.lowered.call_places)
    ops = program.ops
    for op, start, end in zip(ops, replay.starts.tolist(), replay.ends.tolist(), strict=True):
        if end > start and op.name != WAIT:
            row = COMPUTE_ROW if op.call < 0 else COMMUNICATION[_group(kinds[op.call])]
            yield _block(stage.index, rows.index(row), op.name, offset + start, end - start)
    first = len(rows) - simulation.lowered.dimensions
    for place, chunk, dim, start, end in replay.visits.tolist():
        if end > start:
            yield _block(stage.index, first + dim, f"{ops[place].name}, chunk {chunk}", offset + start, end - start)


def _group(kind: tuple[str, str]) -> str:
    collective, buffer = kind
    return PIPELINE if collective == "send" else BUFFER_GROUP.get(buffer, DATA)


def _pass_program(
    simulation: StepSimulation, stage: Stage, forward: bool, index: int, begin: int
) -> tuple[Program, int]:
    """Return the program of one pass, and the ticks at which it starts."""
    graph = simulation.graph
    if forward and index == 0 and not graph.gathers_each_pass:
        return simulation.first_forward(stage, begin), 0
    builder = Builder(simulation.lowered)
    add_pass(builder, graph, stage, forward, index, traffic_of(graph, forward, index))
    return builder.program(), begin


def _block(stage: int, row: int, name: str, begin: int, ticks: int) -> Event:
    times = {"ts": begin / TICKS_PER_US, "dur": ticks / TICKS_PER_US}
    return {"ph": "X", "pid": stage, "tid": row, "name": name, **times}
