"""A simulated step as a timeline that Chrome and Perfetto show: one process per pipeline stage, one row per stream.

Every pass is a block. The first and the last micro-batch are shown node by node, with every chunk on every network
dimension; what lies between repeats and would only make the file large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cosmic_opt.simulation.events.passes import STREAMS, WAIT, Builder, add_pass, traffic_of
from cosmic_opt.simulation.events.program import Program
from cosmic_opt.simulation.events.replay import run_program
from cosmic_opt.simulation.events.step import EventStep, StepSimulation
from cosmic_opt.workloads.graph import CONTEXT, DATA, KEYS, PIPELINE, STREAM, TENSOR, Pass, Stage

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
        for program, begin in _detailed(simulation, step, stage):
            events += _details(simulation, program, begin, stage.index, rows)
        start, optimizer = max(step.settled), step.step_ticks - max(step.settled)
        events.append(_block(stage.index, 1, "optimizer", start, optimizer))
    for begin, builder in step.windows:
        events += _details(simulation, builder.program(), begin, 0, rows)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "step_time_s": step.step_ticks / (TICKS_PER_US * 10**6),
            "shown": "every pass; node by node, the first and the last micro-batch",
            "stands for": "one NPU of each pipeline stage: the others of the stage do the same",
        },
    }


def _detailed(simulation: StepSimulation, step: EventStep, stage: Stage) -> Iterator[tuple[Program, int]]:
    """Yield the passes of the first and last micro-batch that stand in no window, and the ticks at which they start."""
    graph = simulation.graph
    for one, begin, _ in _timed(simulation, step, stage):
        inside = any(("end", stage.index, one) in builder.places for _, builder in step.windows)
        if one.batch not in (0, graph.micro_batches - 1) or inside:
            continue
        if one == (True, 0, 0) and not graph.gathers_each_pass:
            yield simulation.first_forward(stage.pieces[0], begin), 0
            continue
        builder = Builder(simulation.lowered)
        add_pass(builder, graph, one, stage.index, traffic_of(graph, one.forward, one.batch))
        yield builder.program(), begin


def _timed(simulation: StepSimulation, step: EventStep, stage: Stage) -> Iterator[tuple[Pass, int, int]]:
    """Yield every pass of a stage, when it begins and when it ends."""
    done = [0, 0]
    for one in simulation.graph.passes(stage.index):
        place = stage.index, int(one.forward), done[one.forward]
        done[one.forward] += 1
        yield one, int(step.begins[place]), int(step.ends[place])


def _names(stage: int, stages: int, rows: Sequence[str]) -> Iterator[Event]:
    name = f"pipeline stage {stage}" if stages > 1 else "every NPU"
    yield {"ph": "M", "pid": stage, "name": "process_name", "args": {"name": name}}
    for place, row in enumerate(rows):
        yield {"ph": "M", "pid": stage, "tid": place, "name": "thread_name", "args": {"name": row}}
        yield {"ph": "M", "pid": stage, "tid": place, "name": "thread_sort_index", "args": {"sort_index": place}}


def _passes(simulation: StepSimulation, step: EventStep, stage: Stage) -> Iterator[Event]:
    """Yield a block per pass: as long as the pass, up to where its message is out."""
    for one, begin, end in _timed(simulation, step, stage):
        piece = f", piece {one.piece}" if simulation.graph.pieces > 1 else ""
        name = f"{'forward' if one.forward else 'backward'}, micro-batch {one.batch}{piece}"
        yield _block(stage.index, 0, name, begin, end - begin)


def _details(
    simulation: StepSimulation, program: Program, offset: int, first_stage: int, rows: Sequence[str]
) -> Iterator[Event]:
    """Yield every operation of a program in the row of its stream, and every chunk in that of its dimension."""
    lowered = simulation.lowered
    replay = run_program(program, policy=lowered.policy, visits=True)
    kinds = list(lowered.call_places)
    ops = [(op, first_stage + place // len(STREAMS)) for place, own in enumerate(program.streams) for op in own.ops]
    for (op, stage), start, end in zip(ops, replay.starts.tolist(), replay.ends.tolist(), strict=True):
        if end > start and op.name != WAIT:
            row = COMPUTE_ROW if op.call < 0 else COMMUNICATION[_group(kinds[op.call % len(kinds)])]
            yield _block(stage, rows.index(row), op.name, offset + start, end - start)
    first = len(rows) - lowered.dimensions
    for place, chunk, dim, start, end in replay.visits.tolist():
        if end > start:
            op, stage = ops[place]
            row = first + dim % lowered.dimensions
            yield _block(stage, row, f"{op.name}, chunk {chunk}", offset + start, end - start)


def _group(kind: tuple[str, str]) -> str:
    collective, buffer = kind
    return PIPELINE if collective == "send" else BUFFER_GROUP.get(buffer, DATA)


def _block(stage: int, row: int, name: str, begin: int, ticks: int) -> Event:
    times = {"ts": begin / TICKS_PER_US, "dur": ticks / TICKS_PER_US}
    return {"ph": "X", "pid": stage, "tid": row, "name": name, **times}
