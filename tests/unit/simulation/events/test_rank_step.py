"""Every rank of a training step: equal ones take the folded step to the tick, slow ones hold up whom they meet."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.events.passes import COMPUTE, STREAMS, whole_builder
from cosmic_opt.simulation.events.rank_step import WAITS, EveryRank
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.simulation.events.step import StepSimulation
from cosmic_opt.workloads.graph import Stage
from tests.unit.simulation.analytical_design import Design
from tests.unit.simulation.events.designs import random_steps, small_simulator
from tests.unit.simulation.events.test_all_ranks import extents_of
from tests.unit.simulation.events.test_step import ALONE
from tests.unit.simulation.test_analytical_reference import TEXT, random_design, random_factors, simulator

SHAPE = (2, 3, 1)
MODEL = small_simulator()
SERIAL = {"npus_per_dim": SHAPE, "micro_batch": 1, **ALONE}
SHAPES = (SHAPE, (4, 2, 1), (2, 2, 3), (1, 1, 1), (5, 1, 2))
MODELS = {shape: simulator(replace(TEXT, layers=4), 3, (shape,), global_batch=8) for shape in SHAPES}


def every_rank(design: Design, simulation: StepSimulation) -> EveryRank:
    return EveryRank(simulation.lowered, simulation.graph, extents_of(design))


def drawn(rng: random.Random, **fixed: object) -> Iterator[tuple[Design, StepSimulation]]:
    """Random designs of any options on small networks, under any service order, Themis among them."""
    while True:
        shape = rng.choice(SHAPES)
        degrees = dict(zip(("dp", "tp", "pp", "sp"), random_factors(rng, prod(shape), 4), strict=True))
        design = random_design(rng, shape, **{**degrees, **fixed})
        own = {"scheduling_policy": rng.choice(("fifo", "lifo", "smallest_first"))}
        if rng.random() < 0.25:
            design = replace(design, multidim="themis")
        try:
            yield design, EventSimulator(MODELS[shape], own).bind(design.columns())
        except InfeasibleError:
            continue


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_equal_ranks_take_the_folded_step_to_the_tick(seed: int) -> None:
    """Overlap, sharded weights, pipelines, interleaved stages, chunks, policies, groups that share dimensions."""
    design, simulation = next(drawn(random.Random(seed)))
    folded, step = simulation.run(), every_rank(design, simulation).run()
    assert step.step_ticks == folded.step_ticks, design
    places = prod(design.npus_per_dim) // design.pp
    assert np.array_equal(step.settled, np.repeat(folded.settled, places)), design
    assert np.array_equal(step.busy, np.repeat(folded.busy_ticks, places, axis=0)), design


def test_unequal_stages_take_the_folded_step_of_their_graph() -> None:
    """The last stage's layer moves to the first one."""
    for design, simulation, _ in random_steps(5, 4, MODEL, dp=2, tp=1, sp=1, pp=3, **SERIAL):
        first, middle, last = simulation.graph.stages
        moved, kept = last.pieces[0].buckets[0], last.pieces[0].buckets[1:]
        pieces = [
            replace(first.pieces[0], buckets=(*first.pieces[0].buckets, moved)),
            replace(last.pieces[0], buckets=kept),
        ]
        graph = replace(simulation.graph, stages=(Stage(0, (pieces[0],)), middle, Stage(2, (pieces[1],))))
        uneven = StepSimulation(simulation.lowered, graph)
        assert every_rank(design, uneven).run().step_ticks == uneven.run().step_ticks, design


def test_a_tensor_parallel_straggler_holds_up_all_its_compute() -> None:
    """All compute takes twice its time, all communication once."""
    for design, simulation, _ in random_steps(1, 4, MODEL, dp=1, tp=6, sp=1, pp=1, **SERIAL):
        step = simulation.run()
        communication = step.terms["tensor-parallel communication"]
        ticks = every_rank(design, simulation).run({4: 2}).step_ticks
        assert ticks == 2 * (step.step_ticks - communication) + communication, design


def compute_ticks(simulation: StepSimulation, stage: int, factor: Fraction | int) -> int:
    """What a rank of a stage computes, the optimizer left out."""
    stream = whole_builder(simulation.lowered, simulation.graph).streams[len(STREAMS) * stage + COMPUTE]
    return sum(round(ticks * factor) for _, ticks, call, _ in stream if call < 0)


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_work_communication_alone_and_waits_of_every_rank_add_up(seed: int) -> None:
    rng = random.Random(seed)
    design, simulation = next(drawn(rng))
    every = every_rank(design, simulation)
    slow = {rng.randrange(every.ranks): Fraction(rng.randrange(1, 40), 10) for _ in range(3)}
    step, alone = every.run(slow), every.alone_ticks
    for rank in range(every.ranks):
        stage = rank // every.places
        work = compute_ticks(simulation, stage, slow.get(rank, 1))
        assert work + alone[stage].sum() + step.waits[rank].sum() == step.settled.max(), design


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_slow_ranks_move_the_same_chunks_through_every_port(seed: int) -> None:
    rng = random.Random(seed)
    design, simulation = next(drawn(rng))
    every = every_rank(design, simulation)
    step = every.run({rng.randrange(every.ranks): Fraction(rng.randrange(1, 40), 10)})
    assert np.array_equal(step.busy, every.run().busy), design
    assert step.events == every.run().events


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_without_contention_a_slower_rank_never_makes_the_step_faster(seed: int) -> None:
    rng = random.Random(seed)
    design, simulation = next(drawn(rng, **ALONE, interleave=1))
    every = every_rank(design, simulation)
    rank, factor = rng.randrange(every.ranks), Fraction(rng.randrange(10, 40), 10)
    steps = [every.run({rank: by}).step_ticks for by in (Fraction(1, 2), 1, factor, 2 * factor)]
    assert steps == sorted(steps), design


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_a_slow_rank_costs_the_same_wherever_it_stands_in_its_stage(seed: int) -> None:
    """Numbers inside a stage only say who meets whom: all places are alike."""
    rng = random.Random(seed)
    design, simulation = next(drawn(rng))
    every = every_rank(design, simulation)
    stage, factor = rng.randrange(design.pp), Fraction(rng.randrange(11, 40), 10)
    places = {rng.randrange(every.places) for _ in range(3)}
    steps = {every.run({stage * every.places + place: factor}).step_ticks for place in places}
    assert len(steps) == 1, design


def test_a_slow_rank_takes_gathers_and_reductions_in_the_order_of_the_others() -> None:
    """Sharded weights, gathered and reduced beside every pass: by readiness, ranks would meet in different ones."""
    own = {"dp": 3, "sp": 2, "tp": 1, "pp": 1, "zero_stage": 3, "overlap_gradients": 1, "overlap_weights": 1}
    for design, simulation, _ in random_steps(2, 20, MODEL, npus_per_dim=SHAPE, micro_batch=1, **own):
        every = every_rank(design, simulation)
        assert every.run({1: Fraction(5, 4), 4: 3}).step_ticks > every.run().step_ticks, design


def test_slowdowns_and_sizes_out_of_range_are_refused() -> None:
    ((design, simulation, _),) = random_steps(1, 1, MODEL, dp=6, tp=1, sp=1, pp=1, **SERIAL)
    every = every_rank(design, simulation)
    for slow in ({6: 2}, {-1: 2}, {True: 2}, {"0": 2}, {0: 0}, {0: -1}, {0: 0.5}, {0: float("nan")}):
        with pytest.raises(SpecError) as caught:
            every.run(slow)  # type: ignore[arg-type]
        assert caught.value.hint
    with pytest.raises(LimitError, match="13 days"):
        every.run({0: 10**30})
    with pytest.raises(LimitError, match="ranks"):
        EveryRank(simulation.lowered, simulation.graph, {"tp": (1, 1, 1), "sp": (1, 1, 1), "dp": (10**6, 1, 1)})


def test_waits_name_every_group_and_the_step() -> None:
    assert WAITS == ("tensor", "context", "data", "pipeline", "step")
