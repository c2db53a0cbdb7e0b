"""The exact half of a problem: its bound instance, its feasible set, and why a design is not in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.api.arguments import of_kind, whole
from cosmic_opt.api.changes import Changes
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.feasibility.count import DIAGRAM, CountResult, count, count_without_diagram
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet

if TYPE_CHECKING:
    from cosmic_opt.analysis.dead_knobs import DeadKnobs, EquivalentCount
    from cosmic_opt.analysis.explain import Explanation, WhyNot
    from cosmic_opt.analysis.optimise import Optimum
    from cosmic_opt.analysis.relaxed_problem import Costs
    from cosmic_opt.reporting.design_source import DesignSource
    from cosmic_opt.search.budget import Budget
    from cosmic_opt.search.runnable import CannotRun


@dataclass(frozen=True)
class Feasibility(Changes):
    """An instance, changes to it, and the questions that the rules alone answer."""

    @cached_property
    def instance(self) -> BoundInstance:
        """The bound instance: every number known, every rule resolved."""
        return bind(self.spec, self.edits)

    @property
    def parameter_set(self) -> ParameterSet:
        """Columns, rules, data and quantities."""
        return self.instance.parameter_set

    @cached_property
    def model(self) -> LoweredModel:
        """The lowered model."""
        return lower(self.parameter_set)

    @cached_property
    def feasible(self) -> FeasibleSet:
        """The feasible set, as decision diagrams."""
        return feasible_set(self.model)

    def count(self, *, engine: str = DIAGRAM) -> CountResult:
        """Return the exact number of feasible designs, or certified limits of it (`exact` tells).

        Limits it is with rules on simulated quantities, and where the rules entangle too many parameters for a
        diagram (`outgrown_at` names the one that was too much).

        Raises:
            LimitError: the engine cannot count so many, or (the diagram) add such large numbers.
        """
        try:
            feasible = self.feasible
        except LimitError as limit:
            result = count_without_diagram(self.parameter_set, self.model, limit, engine=engine)
        else:
            result = count(self.parameter_set, feasible, engine=engine)
        if result.exact or result.outgrown_at is not None:
            return result
        from cosmic_opt.search.filter import count_within_step_limit  # numba takes a second to load

        low, high = count_within_step_limit(self.instance)
        return replace(result, lower=low, value=high, exact=low == high)

    def cover(self, *names: str, max_regions: int | None = None) -> Iterator[tuple[dict[str, Value], int]]:
        """Yield disjoint regions that together are the feasible set: values of some columns, and how many designs.

        Either one region for every feasible choice of the named columns, `problem.cover("tp", "pp")`, or at most
        `max_regions`, cut along the order of `enumerate`. `problem.fix(values)` opens a region.

        Raises:
            SpecError: an unknown column, or neither or both of names and a number.
            LimitError: millions of regions.
        """
        columns = self.parameter_set.columns
        positions = [columns.index(self.parameter_set.column(name)) for name in names]
        for region in self.feasible.cover(positions or None, max_regions=max_regions):
            values = {columns[at].name: columns[at].values[code] for at, code in region.assignment.items()}
            yield values, region.size

    def cannot_run(self, *, seed: int = 0) -> CannotRun | None:
        """Return what is known of designs that obey the rules and have no step; None where each looked at has one.

        Each is looked at where there are at most 65,536, else 4,096 drawn with `seed`. A rule keeps such designs out.
        """
        from cosmic_opt.search.runnable import cannot_run  # numba takes a second to load

        return cannot_run(self.instance, self.feasible, seed=whole(seed, "seed"))

    def why_none(self, *, seed: int = 0) -> CannotRun | None:
        """Return why no design can run, once a search has proved that none runs and keeps the limits on its times.

        None where some can, or where it is not proved that none does: see `search.runnable.why_none`.

        Raises:
            LimitError: without such limits, a design could run, for longer than the simulator's clock can hold.
        """
        from cosmic_opt.search.runnable import why_none  # numba takes a second to load

        return why_none(self.instance, self.feasible, whole(seed, "seed"))

    def dead_knobs(self, budget: Budget | None = None) -> DeadKnobs:
        """Return which free knobs cannot change the objective here (proved), which can (shown), which are undecided.

        Those not reached within the budget's time are undecided.

        Raises:
            SpecError: a rule on a simulated quantity that is not a limit on the step.
            LimitError: the rules entangle too many parameters to count.
        """
        from cosmic_opt.analysis.dead_knobs import dead_knobs

        return dead_knobs(self.instance, budget=budget)

    def count_up_to_equivalence(self) -> EquivalentCount:
        """Return how many feasible designs differ in a knob that is not proved dead.

        Raises:
            LimitError: the rules entangle too many parameters to count.
        """
        from cosmic_opt.analysis.dead_knobs import count_up_to_equivalence

        counted = self.count()
        return count_up_to_equivalence(self.instance, (counted.lower, counted.value))

    def designs(self, *metrics: str) -> DesignSource:
        """Return every feasible design by rank, with metrics beside it: `problem.designs("step_time").block(0, 1000)`.

        Metrics are named as in rules or in the answer of `simulate`; they are null for a design that cannot run.

        Raises:
            SpecError: an unknown metric.
        """
        from cosmic_opt.reporting.design_source import DesignSource
        from cosmic_opt.reporting.metric_columns import Measures

        return DesignSource(self.feasible, Measures.of(self.instance, metrics))

    def enumerate(self, start: int = 0) -> Iterator[DesignBatch]:
        """Yield every feasible design once, in batches, in a fixed order, from rank `start` on.

        Rules on simulated quantities are checked by simulating; ranks count the designs before that.
        """
        first = whole(start, "start")
        yield from self._filtered(self.parameter_set.batch(codes) for codes in self.feasible.chunks(first))

    def sample(self, number: int, *, seed: int = 0, distinct: bool = False) -> DesignBatch:
        """Return `number` uniform feasible designs: independent ones, or (`distinct`) no design twice.

        There are fewer only if no more were found: rules on simulated quantities are checked by simulating, which
        stops short after 10,000 rejections in a row.

        Raises:
            SpecError: the number or the seed is no whole number from 0 on.
        """
        number, rng = whole(number, "number"), np.random.default_rng(whole(seed, "seed"))
        if not any(rule.simulated for rule in self.parameter_set.constraints):
            draw = self.feasible.sample_distinct if distinct else self.feasible.sample
            return self.parameter_set.batch(draw(number, rng))
        rows: list[NDArray[np.int32]] = []
        seen: set[bytes] = set()
        rejected = 0
        while len(rows) < number and rejected < 10_000 and self.feasible.size:
            batch = self.parameter_set.batch(self.feasible.sample(1024, rng))
            found = len(rows)
            for row in next(self._filtered(iter([batch]))).codes:
                if not distinct or row.tobytes() not in seen:
                    seen.add(row.tobytes())
                    rows.append(row)
            rejected = 0 if len(rows) > found else rejected + len(batch)
        return self.parameter_set.batch(np.array(rows[:number], dtype=np.int32))

    def _filtered(self, batches: Iterator[DesignBatch]) -> Iterator[DesignBatch]:
        if not any(rule.simulated for rule in self.parameter_set.constraints):
            return batches
        from cosmic_opt.search.filter import within_step_limit  # numba takes a second to load

        return within_step_limit(self.instance, batches)

    def optimise(
        self,
        expression: str,
        *,
        maximise: bool = False,
        solver: str | None = None,
        time_limit_s: float | None = None,
        start: Iterable[Mapping[str, Value]] = (),
        seed: int = 0,
    ) -> Optimum:
        """Return the feasible design with the least (or greatest) value of an expression, with its bound.

        `expression` is written as in a rule: "network_cost", "memory_capacity - memory_per_npu", "step_time". `solver`
        is exhaustive, cp_sat or milp; by default the size of the problem chooses. It begins with the best of the
        `start` designs and of a sample drawn with `seed`. Where the objective or a rule is on the step, the step is
        tabulated over the free parameters that decide it; where the time limit ends before the table is full, the
        status is UNKNOWN.

        Raises:
            SpecError: no number, the same for every design, or arithmetic with a simulated quantity.
            LimitError: too large for the solver, or a table of too many rows.
        """
        from cosmic_opt.analysis.optimise import optimise

        of_kind(expression, str, "expression", 'write text: "network_cost"')
        ask = partial(optimise, self.spec, self.edits, expression, maximise=maximise, start=start)
        ask = partial(ask, seed=whole(seed, "seed"))
        return ask(solver=solver, time_limit_s=time_limit_s)

    # --- why not ----------------------------------------------------------------------------------------------

    def explain(self, *, limit: int = 5, costs: Costs | None = None, seed: int = 0) -> Explanation:
        """Return why no design is feasible: minimal conflicts, and the cheapest relaxations, up to `limit` of each.

        Both are empty when designs exist. `costs` weighs the kinds of change against each other.

        Raises:
            SpecError: a rule on a simulated quantity that is not a limit on the step.
            LimitError: the rules relate too many parameters at once for any engine.
        """
        from cosmic_opt.analysis.explain import explain
        from cosmic_opt.analysis.relaxed_problem import Costs

        limit, seed = whole(limit, "limit", 1), whole(seed, "seed")
        return explain(self.spec, self.edits, limit=limit, costs=costs or Costs(), seed=seed)

    def why_not(self, values: Mapping[str, Value], *, limit: int = 5) -> WhyNot:
        """Return which rules one design (a value per column, base units) breaks, and feasible designs nearest to it.

        Raises:
            SpecError: a column without a value, or a rule on a simulated quantity that is not a limit on the step.
        """
        from cosmic_opt.analysis.explain import why_not

        if not isinstance(values, Mapping):
            raise SpecError("no design is given", hint="give a value per column: next(batch.points())")
        return why_not(self.instance, values, limit)
