"""Score batches of designs by events; regions of them are still bounded by the analytical simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import InfeasibleError
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.events import event_simulator_of
from cosmic_opt.search.score import Scorer, Scores
from cosmic_opt.simulation.analytical.layout import NO_TIME, TERMS
from cosmic_opt.simulation.analytical.simulator import Evaluation
from cosmic_opt.simulation.events.simulator import EventSimulator

KNOWN = 1 << 16
"""Steps that are remembered."""

Step = tuple[int, tuple[int, ...], tuple[int, int], int]
"""Ticks, terms, hidden communication, micro-batches."""
CANNOT_RUN: Step = (NO_TIME, (0,) * len(TERMS), (0, 0), 0)


@dataclass(frozen=True)
class EventScorer(Scorer):
    """Scores by events. Designs with the same graph and the same ticks have the same step, simulated once.

    Attributes:
        events: The event simulator, on the analytical one.
        varying: Columns with more than one value: what the event simulator is told of a design.
    """

    events: EventSimulator
    varying: tuple[str, ...]
    known: dict[tuple[object, ...], Step] = field(default_factory=dict, compare=False, repr=False)

    def score(self, batch: DesignBatch, *, strict: bool = True) -> Scores:
        """Return the scores of feasible designs; see `Scorer.score`."""
        steps = [self._step({name: point[name] for name in self.varying}, strict=strict) for point in batch.points()]
        evaluation = _evaluation(steps)
        amounts = self.objective.amounts(batch)
        return Scores(evaluation, amounts, self.objective.values(evaluation.step_ticks, amounts))

    def _step(self, values: dict[str, Value], *, strict: bool) -> Step:
        try:
            simulation = self.events.bind(values)
        except InfeasibleError:
            if strict:
                raise
            return CANNOT_RUN
        lowered = simulation.lowered
        shared = tuple(value for name, value in values.items() if "[" not in name)
        key = (shared, lowered.whole.tobytes(), lowered.links.tobytes(), lowered.vectors.tobytes())
        if (known := self.known.get(key)) is not None:
            return known
        if len(self.known) >= KNOWN:
            self.known.clear()
        step = simulation.run()
        found = step.step_ticks, tuple(step.terms.values()), step.hidden, step.micro_batches
        return self.known.setdefault(key, found)


def event_scorer(instance: BoundInstance, scorer: Scorer) -> EventScorer:
    """Return what scores a problem by events.

    Raises:
        SpecError: its simulator is calibrated, so there are no events to replay.
    """
    varying = tuple(column.name for column in instance.parameter_set.columns if len(column.values) > 1)
    events = event_simulator_of(instance, scorer.analytical)
    return EventScorer(scorer.simulator, scorer.objective, events, varying)


def _evaluation(steps: Sequence[Step]) -> Evaluation:
    """Return steps as a batch."""
    ticks, terms, hidden, batches = zip(*steps, strict=True) if steps else ((), (), (), ())
    whole = np.int64
    return Evaluation(
        np.array(ticks, dtype=whole),
        np.array(terms, dtype=whole).reshape(-1, len(TERMS)),
        np.array(hidden, dtype=whole).reshape(-1, 2),
        np.array(batches, dtype=whole),
    )
