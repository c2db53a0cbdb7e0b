"""`solve --within` and `--top`: the designs around the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.search.asked import number_of, share_of
from cosmic_opt.search.budget import Budget
from cosmic_opt.solvers.base import SolveStatus

if TYPE_CHECKING:
    from cosmic_opt.search.executor import EngineOf
    from cosmic_opt.search.near import Near, Ranking
    from cosmic_opt.search.objective import Objective
    from cosmic_opt.search.outcome import Log, Outcome, Stop


@dataclass(frozen=True)
class Asked:
    """Which designs besides the best one are asked for: those within a share of it, the `top` best."""

    within: Fraction | None
    top: int | None

    @staticmethod
    def of(within: str | None, top: int | None, agent: str | None) -> Asked:
        """Return what the options say.

        Raises:
            SpecError: no percentage, no number of designs, or an agent alone, which proves nothing.
        """
        for option, value in (("--within", within), ("--top", top)):
            if value is not None and agent is not None:
                raise SpecError("an agent alone proves nothing", where=Where(option), hint="leave --no-hybrid out")
        share = None if within is None else share_of(within, where=Where("--within"))
        return Asked(share, None if top is None else number_of(top, where=Where("--top")))


@dataclass(frozen=True)
class Around:
    """The answers; what is missing though it was asked for is missing because of `why_not`."""

    asked: Asked
    near: Near | None = None
    ranking: Ranking | None = None
    why_not: str = ""

    @property
    def complete(self) -> bool:
        """Whether no limit cut an answer short."""
        parts = (part for part in (self.near, self.ranking) if part is not None)
        return not self.why_not and all(part.stop.value == "proved" for part in parts)

    def keys(self, objective: Objective, *, interrupted: bool) -> dict[str, object]:
        """Return the keys that the options add to the answer."""
        from cosmic_opt.reporting.near import near_keys, ranking_keys

        keys: dict[str, object] = {}
        if self.asked.within is not None:
            near = self.near
            keys["near"] = None if near is None else near_keys(near, objective, _stop(near.stop, interrupted))
        if self.asked.top is not None:
            ranking = self.ranking
            keys["top"] = None if ranking is None else ranking_keys(ranking, objective)
            keys["top_stop"] = None if ranking is None else _stop(ranking.stop, interrupted)
        return keys

    def text(self, objective: Objective, *, interrupted: bool) -> str:
        """Return what the options add to the text."""
        from cosmic_opt.reporting.near import near_text, top_text

        parts = [""]
        if self.near is not None:
            parts.append(near_text(self.near, objective, _stop(self.near.stop, interrupted)))
        if self.ranking is not None:
            stop = _stop(self.ranking.stop, interrupted)
            parts.append(top_text(self.ranking, self.asked.top or 1, objective, stop))
        if self.why_not:
            parts.append(f"the designs around it are not known: {self.why_not}")
        return "\n\n".join(parts)


def look_around(
    problem: Problem, outcome: Outcome, asked: Asked, seed: int, budget: Budget, *, engine: EngineOf, log: Log
) -> Around:
    """Return the designs around a proved optimum; a limit reached on the way does not cost the answer itself."""
    if (asked.within is None and asked.top is None) or outcome.status is SolveStatus.INFEASIBLE:
        return Around(asked)
    near = ranking = None
    try:
        around = problem.near(outcome, engine=engine, log=log)
        if asked.within is not None:
            near = around.within(asked.within, seed=seed, budget=budget)
        if asked.top is not None:
            ranking = around.top(asked.top, budget=budget)
    except LimitError as limit:
        return Around(asked, near, ranking, limit.message)
    return Around(asked, near, ranking)


def _stop(stop: Stop, interrupted: bool) -> str:
    return "interrupted" if interrupted and stop.value == "time limit" else stop.value
