"""Play every rank of one design's step, some of them slow: what that costs, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import EngineDisagreement
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.events import event_simulator_of
from cosmic_opt.search.score import analytical_of, simulator_of
from cosmic_opt.simulation.events.rank_program import Progress
from cosmic_opt.simulation.events.rank_step import RankStep

Watch = Callable[[int], AbstractContextManager[Progress | None]]
"""Given how many events there are, gives what is told how many are over."""

AXES = ("tp", "sp", "dp", "stage")
"""How rank numbers count, the fastest first."""


@dataclass(frozen=True)
class RankReport:
    """A step of every rank.

    Attributes:
        step: With the slow ranks.
        equal_ticks: The step when no rank is slow: the folded one.
        sizes: tp, sp, dp and the stages.
        slowdown: How many times as long a rank's compute takes.
    """

    step: RankStep
    equal_ticks: int
    sizes: tuple[int, ...]
    slowdown: Mapping[int, Fraction]

    @property
    def ranks(self) -> int:
        """Return how many ranks there are."""
        return len(self.step.settled)

    def place(self, rank: int) -> dict[str, int]:
        """Return where a rank stands, by axis."""
        found = {}
        for axis, size in zip(AXES, self.sizes, strict=True):
            rank, found[axis] = divmod(rank, size)
        return found


def _unseen(_: int) -> AbstractContextManager[None]:
    return nullcontext()


def rank_report(
    instance: BoundInstance,
    design: DesignBatch,
    slowdown: Mapping[int, Fraction],
    equal_ticks: int,
    *,
    watch: Watch = _unseen,
) -> RankReport:
    """Return the step of every rank of a feasible design; `equal_ticks` is the folded step.

    `watch` may show how far it is.

    Raises:
        SpecError: a rank that is not there, or an instance without events.
        LimitError: more ranks, events, memory or time than can be played.
        EngineDisagreement: no rank is slow, and yet the step is not the folded one.
    """
    varying = {column.name for column in instance.parameter_set.columns if len(column.values) > 1}
    values = {name: value for name, value in next(design.points()).items() if name in varying}
    every = event_simulator_of(instance, analytical_of(simulator_of(instance))).every_rank(values)
    with watch(every.events) as progress:
        step = every.run(slowdown, progress=progress)
    if not slowdown and step.step_ticks != equal_ticks:
        raise EngineDisagreement(f"every rank takes {step.step_ticks} ticks, the folded step {equal_ticks}")
    sizes = (*(every.degrees[axis] for axis in AXES[:-1]), every.ranks // every.places)
    return RankReport(step, equal_ticks, sizes, dict(slowdown))
