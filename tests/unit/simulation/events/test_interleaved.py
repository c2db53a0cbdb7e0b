"""Interleaved stages by events: exact where nothing contends, folded exactly, never below the closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.events import run_program
from cosmic_opt.simulation.events.passes import whole_program
from cosmic_opt.simulation.events.timeline import timeline
from tests.unit.simulation.events.designs import random_steps
from tests.unit.simulation.events.test_step import ALONE, optimizer_ticks
from tests.unit.simulation.test_analytical_reference import SHAPES, TEXT, simulator

DEEP = simulator(replace(TEXT, layers=48), 3, SHAPES)


@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_equal_pieces_in_whole_rounds_without_contention_take_exactly_the_closed_form(pieces: int) -> None:
    """Embedding, head and messages included, which make pieces differ."""
    seen = 0
    for design, simulation, analytical in random_steps(5, 90, DEEP, interleave=pieces, **ALONE):
        whole_rounds = simulation.graph.micro_batches % design.pp == 0
        if design.pp > 1 and 48 % (design.pp * pieces) == 0 and whole_rounds:
            assert simulation.run().step_ticks == analytical, design
            seen += 1
    assert seen >= 15


def test_no_interleaved_step_is_faster_than_the_closed_form() -> None:
    """Unequal pieces, pieces without a layer, rounds of any length, all kinds of overlap."""
    for pieces in (2, 3, 7):
        for design, simulation, analytical in random_steps(4, 60, interleave=pieces):
            assert simulation.run().step_ticks >= analytical, design


@given(st.integers(0, 10**6), st.integers(2, 4))
@settings(derandomize=True, deadline=None, max_examples=25)
def test_the_folded_step_equals_the_whole_one_to_the_tick(seed: int, pieces: int) -> None:
    ((design, simulation, _),) = random_steps(seed, 1, interleave=pieces)
    step = simulation.run()
    whole = run_program(whole_program(simulation.lowered, simulation.graph), policy=simulation.lowered.policy)
    assert step.step_ticks == whole.ticks + optimizer_ticks(simulation.lowered), design
    assert np.array_equal(step.busy_ticks.reshape(-1), whole.busy_ticks), design
    assert sum(step.terms.values()) == step.step_ticks, design
    assert min(step.terms.values()) >= 0, design


def test_only_passes_beside_data_parallel_traffic_are_played_node_by_node() -> None:
    """Of 2 x 48 x 2 passes of each stage; none where the traffic blocks."""
    fixed = {"dp": 4, "tp": 4, "pp": 4, "sp": 2, "npus_per_dim": (4, 8, 4), "micro_batch": 1, "interleave": 2}
    fixed |= {"algorithm": ("ring",) * 3, "topology": ("switch",) * 3, "bandwidth": (400 * 10**9,) * 3}
    for overlap in (0, 1):
        flags = {"overlap_gradients": overlap, "overlap_weights": overlap, "zero_stage": 1}
        for design, simulation, _ in random_steps(3, 5, DEEP, **fixed, **flags):
            played = {key for _, builder in simulation.run().windows for key in builder.places if key[0] == "end"}
            assert len(played) <= overlap * len(simulation.graph.stages) * 10, design
            assert bool(played) == bool(overlap)


def test_the_timeline_shows_every_pass_of_every_piece() -> None:
    for _, simulation, _ in random_steps(7, 4, interleave=3, pp=2):
        step = simulation.run()
        events = timeline(simulation, step, ("inner", "middle", "outer"))["traceEvents"]
        blocks = [event for event in events if event["ph"] == "X"]  # type: ignore[attr-defined,index]
        passes = [event["name"] for event in blocks if event["tid"] == 0 and event["pid"] == 1]
        assert len(passes) == len(set(passes)) == 2 * 3 * step.micro_batches
        assert any(str(event["name"]).startswith("layer 0: ") for event in blocks)
        end = max(float(event["ts"]) + float(event["dur"]) for event in blocks)
        assert abs(end - step.step_ticks / 10**6) < 1e-3
