"""The expensive work of a search as pure functions of a problem and a few numbers: bound, solve, score.

Because a result depends on nothing else, it does not matter where a task runs (`search.executor`), how many run at
once, or whether an earlier run has left its result (`search.study`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.feasibility.diagram import Diagram
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.search import kernel
from cosmic_opt.search.bounding import NO_LIMIT, Bounding
from cosmic_opt.search.event_scorer import EventScorer, event_scorer
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.objective import objective_of
from cosmic_opt.search.proof import Block
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.search.space import Codes, Space, build_space

IntArray = NDArray[np.int64]
Result_co = TypeVar("Result_co", covariant=True)


@dataclass
class Worker:
    """A problem, ready for any number of threads to work on.

    The search space is made once, when first needed, and so is what scores by events.
    """

    parameter_set: ParameterSet
    scorer: Scorer
    limit_ticks: int
    make_space: Callable[[], Space]
    make_events: Callable[[Scorer], EventScorer] | None = None
    _made: Bounding | None = None
    _made_events: EventScorer | None = None
    _making: Lock = field(default_factory=Lock)

    @property
    def bounding(self) -> Bounding:
        """The regions as the compiled kernel sees them.

        Raises:
            LimitError: too many structural combinations.
        """
        with self._making:
            if self._made is None:
                bounding = Bounding(self.make_space(), self.scorer.analytical, self.scorer.objective)
                bounding.prepare()
                self._made = bounding
            return self._made

    @property
    def by_events(self) -> EventScorer:
        """What scores by events.

        Raises:
            SpecError: the problem's simulator is calibrated.
        """
        with self._making:
            if self._made_events is None:
                assert self.make_events is not None, "the problem was made to be scored by events"
                self._made_events = self.make_events(self.scorer)
            return self._made_events


def worker_of(instance: BoundInstance, model: LoweredModel, known: Sequence[Diagram] = ()) -> Worker:
    """Return the worker of a bound instance; diagrams of the model that are `known` need not be built again.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
    """
    parameter_set = instance.parameter_set
    limit = step_limit(parameter_set)
    scorer = Scorer(simulator_of(instance), objective_of(instance.objective, parameter_set))

    def make_space() -> Space:
        return build_space(parameter_set, model, scorer.analytical, instance.dimensions, scorer.objective, known)

    return Worker(parameter_set, scorer, limit, make_space, partial(event_scorer, instance))


class Task(Protocol[Result_co]):
    """One piece of work."""

    def run(self, worker: Worker) -> Result_co:
        """Return the result; it depends on the problem and the task only."""


class KeptRegions(NamedTuple):
    """What is left of a block of regions once it is bounded.

    Attributes:
        block: The whole block; `least` is over the regions that are not kept.
        numbers: Regions that may hold a design as good as the incumbent, by number, ascending.
        ticks, amounts: Lower bounds of those.
    """

    block: Block
    numbers: IntArray
    ticks: IntArray
    amounts: IntArray


@dataclass(frozen=True)
class BoundBlock:
    """Bound the block of regions that begins at `start`, against an incumbent (ticks, amount) or none."""

    start: int
    best: tuple[int, int] | None

    def run(self, worker: Worker) -> KeptRegions:
        limit = min(worker.limit_ticks, NO_LIMIT)
        whole = worker.bounding.bound_block(self.start, self.best, limit)
        obeying = whole.ticks <= limit
        alive = obeying
        if self.best is not None:
            alive = obeying & np.asarray(whole.values <= self.best[0] * self.best[1], dtype=bool)
        known = [value for value in (whole.block.least, *whole.values[obeying & ~alive]) if value is not None]
        block = whole.block._replace(least=min(known, default=None))
        return KeptRegions(block, whole.numbers[alive], whole.ticks[alive], whole.amounts[alive])


class SolvedRegions(NamedTuple):
    """What was found in some regions.

    Attributes:
        closed: How many were closed before the boxes ran out, in order.
        results: int64 [n, 3]: ticks (-1: nothing as good as the incumbent), amount, boxes bounded.
        chosen: int64 [n, D], the option of every dimension.
    """

    closed: int
    results: IntArray
    chosen: IntArray

    @property
    def nodes(self) -> int:
        """Boxes of options that were bounded."""
        return int(self.results[:, 2].sum())


@dataclass(frozen=True)
class SolveRegions:
    """Find the best design of some regions, in order, against an incumbent that each may improve for the next.

    `numbers` are those of the regions, `ticks` and `amounts` their lower bounds, ascending in the product; `max_nodes`
    is how many boxes of options may be bounded.
    """

    numbers: IntArray
    ticks: IntArray
    amounts: IntArray
    best: tuple[int, int] | None
    max_nodes: int

    def run(self, worker: Worker) -> SolvedRegions:
        bounding = worker.bounding
        arrays = bounding.arrays(bounding.space.regions.take(self.numbers).codes)
        return solve_regions(worker, arrays, self)


def solve_regions(worker: Worker, arrays: kernel.Regions, asked: SolveRegions) -> SolvedRegions:
    """Solve regions that are given as the kernel sees them (their options may be narrowed)."""
    bounding, count = worker.bounding, len(asked.numbers)
    results = np.tile(np.array([-1, 0, 0], dtype=np.int64), (count, 1))
    chosen = np.zeros((count, len(bounding.space.options)), dtype=np.int64)
    closed = kernel.solve_regions(
        bounding.simulator.tables,
        bounding.options,
        arrays,
        np.column_stack([asked.ticks, asked.amounts]),
        np.array(asked.best or (NO_LIMIT, NO_LIMIT), dtype=np.int64),
        worker.limit_ticks,
        asked.max_nodes,
        results,
        chosen,
    )
    return SolvedRegions(int(closed), results, chosen)


class Scored(NamedTuple):
    """The step, in ticks, and the objective's amount of some designs."""

    ticks: IntArray
    amounts: IntArray


@dataclass(frozen=True)
class ScoreDesigns:
    """Score designs, given as codes [n, columns]; one that cannot run has the step NO_TIME."""

    codes: Codes

    def run(self, worker: Worker) -> Scored:
        """Return the scores.

        Raises:
            LimitError: a step takes longer than the simulator's clock can hold.
        """
        scores = worker.scorer.score(worker.parameter_set.batch(self.codes), strict=False)
        return Scored(scores.evaluation.step_ticks, scores.amounts)


@dataclass(frozen=True)
class SimulateDesigns:
    """Score designs, given as codes [n, columns], by events; one that cannot run has the step NO_TIME."""

    codes: Codes

    def run(self, worker: Worker) -> Scored:
        """Return the scores.

        Raises:
            SpecError: the problem's simulator is calibrated.
            LimitError: a step takes longer than the simulator's clock can hold.
        """
        scores = worker.by_events.score(worker.parameter_set.batch(self.codes), strict=False)
        return Scored(scores.evaluation.step_ticks, scores.amounts)
