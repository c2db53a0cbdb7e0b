"""Rules on simulated quantities: keep the designs that obey them, and count how many do from both sides."""

from __future__ import annotations

from collections.abc import Iterator

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.bounding import NO_LIMIT, Bounding
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every import score_every
from cosmic_opt.search.executor import Threads
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.score import analytical_of, kernel_columns, simulator_of
from cosmic_opt.search.space import build_space
from cosmic_opt.search.tasks import worker_of


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
        yield batch.take(simulator.evaluate(kernel_columns(batch), strict=False).step_ticks <= limit)


def count_within_step_limit(instance: BoundInstance) -> tuple[int, int]:
    """Return certified (lower, upper) counts of the designs whose step obeys every rule on a simulated quantity.

    A region counts wholly when even its worst options obey, and not at all when its best do not.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
        LimitError: too many regions.
    """
    limit = step_limit(instance.parameter_set)
    model = lower(instance.parameter_set)
    if model.infeasible:
        return 0, 0
    scored = simulator_of(instance)
    objective = Objective("step_time")
    if not scored.decomposes:
        chunks = score_every(Threads(worker_of(instance, model), 1), feasible_set(model), objective, limit, Budget())
        count = sum(int(chunk.allowed.sum()) for chunk in chunks)
        return count, count
    simulator = analytical_of(scored)
    space = build_space(instance.parameter_set, model, simulator, instance.dimensions, objective)
    bounding = Bounding(space, simulator, objective)

    def obeying(start: int) -> tuple[int, int]:
        regions = space.regions.block(start, start + bounding.block_size)
        arrays = bounding.arrays(regions.codes)
        (best, _), (worst, _) = bounding.bounds(arrays), bounding.bounds(arrays, worst=True)
        return int(regions.sizes[worst <= limit].sum()), int(regions.sizes[best <= limit].sum())

    counts = list(bounding.over_blocks(obeying))
    return sum(lower for lower, _ in counts), sum(upper for _, upper in counts)
