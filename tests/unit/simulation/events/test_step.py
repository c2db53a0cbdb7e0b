"""A training step by events: equal to the closed forms without contention, never below them, and folded exactly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.analytical.layout import Whole
from cosmic_opt.simulation.events import run_program
from cosmic_opt.simulation.events.lower import Lowered
from cosmic_opt.simulation.events.passes import whole_program
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.simulation.events.step import StepSimulation
from cosmic_opt.system.multidim import plan
from cosmic_opt.system.phase import phase_cost
from cosmic_opt.workloads.graph import CONTEXT, DATA, PIPELINE, TENSOR, Communication
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.simulation.analytical_reference import Reference
from tests.unit.simulation.events.designs import SIMULATORS, random_steps
from tests.unit.simulation.test_analytical_reference import GLOBAL_BATCH, NPU, SEQUENCE

ALONE = {"chunks": 1, "overlap_gradients": 0, "overlap_weights": 0}
"""Nothing contends: one chunk, and all communication blocks."""


def optimizer_ticks(lowered: Lowered) -> int:
    return int(lowered.whole[Whole.OPTIMIZER_FIRST : Whole.OPTIMIZER_LAST + 1].max())


def test_without_pipeline_and_contention_the_closed_form_is_exact() -> None:
    for design, simulation, analytical in random_steps(1, 40, pp=1, **ALONE):
        assert simulation.run().step_ticks == analytical, design


def test_one_dimension_serves_chunks_exactly_as_the_closed_form_says() -> None:
    fixed = {"overlap_gradients": 0, "overlap_weights": 0, "pp": 1, "order": "tp_sp_dp_pp"}
    for design, simulation, analytical in random_steps(2, 12, tp=4, sp=1, dp=1, npus_per_dim=(4, 1, 1), **fixed):
        assert simulation.run().step_ticks == analytical, design


def test_with_a_pipeline_the_closed_form_is_exact_in_nearly_every_case_and_never_above() -> None:
    exact = []
    for design, simulation, analytical in random_steps(3, 120, **ALONE):
        ticks = simulation.run().step_ticks
        assert ticks >= analytical, design
        exact.append(ticks == analytical)
    assert sum(exact) >= 117


def test_with_contention_the_closed_form_is_a_lower_bound_within_a_quarter() -> None:
    for design, simulation, analytical in random_steps(4, 150):
        assert analytical <= simulation.run().step_ticks <= 1.25 * analytical, design


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_the_folded_step_equals_the_whole_one_to_the_tick(seed: int) -> None:
    """Nothing folded: every pass of every stage in one program, whose engine has a test of its own."""
    ((design, simulation, _),) = random_steps(seed, 1)
    step = simulation.run()
    whole = run_program(whole_program(simulation.lowered, simulation.graph), policy=simulation.lowered.policy)
    assert step.step_ticks == whole.ticks + optimizer_ticks(simulation.lowered), design
    assert np.array_equal(step.busy_ticks.reshape(-1), whole.busy_ticks), design


def test_parts_add_up_to_the_step() -> None:
    for design, simulation, _ in random_steps(6, 30):
        step = simulation.run()
        assert sum(step.terms.values()) == step.step_ticks, design
        assert min(step.terms.values()) >= 0, design


def test_parts_without_contention_are_those_of_the_closed_form() -> None:
    for design, simulation, analytical in random_steps(7, 25, pp=1, overlap_gradients=0, overlap_weights=0, chunks=1):
        reference = Reference(workload_of(simulation), NPU, design, GLOBAL_BATCH, SEQUENCE)
        assert simulation.run().terms == reference.terms, design
        assert analytical == reference.step


def test_each_dimension_carries_the_volume_that_algorithms_move() -> None:
    """Bytes through a dimension: chunks times phases, each load times its share of the buffer, over all calls."""
    for design, simulation, _ in random_steps(8, 25):
        reference = Reference(workload_of(simulation), NPU, design, GLOBAL_BATCH, SEQUENCE)
        lowered = simulation.lowered
        for node in nodes_of(simulation):
            if node.group == PIPELINE:
                continue
            extents, strides = reference.group({TENSOR: "tp", CONTEXT: "sp", DATA: "data"}[node.group])
            volume = [Fraction(0)] * 3
            for phase in plan(node.collective, design.multidim, extents):
                cost = phase_cost(
                    design.topology[phase.dim],
                    design.algorithm[phase.dim],
                    phase.collective,
                    design.npus_per_dim[phase.dim],
                    extents[phase.dim],
                    strides[phase.dim],
                )
                volume[phase.dim] += cost.load * phase.share * node.size_bytes
            busy = lowered.busy_ticks[lowered.call_index(node)]
            for dim in range(3):
                served = Fraction(int(busy[dim]) * design.bandwidth[dim], 10**12)
                rounding = Fraction(2 * design.chunks * design.bandwidth[dim], 10**12)
                assert abs(served - volume[dim]) <= rounding + volume[dim] / 10**9, (design, node)


def workload_of(simulation: StepSimulation) -> Transformer:
    layers = sum(name.startswith("layer") for stage in simulation.graph.stages for name, _ in stage.buckets)
    return next(model.workload for model in SIMULATORS.values() if model.workload.layers == layers)


def nodes_of(simulation: StepSimulation) -> set[Communication]:
    found = set()
    for stage in simulation.graph.stages:
        for _, bucket in stage.buckets:
            nodes = (*bucket.forward, *bucket.backward, bucket.gather, bucket.reduce)
            found |= {node for node in nodes if isinstance(node, Communication)}
    return found


def test_a_design_that_cannot_run_is_refused_as_by_the_closed_forms() -> None:
    (design, _, _), *_ = random_steps(10, 1, npus_per_dim=(4, 8, 4))
    with pytest.raises(InfeasibleError):
        EventSimulator(SIMULATORS["text"], {}).simulate(replace(design, dp=design.dp * 2).columns())
