"""A `Problem`: an instance, changes to it, and every question that can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import cosmic_opt.interop  # noqa: F401 - enters the readers of workloads
from cosmic_opt.analysis.cluster_ties import reads_npus
from cosmic_opt.api.arguments import of_kind, whole
from cosmic_opt.api.feasibility import Feasibility
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.instance_file import load_instance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import InfeasibleError, SpecError, Where
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch

if TYPE_CHECKING:
    from cosmic_opt.analysis.breakpoints import Breakpoint
    from cosmic_opt.analysis.sweep import Point, Sweep
    from cosmic_opt.analysis.what_if import Difference
    from cosmic_opt.search.budget import Budget
    from cosmic_opt.search.certificate import Certificate
    from cosmic_opt.search.executor import EngineOf
    from cosmic_opt.search.near import NearOptima
    from cosmic_opt.search.outcome import Log, LogLine, Outcome
    from cosmic_opt.search.pareto import ParetoFront
    from cosmic_opt.search.simulate import Report


@dataclass(frozen=True)
class Problem(Feasibility):
    """An instance and changes to it. Binding, lowering and counting happen when first asked for."""

    @staticmethod
    def load(name: str) -> Problem:
        """Return the problem of a shipped instance, or of the file at a path.

        Raises:
            SpecError: no such instance, or a file that does not mean anything (with line and key).
        """
        return Problem(load_instance(name), source=name)

    # --- simulate and solve -----------------------------------------------------------------------------------

    def baseline(self) -> DesignBatch:
        """Return the instance's own design: fixed parameters as fixed, free ones at the instance's own value.

        Raises:
            SpecError: the instance has none, because nothing gives a free parameter its value.
        """
        columns = self.parameter_set.columns
        own = self.instance.baseline
        if undecided := self.instance.undecided:
            raise SpecError(
                f"the instance has no design of its own: nothing gives {', '.join(undecided)} a value",
                where=self.spec.root.below("design"),
                hint="give them under 'design:' in its file, or fix them: problem.fix(tp=8)",
            )
        values = {c.name: own[c.name] if own.get(c.name) in c.values else c.values[0] for c in columns}
        return self.parameter_set.design(values)

    def violations(self, design: DesignBatch) -> list[Constraint]:
        """Return the rules that a design breaks (those on simulated quantities aside).

        Raises:
            SpecError: no batch of designs, or none or several of them.
        """
        from cosmic_opt.search.simulate import violations

        of_kind(design, DesignBatch, "design", "make one: problem.parameter_set.design({column: value, ...})")
        if len(design) != 1:
            raise SpecError(
                f"{len(design)} designs, expected one",
                where=Where(key="design"),
                hint="take one by one: [parameter_set.design(point) for point in batch.points()]",
            )
        return violations(design)

    def simulate(self, design: DesignBatch) -> Report:
        """Return the full score of one design.

        Raises:
            SpecError: no batch of designs, or none or several of them.
            InfeasibleError: it breaks a rule; the error names each.
            LimitError: its step takes longer than 46 days.
        """
        from cosmic_opt.search.simulate import report

        broken = self.violations(design)
        if broken:
            shown = "; ".join(f"{rule.name} ({rule.text})" for rule in broken)
            loose = [rule.name for rule in broken if not reads_npus(rule)]
            drop = f"drop a rule with --without {loose[0]}, or " if loose else ""
            hint = f"change the design, {drop}explain --design FILE finds the nearest that runs"
            raise InfeasibleError(f"the design breaks {shown}", where=broken[0].where, hint=hint)
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

        seed = whole(seed, "seed")
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
        from cosmic_opt.search.outcome import Outcome

        of_kind(outcome, Outcome, "answer of a search", "give what problem.solve() returns")
        return certificate_of(self.source, self.spec, self.instance, outcome)

    def near(self, outcome: Outcome, *, engine: EngineOf | None = None, log: Log | None = None) -> NearOptima:
        """Return what knows the designs around a proved optimum: `problem.near(outcome).within("1%")`, `.top(5)`.

        `engine` and `log` are as in `solve`; they serve where every design is scored.

        Raises:
            InfeasibleError: there is no design.
            LimitError: the optimum is not proved.
            SpecError: no answer of a search.
        """
        from cosmic_opt.search.near import NearOptima
        from cosmic_opt.search.outcome import Outcome, silent

        of_kind(outcome, Outcome, "answer of a search", "give what problem.solve() returns")
        return NearOptima(self.instance, outcome, engine=engine, log=log or silent)

    # --- what if ----------------------------------------------------------------------------------------------

    def what_if(self, changed: Problem, *, seed: int = 0, budget: Budget | None = None) -> Difference:
        """Solve this problem and a changed one, and compare metric by metric, term by term, knob by knob.

        `problem.what_if(problem.set(memory_capacity="80 GB"))`

        Raises:
            SpecError: no problem to compare with.
        """
        from cosmic_opt.analysis.what_if import what_if

        of_kind(changed, Problem, "problem", 'change this one: problem.set(memory_capacity="80 GB")')
        return what_if(self.instance, changed.instance, seed=whole(seed, "seed"), budget=budget)

    def pareto(self, *quantities: str, budget: Budget | None = None) -> ParetoFront:
        """Return the exact front of `step_time` against one or two structural quantities.

        `problem.pareto("network_cost")`, `problem.pareto("network_cost", "memory_per_npu")`. A spent budget leaves the
        front of the regions closed by then. A served model has several times and rates, so all are named:
        `problem.pareto("throughput_per_npu", "output_token_time")`.

        Raises:
            SpecError: an unknown or a simulated quantity, or two that both depend on the network's options.
            LimitError: too many structural combinations, or too many points.
        """
        for name in quantities:
            of_kind(name, str, "quantity", 'write its name: "network_cost"')
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

        swept = parse_range(of_kind(over, str, "range", 'write text: "tp=1,2,4"'))
        is_parameter = family_of(swept.name) in self.spec.model.parameters

        def bind_at(value: str) -> BoundInstance:
            changed = self.fix({swept.name: value}) if is_parameter else self.set(**{swept.name: value})
            return changed.instance

        return Sweep(bind_at, swept, whole(seed, "seed"))

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
