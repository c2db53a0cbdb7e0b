"""Search by events: the analytical simulator bounds and ranks, the event simulator scores.

No step is shorter by events than by closed forms, but nothing else is known of it: a faster network may make a step
slower. So no dominance prunes here. Designs are scored in the order of their analytical values, level by level; once
every design up to some value was scored, no other one can be better than that (`proof.Simulated`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.allocation import Allocation, Part
from cosmic_opt.search.census import GREATEST, Census, Counted
from cosmic_opt.search.feasible_space import FeasibleSpace
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.hybrid import hybrid
from cosmic_opt.search.outcome import LogLine, Outcome, Stop
from cosmic_opt.search.proof import Simulated
from cosmic_opt.search.run import Run
from cosmic_opt.search.space import Codes
from cosmic_opt.solvers.base import SolveStatus

LEVEL = 4096
"""Designs of one level, unless more have the same analytical value."""
WAVE = 256
"""Designs scored between two looks at the incumbent."""
AGENTS = 2048
"""Evaluations, at most, that agents spend where the designs below the incumbent fill more than one level."""


def refine(run: Run) -> Outcome:
    """Return the best design by events; of equal ones, that with the least code among those that were scored.

    The budget's seconds are of the whole search, its evaluations of designs scored by events.
    """
    least = hybrid(_analytical(run))
    if not len(least.design):
        outcome = run.outcome(least.status, least.stop, least.bound)
        return replace(
            outcome, regions=least.regions, nodes=least.nodes, proof=least.proof, cannot_run=least.cannot_run
        )
    run.score(least.design)
    if least.status is not SolveStatus.OPTIMAL:
        status = SolveStatus.UNKNOWN if run.best_value is None else SolveStatus.FEASIBLE
        return replace(run.outcome(status, least.stop, least.bound), regions=least.regions, nodes=least.nodes)
    return _Levels(run, least).search()


def _analytical(run: Run) -> Run:
    """Return the same search by closed forms, at its begin."""
    return Run(
        run.instance,
        run.model,
        run.space,
        run.engine.worker.scorer,
        run.limit_ticks,
        run.seed,
        replace(run.budget, evaluations=None),
        run.log,
        run.engine,
        study=run.study,
    )


@dataclass
class _Levels:
    """Designs by analytical value: of those up to `done`, an exact value of the objective, every one was scored.

    Attributes:
        run: The search; its best design is the incumbent by events.
        least: The analytical optimum.
        designs: How many designs have a value up to `done`.
        scored: Designs that were scored, those up to `done` and others, as bytes.
    """

    run: Run
    least: Outcome
    frontier: Frontier = field(init=False)
    done: int = field(init=False)
    designs: int = 0
    scored: set[bytes] = field(default_factory=set)
    nodes: int = 0

    def __post_init__(self) -> None:
        assert self.least.value is not None, "the analytical optimum is proved"
        run, best = self.run, None
        if run.best_design is not None:
            scores = run.scorer.score(run.best_design)
            best = int(scores.evaluation.step_ticks[0]), int(scores.amounts[0])
        worker = run.engine.worker
        space, analytical = worker.bounding.space, worker.scorer.analytical
        self.frontier = Frontier(space, analytical, run.scorer.objective, run.limit_ticks, best=best, engine=run.engine)
        self.done = self.least.value - 1
        self._log("regions bounded, scored by events")

    @property
    def target(self) -> int:
        """The value up to which designs have to be scored: only those below the incumbent may be better."""
        return GREATEST if self.run.best_value is None else self.run.best_value - 1

    @property
    def bound(self) -> int | None:
        """No step by events has a lower value; None when no design obeys the limits."""
        if self.run.best_value is None:
            return self.done + 1 if self.done < GREATEST else None
        return min(self.run.best_value, self.done + 1)

    def search(self) -> Outcome:
        """Score level after level until the incumbent is proved or the budget is spent."""
        asked_agents = False
        while self.done < self.target:
            stop = self._spent()
            level = None if stop else self._next_level()
            if level is None:
                return self._outcome(stop or Stop.TIME)
            census, counted = level
            if census.value < self.target and not asked_agents:
                asked_agents = True
                self._ask_agents()
                continue
            self._score_level(census, counted)
        return self._outcome(Stop.PROVED)

    def _spent(self) -> Stop | None:
        if self.run.budget.out_of_time():
            return Stop.TIME
        return None if self.run.evaluations_left() else Stop.EVALUATIONS

    # --- levels -----------------------------------------------------------------------------------------------

    def _next_level(self) -> tuple[Census, Counted] | None:
        """Return the designs up to the next value: new ones, and no more than a level; None when time ran out.

        Where more than a level have one and the same value, these are all returned.
        """
        known, limit = self.done, self.target
        most = self.designs + LEVEL
        value = limit
        while True:
            census = Census(self.frontier, value)
            counted = census.count(enough=None if limit - known == 1 else most, budget=self.run.budget)
            self.nodes += counted.nodes
            if counted.stop is not Stop.PROVED:
                return None
            if counted.lower > most and limit - known > 1:
                limit = value
            elif counted.lower > self.designs or value == self.target:
                return census, counted
            else:
                known = value
            value = max(known + 1, (known + limit) // 2)

    def _score_level(self, census: Census, counted: Counted) -> None:
        """Score the designs of a level, until a better one makes a lower level do."""
        for start in range(0, counted.lower, LEVEL):
            codes = self._new(census.members(counted, range(start, min(start + LEVEL, counted.lower))))
            for at in range(0, len(codes), WAVE):
                wave, left, before = codes[at : at + WAVE], self.run.evaluations_left(), self.run.best_value
                if left and not self.run.budget.out_of_time():
                    self._score(self.run.instance.parameter_set.batch(wave[:left]))
                if self.run.best_value != before:
                    self._log("")
                if len(wave) > left or self.run.budget.out_of_time() or self.target < census.value:
                    return
        self.done, self.designs = census.value, counted.lower
        self._log("")

    def _new(self, codes: Codes) -> Codes:
        """Return the designs that were not scored yet, the best analytical values first."""
        fresh = [row for row, design in enumerate(codes) if design.tobytes() not in self.scored]
        batch = self.run.instance.parameter_set.batch(codes[fresh])
        values = self.run.engine.worker.scorer.score(batch, strict=False).values
        order = sorted(range(len(batch)), key=lambda row: (values[row], tuple(batch.codes[row])))
        return batch.codes[order]

    def _score(self, batch: DesignBatch) -> NDArray[np.float64]:
        """Score designs by events, and remember which."""
        self.scored.update(design.tobytes() for design in batch.codes)
        return self.run.score(batch)

    # --- agents -----------------------------------------------------------------------------------------------

    def _ask_agents(self) -> None:
        """Let agents look for a better incumbent among the regions that may hold one."""
        run, frontier = self.run, self.frontier
        if run.best_design is None or run.best_value is None:
            return
        rng = np.random.default_rng([run.seed, 1])
        allocation = Allocation(run.space, self._score, run.budget.out_of_time, rng)
        run.generators["events"] = rng
        allocation.known.add(run.best_design, np.array([float(run.best_value)]))
        rows = frontier.order[np.asarray(frontier.values[frontier.order] <= self.target, dtype=bool)]
        codes, columns = frontier.regions.codes[rows], frontier.space.structural
        allowed = {column: np.unique(codes[:, column]).tolist() for column in columns}
        within = FeasibleSpace(run.space.parameter_set, run.space.feasible.given(allowed))
        allocation.spend([Part(within, float(self.done + 1))], min(AGENTS, run.evaluations_left()))
        self._log("agents by events")

    # --- the answer -------------------------------------------------------------------------------------------

    def _log(self, note: str) -> None:
        run, total = self.run, self.frontier.space.regions.count
        left = int(np.count_nonzero(self.frontier.values <= min(self.target, GREATEST)))
        run.log(LogLine(run.budget.elapsed(), total - left, total, run.best_value, self.bound, run.evaluations, note))

    def _outcome(self, stop: Stop) -> Outcome:
        """Return the answer, with every design scored up to `done` as evidence."""
        proved = stop is Stop.PROVED
        if self.run.best_value is None:
            status = SolveStatus.INFEASIBLE if proved else SolveStatus.UNKNOWN
        else:
            status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
        outcome = self.run.outcome(status, stop, self.bound, self.frontier)
        proof = replace(self.frontier.proof(), simulated=Simulated(self.done, self.designs))
        return replace(outcome, proof=proof, nodes=self.least.nodes + self.nodes)
