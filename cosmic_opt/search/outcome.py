"""What a search answers: the design, its proof state and why it stopped; and the lines it logs on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.engine_names import ANALYTICAL
from cosmic_opt.search.limits import limits_simulated
from cosmic_opt.search.objective import Objective
from cosmic_opt.search.proof import Proof
from cosmic_opt.search.runnable import CannotRun
from cosmic_opt.search.score import Scores
from cosmic_opt.search.study import StudyReport
from cosmic_opt.solvers.base import SolveStatus


class Stop(Enum):
    """Why a search stopped."""

    PROVED = "proved"
    TIME = "time limit"
    EVALUATIONS = "evaluation limit"
    NODES = "node limit"


@dataclass(frozen=True)
class LogLine:
    """One line of the search log. Values are of the objective (exact integers), or None when not known yet."""

    seconds: float
    regions_closed: int
    regions: int
    incumbent: int | None
    bound: int | None
    evaluations: int
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """The answer of a search.

    `value` and `bound` are exact integers, ticks times base units of the amount (see `Objective`): less is better, also
    of a rate, of which they are the time of its samples. `shown` is the value as people read it. `design` is empty when
    none was found. `evaluations`
    counts designs that agents asked to score, `wasted` those of them that break a rule (of a native agent only) and
    `nodes` boxes of options that were bounded.
    `feasible_designs` is before rules on simulated quantities; `designs` takes in what is known of those.
    """

    status: SolveStatus
    stop: Stop
    design: DesignBatch
    scores: Scores | None
    objective: Objective
    value: int | None
    bound: int | None
    feasible_designs: int
    regions: int
    evaluations: int
    wasted: int
    nodes: int
    seconds: float
    proof: Proof | None
    """The evidence for the bound; None where an agent ran alone or there is no feasible design."""
    engine: str = ANALYTICAL
    """What scored: closed forms (or the calibrated model), or events."""
    study: StudyReport | None = None
    """What the study of the search holds, where there is one."""
    allowed_designs: int | None = None
    """How many designs obey rules on simulated quantities; None without such rules, or where not each was scored."""
    least_code: bool = False
    """Whether `design` is, of all optima, that of least code: a limit may end an OPTIMAL search before, and by events
    only designs that were scored are compared."""
    tied: int | None = None
    """How many designs have the optimal value, the reported one among them; None where not each was scored."""
    cannot_run: CannotRun | None = None
    """Why no design can run, where rules leave designs and none of these has a step; the status is then INFEASIBLE."""

    @property
    def shown(self) -> float | None:
        """The value in `objective.unit`, as commands print it: seconds, sequences or tokens a second, J, s $."""
        return None if self.value is None else self.objective.show(self.value)

    @property
    def designs(self) -> int:
        """How many designs are feasible, as far as that is known: see `before_simulated_rules`."""
        if self.status is SolveStatus.INFEASIBLE and self.cannot_run is None:
            return 0
        return self.feasible_designs if self.allowed_designs is None else self.allowed_designs

    @property
    def before_simulated_rules(self) -> bool:
        """Whether there are rules on simulated quantities, and `designs` counts what breaks them too."""
        none = self.status is SolveStatus.INFEASIBLE and self.cannot_run is None
        counted = none or self.allowed_designs is not None
        return not counted and limits_simulated(self.design.parameter_set)

    @property
    def gap(self) -> float | None:
        """The relative gap between value and bound; 0 exactly when they are equal."""
        if self.value is None or self.bound is None:
            return None
        return 0.0 if self.value == self.bound else (self.value - self.bound) / self.value


Log = Callable[[LogLine], None]


def silent(line: LogLine) -> None:
    """Log nothing."""
    del line
