"""The event-driven simulator of training steps, on the analytical simulator's primitives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.simulation.analytical.inputs import DEFAULTS, OPTIONS, WEIGHT_SHARDED_STAGE
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator
from cosmic_opt.simulation.events.lower import Lowered, lower
from cosmic_opt.simulation.events.program import PLANNED, Call
from cosmic_opt.simulation.events.rank_step import EveryRank
from cosmic_opt.simulation.events.spread import extents_of, spread_calls
from cosmic_opt.simulation.events.step import EventStep, StepSimulation
from cosmic_opt.system.multidim import THEMIS
from cosmic_opt.workloads.graph import TrainingGraph, training_graph
from cosmic_opt.workloads.parallelism import Parallelism
from cosmic_opt.workloads.training import OFFLOADS, training_job

POLICY = "scheduling_policy"
Value = int | str


class EventSimulator:
    """Simulates steps of the problem that an analytical simulator is bound to, one design at a time.

    Attributes:
        analytical: The analytical simulator, whose ticks it adds up.
        constants: Values of names that a design does not give.
    """

    def __init__(self, analytical: AnalyticalSimulator, constants: Mapping[str, Value]) -> None:
        self.analytical = analytical
        job = analytical.job
        own = {
            name: getattr(job, name)
            for name in ("micro_batch", "recompute", "zero_stage", "sequence_parallel", "interleave", *OFFLOADS)
        }
        self.constants: dict[str, Value] = {**DEFAULTS, POLICY: "fifo", **own, **constants}

    def simulate(self, design: Mapping[str, Value]) -> EventStep:
        """Simulate the step of one design: a value for every column of the problem, in base units.

        Raises:
            SpecError: a value is missing or outside the domains, or something is offloaded.
            InfeasibleError: the degrees do not fill the network, or an algorithm does not exist there.
            LimitError: the step takes longer than 13 days.
        """
        return self.bind(design).run()

    def bind(self, design: Mapping[str, Value]) -> StepSimulation:
        """Return the graph and the ticks of one design, ready to run."""
        values = {**self.constants, **design}
        offloaded = [name for name in OFFLOADS if int(values[name])]
        if offloaded:
            raise SpecError(
                "the event simulator has no host memory",
                where=Where(key=offloaded[0]),
                hint=f"fix {' '.join(f'{name}=0' for name in offloaded)}, or use the analytical engine",
            )
        graph = self.graph(values)
        return StepSimulation(self._lower(design, values, graph), graph)

    def every_rank(self, design: Mapping[str, Value]) -> EveryRank:
        """Return all ranks of one design, ready to run."""
        simulation = self.bind(design)
        extents = extents_of({**self.constants, **design}, self.analytical.dimensions)
        return EveryRank(simulation.lowered, simulation.graph, extents)

    def graph(self, values: Mapping[str, Value]) -> TrainingGraph:
        """Return the operator graph of a design with all its values."""
        stage = int(values["zero_stage"])
        if "weight_sharded" in values:
            stage = WEIGHT_SHARDED_STAGE * int(values["weight_sharded"])
        own = self.analytical.job
        data: dict[str, Value] = {
            name: getattr(own, name) for name in own.__dataclass_fields__ if name not in ("zero_stage",)
        }
        for name in ("micro_batch", "recompute", "sequence_parallel", "interleave"):
            data[name] = values[name]
        job = training_job(self.analytical.workload, {**data, "zero_stage": stage})
        degrees = Parallelism(*(int(values[name]) for name in ("dp", "tp", "pp", "sp")))
        return training_graph(
            self.analytical.workload,
            job,
            degrees,
            overlap_gradients=bool(values["overlap_gradients"]),
            overlap_weights=bool(values["overlap_weights"]),
        )

    def _lower(self, design: Mapping[str, Value], values: Mapping[str, Value], graph: TrainingGraph) -> Lowered:
        columns = {name: np.array([value]) for name, value in design.items()}
        self.analytical.evaluate(columns)  # refuses what cannot run
        prepared = self.analytical.prepare(columns)
        vectors = []
        for dim in range(self.analytical.dimensions):
            names = {option: f"{option}[{dim}]" for option in OPTIONS}
            options = {option: columns[name] for option, name in names.items() if name in columns}
            vectors.append(self.analytical.option_vectors(prepared, 0, dim, options)[0])
        scalars = {name: int(values[name]) for name in ("tp", "sp", "micro_batch", "sequence_parallel")}
        policy, calls = str(values[POLICY]), dict[tuple[str, str], Call]()
        if values["multidim"] == THEMIS:
            policy, calls = PLANNED, spread_calls(values, self.analytical.dimensions, graph, policy)
        return lower(self.analytical, prepared, 0, vectors, scalars, policy, calls)
