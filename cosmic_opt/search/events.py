"""Score one design by events: the full report, and what only events know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.score import Simulator, analytical_of, simulator_of
from cosmic_opt.search.simulate import Report, report
from cosmic_opt.simulation.analytical.simulator import Evaluation
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.simulation.events.step import EventStep
from cosmic_opt.simulation.events.timeline import timeline
from cosmic_opt.units import TICKS_PER_SECOND

EXPOSED = {
    "tensor": ("tensor-parallel communication",),
    "context": ("sequence-parallel communication",),
    "pipeline": ("pipeline sends",),
    "data": ("weight gathers (exposed)", "gradient synchronisation (exposed)"),
}
"""The parts of a step that are exposed communication, by the group that communicates."""


@dataclass(frozen=True)
class EventReport:
    """A design scored by events.

    Attributes:
        report: Metrics and breakdown, of the pipeline stage with most work.
        step_ticks: Its step.
        analytical_step_s: The analytical simulator's time, a lower bound.
        utilisation: Per dimension, the share of the step during which it serves, averaged over NPUs.
        exposed_s: Communication that lengthens the step, by group.
        trace: The timeline, ready for JSON (Chrome, Perfetto); None unless asked for.
    """

    report: Report
    step_ticks: int
    analytical_step_s: float
    utilisation: tuple[float, ...]
    exposed_s: Mapping[str, float]
    trace: dict[str, object] | None


def event_simulator_of(instance: BoundInstance, analytical: Simulator) -> EventSimulator:
    """Return the event simulator of a bound instance, on its analytical simulator.

    Raises:
        SpecError: the instance names a software stack or an engine, so there are no events.
    """
    parameter_set = instance.parameter_set
    columns = parameter_set.columns
    constants: dict[str, Value] = dict(parameter_set.data)
    constants |= {column.name: column.values[0] for column in columns if len(column.values) == 1}
    return EventSimulator(analytical_of(analytical), {**instance.job, **constants})


def event_report(instance: BoundInstance, design: DesignBatch, *, with_trace: bool = False) -> EventReport:
    """Return the score of one feasible design by events.

    Raises:
        SpecError: the instance names a software stack, so there are no events.
        InfeasibleError: the simulators cannot run it.
        LimitError: its step takes longer than the simulator's clock can hold.
    """
    analytical = analytical_of(simulator_of(instance))
    varying = {column.name for column in instance.parameter_set.columns if len(column.values) > 1}
    values = {name: value for name, value in next(design.points()).items() if name in varying}
    simulation = event_simulator_of(instance, analytical).bind(values)
    step = simulation.run()
    bound = analytical.evaluate(design.value_columns())
    full = report(instance, design, scored=_evaluation(step))
    seconds = full.terms_s
    names = [_dimension_name(instance, design, dim) for dim in range(instance.dimensions)] if with_trace else []
    return EventReport(
        full,
        step.step_ticks,
        int(bound.step_ticks[0]) / TICKS_PER_SECOND,
        tuple(float(busy) for busy in step.busy_ticks.mean(axis=0) / step.step_ticks),
        {group: sum(seconds[name] for name in terms) for group, terms in EXPOSED.items()},
        timeline(simulation, step, names) if with_trace else None,
    )


def steps_too_long(instance: BoundInstance, scored: EventReport) -> list[Constraint]:
    """Return the rules on simulated quantities that the design breaks when events score it.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
    """
    parameter_set = instance.parameter_set
    rules = [rule for rule in parameter_set.constraints if rule.simulated]
    return [rule for rule in rules if scored.step_ticks > step_limit(replace(parameter_set, constraints=(rule,)))]


def _evaluation(step: EventStep) -> Evaluation:
    """Return the step as a batch of one."""
    return Evaluation(
        np.array([step.step_ticks]),
        np.array([list(step.terms.values())]),
        np.array([step.hidden]),
        np.array([step.micro_batches]),
    )


def _dimension_name(instance: BoundInstance, design: DesignBatch, dim: int) -> str:
    values = {**instance.parameter_set.data, **next(design.points())}
    return f"network dimension {dim}: {values[f'topology[{dim}]']} of {values[f'npus_per_dim[{dim}]']}"
