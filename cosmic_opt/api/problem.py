"""A `Problem`: an instance, changes to it, and every question that can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import cosmic_opt.interop  # noqa: F401 - enters the readers of workloads
from cosmic_opt.api.changes import Changes
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.instance_file import load_instance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import InfeasibleError
from cosmic_opt.feasibility.bounds import DiagramLimitError
from cosmic_opt.feasibility.count import DIAGRAM, CountResult, count, count_without_diagram
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch, ParameterSet

if TYPE_CHECKING:
    from cosmic_opt.analysis.breakpoints import Breakpoint
    from cosmic_opt.analysis.dead_knobs import DeadKnobs, EquivalentCount
    from cosmic_opt.analysis.explain import Explanation, WhyNot
    from cosmic_opt.analysis.optimise import Optimum
    from cosmic_opt.analysis.relaxed_problem import Costs
    from cosmic_opt.analysis.sweep import Point, Sweep
    from cosmic_opt.analysis.what_if import Difference
    from cosmic_opt.reporting.design_source import DesignSource
    from cosmic_opt.search.budget import Budget
    from cosmic_opt.search.certificate import Certificate
    from cosmic_opt.search.executor import EngineOf
    from cosmic_opt.search.near import NearOptima
    from cosmic_opt.search.outcome import LogLine, Outcome
    from cosmic_opt.search.pareto import ParetoFront
    from cosmic_opt.search.simulate import Report


@dataclass(frozen=True)
class Problem(Changes):
    """An instance and changes to it. Binding, lowering and counting happen when first asked for."""

    @staticmethod
    def load(name: str) -> Problem:
        """Return the problem of a shipped instance, or of the file at a path.

        Raises:
            SpecError: no such instance, or a file that does not mean anything (with line and key).
        """
        return Problem(load_instance(name), source=name)

    # --- the exact half ---------------------------------------------------------------------------------------

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
            LimitError: the engine cannot count so many.
        """
        try:
            result = count(self.parameter_set, self.feasible, engine=engine)
        except DiagramLimitError as limit:
            result = count_without_diagram(self.parameter_set, self.model, limit, engine=engine)
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

    def dead_knobs(self) -> DeadKnobs:
        """Return which free knobs cannot change the objective here (proved), which can (shown), which are undecided.

        Raises:
            SpecError: a rule on a simulated quantity that is not a limit on the step.
            LimitError: the rules entangle too many parameters to count.
        """
        from cosmic_opt.analysis.dead_knobs import dead_knobs

        return dead_knobs(self.instance)

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
        yield from self._filtered(self.parameter_set.batch(codes) for codes in self.feasible.chunks(start))

    def sample(self, number: int, *, seed: int = 0, distinct: bool = False) -> DesignBatch:
        """Return `number` uniform feasible designs: independent ones, or (`distinct`) no design twice.

        There are fewer only if no more were found: rules on simulated quantities are checked by simulating, which
        stops short after 10,000 rejections in a row.
        """
        rng = np.random.default_rng(seed)
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
        tabulated over the free parameters that decide it.

        Raises:
            SpecError: no number, the same for every design, or arithmetic with a simulated quantity.
            LimitError: too large for the solver, or a table of too many rows.
        """
        from cosmic_opt.analysis.optimise import optimise

        ask = partial(optimise, self.spec, self.edits, expression, maximise=maximise, start=start, seed=seed)
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

        return explain(self.spec, self.edits, limit=limit, costs=costs or Costs(), seed=seed)

    def why_not(self, values: Mapping[str, Value], *, limit: int = 5) -> WhyNot:
        """Return which rules one design (a value per column, base units) breaks, and feasible designs nearest to it.

        Raises:
            SpecError: a column without a value, or a rule on a simulated quantity that is not a limit on the step.
        """
        from cosmic_opt.analysis.explain import why_not

        return why_not(self.instance, values, limit)

    # --- simulate and solve -----------------------------------------------------------------------------------

    def baseline(self) -> DesignBatch:
        """Return the instance's own design: fixed parameters as fixed, free ones at the system's own value."""
        columns = self.parameter_set.columns
        own = self.instance.baseline
        values = {c.name: own[c.name] if own.get(c.name) in c.values else c.values[0] for c in columns}
        return self.parameter_set.design(values)

    def violations(self, design: DesignBatch) -> list[Constraint]:
        """Return the rules that a design breaks (those on simulated quantities aside)."""
        from cosmic_opt.search.simulate import violations

        return violations(design)

    def simulate(self, design: DesignBatch) -> Report:
        """Return the full score of one design.

        Raises:
            InfeasibleError: it breaks a rule; the error names each.
            LimitError: its step takes longer than 46 days.
        """
        from cosmic_opt.search.simulate import report

        broken = self.violations(design)
        if broken:
            shown = "; ".join(f"{rule.name} ({rule.text})" for rule in broken)
            raise InfeasibleError(
                f"the design breaks {shown}",
                where=broken[0].where,
                hint=f"change the design, or drop a rule with --without {broken[0].name}",
            )
        return report(self.instance, design)

    def solve(
        self,
        *,
        seed: int = 0,
        budget: Budget | None = None,
        agent: str | None = None,
        native: bool = False,
        by_events: bool = False,
        start: Sequence[Mapping[str, Value]] = (),
        engine: EngineOf | None = None,
        study: str | Path | None = None,
        log: Callable[[LogLine], None] | None = None,
    ) -> Outcome:
        """Return the best design with its proof state; with `agent`, what that agent alone finds in the budget.

        A `native` agent searches the raw grid, as in the paper: evaluations may go to designs that break a rule.
        `by_events`, the event simulator scores, and value, bound and certificate are about its step.
        `start` holds designs to begin with (`next(outcome.design.points())` of an earlier answer). `engine` says where
        the work is done: on threads of every core, `threads(4)` of `search.executor`, or `problem.on(executor)`. A
        `study` is a file that remembers all results, so that a killed search goes on; the same call gives the same
        answer with any engine, with or without a study.

        Raises:
            SpecError: a rule on a simulated quantity that is not a limit on the step; a study of something else, or in
                use.
            LimitError: too many structural combinations to prove anything, or the disk of the study is full.
        """
        from cosmic_opt.search.solve import solve
        from cosmic_opt.search.study import open_study
        from cosmic_opt.search.study_identity import identity_of

        search = partial(solve, self.instance, seed=seed, budget=budget, agent=agent, native=native, start=start)
        search = partial(search, by_events=by_events)
        search = partial(search, engine=engine, log=log if log is not None else lambda line: None)
        if study is None:
            return search()
        how = {"native": native, "by_events": by_events}
        identity = identity_of(self.spec, self.instance, seed=seed, agent=agent, **how)
        with open_study(Path(study), identity) as opened:
            return search(study=opened)

    def on(
        self, executor: Executor, *, workers: int | None = None, lost: tuple[type[Exception], ...] | None = None
    ) -> EngineOf:
        """Return an engine for `solve` that works on any executor: processes, a cluster.

        Its workers need this program installed. `workers` is how many there are (by default, the cores of this
        computer), `lost` what the executor raises when they are gone.
        """
        from cosmic_opt.search.executor import GONE, Recipe, remote

        return remote(executor, workers or os.cpu_count() or 1, Recipe(self.spec, self.edits), lost or GONE)

    def certificate(self, outcome: Outcome) -> Certificate:
        """Return the certificate of an answer of `solve`; its `text()` is what `cosmic-opt verify` reads.

        Raises:
            SpecError: an agent alone found the answer.
        """
        from cosmic_opt.search.certificate import certificate_of

        return certificate_of(self.source, self.spec, self.instance, outcome)

    def near(self, outcome: Outcome) -> NearOptima:
        """Return what knows the designs around a proved optimum: `problem.near(outcome).within("1%")`, `.top(5)`.

        Raises:
            InfeasibleError: there is no design.
            LimitError: the optimum is not proved.
        """
        from cosmic_opt.search.near import NearOptima

        return NearOptima(self.instance, outcome)

    # --- what if ----------------------------------------------------------------------------------------------

    def what_if(self, changed: Problem, *, seed: int = 0, budget: Budget | None = None) -> Difference:
        """Solve this problem and a changed one, and compare metric by metric, term by term, knob by knob.

        `problem.what_if(problem.set(memory_capacity="80 GB"))`
        """
        from cosmic_opt.analysis.what_if import what_if

        return what_if(self.instance, changed.instance, seed=seed, budget=budget)

    def pareto(self, *quantities: str, budget: Budget | None = None) -> ParetoFront:
        """Return the exact front of `step_time` against one or two structural quantities.

        `problem.pareto("network_cost")`, `problem.pareto("network_cost", "memory_per_npu")`. A spent budget leaves the
        front of the regions closed by then. A served model has several times and rates, so all are named:
        `problem.pareto("throughput_per_npu", "output_token_time")`.

        Raises:
            SpecError: an unknown or a simulated quantity, or two that both depend on the network's options.
            LimitError: too many structural combinations, or too many points.
        """
        from cosmic_opt.search.pareto import pareto_front
        from cosmic_opt.search.served_front import served_front

        if isinstance(self.instance.calibrated, Serving):
            return served_front(self.instance, *quantities, budget=budget)
        return pareto_front(self.scored(*quantities).instance, *quantities, budget=budget)

    def sweep(self, over: str, *, seed: int = 0) -> Sweep:
        """Return the sweep of a datum or parameter; its `points()` are solved one by one.

        `over` is `name=a,b,c`, `name=from:to:points` or `name=from:to:step`; "memory_capacity=24GB:192GB:8".

        Raises:
            SpecError: another form.
        """
        from cosmic_opt.analysis.sweep import Sweep, parse_range

        swept = parse_range(over)
        is_parameter = family_of(swept.name) in self.spec.model.parameters

        def bind_at(value: str) -> BoundInstance:
            changed = self.fix({swept.name: value}) if is_parameter else self.set(**{swept.name: value})
            return changed.instance

        return Sweep(bind_at, swept, seed)

    def breakpoints(self, sweep: Sweep, points: Sequence[Point], *, solves: int = 16) -> list[Breakpoint]:
        """Return where between the points of a sweep the best design changes.

        Each change is narrowed to neighbouring values (of the domain, or whole base units) with at most `solves` more
        searches, or to an interval.
        """
        from cosmic_opt.analysis.breakpoints import breakpoints

        family = family_of(sweep.over.name)
        column = None
        if family in self.spec.model.parameters:
            columns = self.free(family).parameter_set.columns
            column = next((c for c in columns if sweep.over.name in (c.name, c.parameter)), None)
        return breakpoints(sweep, points, column, solves)
