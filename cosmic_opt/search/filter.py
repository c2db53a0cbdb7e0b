"""Keep the designs that also satisfy the rules on simulated quantities, by scoring them."""

from __future__ import annotations

from collections.abc import Iterator

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.frontier import NO_LIMIT
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.score import simulator_of


def within_step_limit(instance: BoundInstance, batches: Iterator[DesignBatch]) -> Iterator[DesignBatch]:
    """Yield the designs of each batch whose simulated step obeys every rule; all of them where there is no rule.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
    """
    limit = step_limit(instance.parameter_set)
    if limit == NO_LIMIT:
        yield from batches
        return
    simulator = simulator_of(instance)
    for batch in batches:
        yield batch.take(simulator.evaluate(batch.value_columns()).step_ticks <= limit)
