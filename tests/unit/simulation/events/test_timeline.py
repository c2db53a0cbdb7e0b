"""The timeline shows what the simulation did, with names a person understands, and nothing twice at one time."""

from __future__ import annotations

import json
from itertools import pairwise

from cosmic_opt.simulation.events.step import StepSimulation
from cosmic_opt.simulation.events.timeline import timeline
from tests.unit.simulation.events.designs import random_steps

DIMENSIONS = ("inner", "middle", "outer")


def traces(**fixed: object) -> list[tuple[StepSimulation, int, list[dict[str, object]]]]:
    found = []
    for _, simulation, _ in random_steps(21, 6, **fixed):
        step = simulation.run()
        trace = timeline(simulation, step, DIMENSIONS)
        found.append((simulation, step.step_ticks, json.loads(json.dumps(trace))["traceEvents"]))
    return found


def test_no_row_shows_two_blocks_at_one_time() -> None:
    for _, _, events in traces():
        rows: dict[tuple[object, object], list[tuple[float, float]]] = {}
        for event in events:
            if event["ph"] == "X":
                times = float(event["ts"]), float(event["ts"]) + float(event["dur"])  # type: ignore[arg-type]
                rows.setdefault((event["pid"], event["tid"]), []).append(times)
        for times in rows.values():
            assert all(end <= start + 1e-5 for (_, end), (start, _) in pairwise(sorted(times)))


def test_the_last_block_ends_with_the_step() -> None:
    for _, ticks, events in traces():
        ends = [float(event["ts"]) + float(event["dur"]) for event in events if event["ph"] == "X"]  # type: ignore[arg-type]
        assert abs(max(ends) - ticks / 10**6) < 1e-3


def test_every_pass_of_every_stage_is_a_block_with_its_name() -> None:
    for simulation, _, events in traces(pp=2):
        names = [(event["pid"], event["name"]) for event in events if event.get("tid") == 0 and event["ph"] == "X"]
        batches = simulation.graph.micro_batches
        for stage in (0, 1):
            for way in ("forward", "backward"):
                assert sum(pid == stage and str(name).startswith(way) for pid, name in names) == batches


def test_rows_are_named_for_people() -> None:
    _, _, events = traces(pp=2)[0]
    named = {event["args"]["name"] for event in events if event["name"] == "thread_name"}  # type: ignore[index]
    assert {"passes", "compute", "tensor-parallel communication", "pipeline sends", *DIMENSIONS} <= named
    blocks = {str(event["name"]) for event in events if event["ph"] == "X"}
    assert {"optimizer", "send to the next stage"} <= blocks
    assert any(name.startswith("layer 0: ") for name in blocks)
