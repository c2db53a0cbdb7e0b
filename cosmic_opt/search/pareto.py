"""The exact front of step time against one or two structural quantities, region by region.

With two quantities, one must be the same for all options of a region (memory is: degrees and schedule decide it).
Regions are then taken in order of that quantity. A point of a later region is new exactly when no point found so far is
as good in the other two respects, so a front of two objectives, kept up to each level, finds the front of three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import LimitError, SpecError, nearest
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.psa.quantity import Quantity, structural_names
from cosmic_opt.search import kernel
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.every_front import front_of_all
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.limits import limits_simulated, step_limit
from cosmic_opt.search.objective import Objective, quantity_values
from cosmic_opt.search.outcome import Stop
from cosmic_opt.search.owners import STRUCTURAL
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.search.space import Codes, Space, build_space
from cosmic_opt.search.tasks import worker_of

IntArray = NDArray[np.int64]

STEP = Objective("step_time")
CAPACITY = 1 << 17
CHUNK = 256


@dataclass(frozen=True)
class ParetoFront:
    """Every (step, amount, ...) that no design beats in one respect without losing in another, with a design each.

    Sorted by step, then amounts. `amounts` [points, quantities] are in the base units of `quantities`. With `stop`
    PROVED every region was closed (every design scored) and the front is exact; else these points are the best of the
    regions closed (designs scored). Where several designs share a point, one of them is shown. `step_ticks` are those
    of what is `scored`; an objective among the quantities of a served model has its ticks as amounts.
    """

    quantities: tuple[Quantity | Objective, ...]
    designs: DesignBatch
    step_ticks: IntArray
    amounts: IntArray
    feasible_designs: int
    regions: int
    regions_closed: int
    nodes: int
    stop: Stop
    scored: Objective = STEP
    allowed_designs: int | None = None
    """How many designs obey rules on simulated quantities; None without such rules, or where not each was scored."""
    designs_scored: int | None = None
    """How many designs were scored one by one; None where regions were closed instead."""

    @property
    def designs_counted(self) -> int:
        """How many designs are feasible, as far as that is known: see `before_simulated_rules`."""
        return self.feasible_designs if self.allowed_designs is None else self.allowed_designs

    @property
    def before_simulated_rules(self) -> bool:
        """Whether there are rules on simulated quantities, and `designs_counted` counts what breaks them too."""
        return self.allowed_designs is None and limits_simulated(self.designs.parameter_set)


def pareto_front(instance: BoundInstance, *names: str, budget: Budget | None = None) -> ParetoFront:
    """Return the front of `step_time` against one or two structural quantities, all minimised.

    Raises:
        SpecError: an unknown or a simulated quantity, or two that both depend on network options.
        LimitError: too many structural combinations, or more than 131,000 points.
    """
    parameter_set = instance.parameter_set
    quantities = tuple(_quantity(parameter_set, name) for name in names)
    model = lower(parameter_set)
    if model.infeasible:
        empty = parameter_set.batch(np.zeros((0, len(parameter_set.columns)), dtype=np.int32))
        none = np.zeros((0, len(names)), dtype=np.int64)
        return ParetoFront(quantities, empty, none[:, 0], none, 0, 0, 0, 0, Stop.PROVED)
    if instance.calibrated is not None:
        return _by_scoring(instance, model, quantities, budget or Budget())
    scorer, space, level = _space(instance, model, quantities)
    frontier = Frontier(space, scorer.analytical, scorer.objective, step_limit(parameter_set))
    levels = None if level is None else quantity_values(level, space.batch(frontier.regions.codes))
    search = _Search(frontier, budget or Budget())
    search.run(levels)
    codes = [space.design(frontier.regions.codes[row], [int(o) for o in options]) for row, *options in search.origins]
    designs = parameter_set.batch(np.array(codes, dtype=np.int32).reshape(len(codes), len(parameter_set.columns)))
    found = np.array(search.points, dtype=np.int64).reshape(len(codes), 2)
    amounts = np.zeros((0, len(names)), dtype=np.int64)
    if codes:
        recheck(model, parameter_set, designs.codes, "the Pareto search")
        scores = scorer.score(designs)
        assert np.array_equal(scores.evaluation.step_ticks, found[:, 0]), "points score as they were found"
        assert np.array_equal(scores.amounts, found[:, 1]), "points cost as they were found"
        amounts = np.column_stack([quantity_values(quantity, designs) for quantity in quantities])
    order = np.lexsort((*amounts.T[::-1], found[:, 0]))
    return ParetoFront(
        quantities,
        designs.take(order),
        found[order, 0],
        amounts[order],
        space.feasible.size,
        space.regions.count,
        space.regions.count - len(frontier.order) + search.closed,
        search.nodes,
        search.stop,
    )


def _by_scoring(
    instance: BoundInstance, model: LoweredModel, quantities: tuple[Quantity, ...], budget: Budget
) -> ParetoFront:
    """Return the front of a calibrated problem: every design is scored."""
    parameter_set, feasible = instance.parameter_set, feasible_set(model)

    def amounts_of(codes: Codes) -> IntArray:
        batch = parameter_set.batch(codes)
        return np.column_stack([quantity_values(quantity, batch) for quantity in quantities])

    front = front_of_all(worker_of(instance, model), feasible, STEP, amounts_of, 1 + len(quantities), budget)
    recheck(model, parameter_set, front.codes, "the Pareto search")
    stop = Stop.PROVED if front.scored == feasible.size else Stop.TIME
    designs, steps, amounts = parameter_set.batch(front.codes), front.points[:, 0], front.points[:, 1:]
    allowed = front.allowed if stop is Stop.PROVED and limits_simulated(parameter_set) else None
    return ParetoFront(
        *(quantities, designs, steps, amounts, feasible.size, 0, 0, 0, stop),
        allowed_designs=allowed,
        designs_scored=front.scored,
    )


def _quantity(parameter_set: ParameterSet, name: str) -> Quantity:
    quantity = parameter_set.quantities.get(name)
    if not isinstance(quantity, Quantity):
        known = structural_names(parameter_set.quantities)
        raise SpecError(f"{name!r} is not a structural quantity here", hint=nearest(name, known))
    return quantity


def _space(
    instance: BoundInstance, model: LoweredModel, quantities: tuple[Quantity, ...]
) -> tuple[Scorer, Space, Quantity | None]:
    """Return the search space whose options carry one quantity; the other one, if any, is the same in a region."""
    for amount, *others in (quantities, quantities[::-1]):
        scorer = Scorer(simulator_of(instance), Objective(f"step_time * {amount.name}", amount))
        parameter_set = instance.parameter_set
        space = build_space(parameter_set, model, scorer.analytical, instance.dimensions, scorer.objective)
        if all(_same_in_a_region(other, space) for other in others):
            return scorer, space, others[0] if others else None
    raise SpecError(
        f"{quantities[0].name} and {quantities[1].name} both depend on the network's options",
        hint="beside step_time, one of the two must be decided by the structure: memory_per_npu is",
    )


def _same_in_a_region(quantity: Quantity, space: Space) -> bool:
    positions = space.parameter_set.positions
    read = {positions[name] for term in quantity.terms for name in term.names if name in positions}
    return all(space.ownership.owner[c] == STRUCTURAL for c in read if len(space.model.allowed[c]) > 1)


class _Search:
    """Closes regions level by level; `points` (ticks, amount) and `origins` (region, options) grow."""

    def __init__(self, frontier: Frontier, budget: Budget) -> None:
        self.frontier, self.budget = frontier, budget
        self.points: list[list[int]] = []
        self.origins: list[list[int]] = []
        self.closed = self.nodes = 0
        self.stop = Stop.PROVED
        self.front = kernel.Front(
            np.zeros((CAPACITY, 2), dtype=np.int64),
            np.zeros((CAPACITY, 1 + len(frontier.space.options)), dtype=np.int64),
            np.zeros(1, dtype=np.int64),
        )

    def run(self, levels: IntArray | None) -> None:
        """Explore every region; those of one level together, lower levels first.

        Raises:
            LimitError: the front has too many points.
        """
        order = self.frontier.order
        own = np.zeros(len(order), dtype=np.int64) if levels is None else levels[order]
        for level in np.unique(own):
            rows = order[own == level]
            self._explore(rows)
            count = int(self.front.size[0])
            new = np.isin(self.front.origins[:count, 0], rows)
            self.points += self.front.points[:count][new].tolist()
            self.origins += self.front.origins[:count][new].tolist()
            if len(self.points) >= CAPACITY:
                raise _too_many()
            if self.stop is not Stop.PROVED:
                break

    def _explore(self, rows: IntArray) -> None:
        frontier = self.frontier
        for start in range(0, len(rows), CHUNK):
            if self.budget.out_of_time():
                self.stop = Stop.TIME
                return
            part = rows[start : start + CHUNK]
            closed, used = kernel.explore_regions(
                frontier.simulator.tables,
                frontier.options,
                frontier.region_arrays(part),
                part,
                np.column_stack([frontier.ticks[part], frontier.amounts[part]]),
                frontier.limit_ticks,
                np.iinfo(np.int64).max,
                self.front,
            )
            self.nodes += int(used)
            self.closed += int(closed)
            if closed < len(part):
                raise _too_many()


def _too_many() -> LimitError:
    return LimitError(f"the front has more than {CAPACITY:,} points", hint="add a rule that narrows it")
