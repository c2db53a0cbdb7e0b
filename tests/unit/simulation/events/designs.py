"""Random training steps for the event simulator, with the analytical score of each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.analytical import AnalyticalSimulator
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.simulation.events.step import StepSimulation
from tests.unit.simulation.analytical_design import Design
from tests.unit.simulation.test_analytical_reference import IMAGE, SHAPES, TEXT, random_design, simulator

SIMULATORS = {workload.name: simulator(workload, 3, SHAPES) for workload in (TEXT, IMAGE)}


def analytical_ticks(model: AnalyticalSimulator, design: Design) -> int:
    """The analytical score of one design."""
    return int(model.evaluate({name: np.array([value]) for name, value in design.columns().items()}).step_ticks[0])


def small_simulator() -> AnalyticalSimulator:
    """Three layers and at most two micro-batches of three sequences, on six NPUs: for engines that fold nothing."""
    return simulator(replace(TEXT, layers=3), 3, ((2, 3, 1),), global_batch=6)


def random_steps(
    seed: int, number: int, model: AnalyticalSimulator | None = None, **fixed: object
) -> Iterator[tuple[Design, StepSimulation, int]]:
    """Designs that can run, ready to be simulated by events, and their analytical score."""
    rng = random.Random(seed)
    given = model
    while number:
        model = given or SIMULATORS[rng.choice(sorted(SIMULATORS))]
        design = random_design(rng, rng.choice(SHAPES), **{"interleave": 1, **fixed})
        try:
            ticks = analytical_ticks(model, design)
        except InfeasibleError:
            continue
        policy = rng.choice(("fifo", "lifo"))
        yield design, EventSimulator(model, {"scheduling_policy": policy}).bind(design.columns()), ticks
        number -= 1
