"""What changes when the question changes: two problems solved, and the difference term by term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.psa.domain import Value
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.simulate import Report, report
from cosmic_opt.search.solve import solve

Number = float | int


@dataclass(frozen=True)
class Answer:
    """A problem and its best design."""

    instance: BoundInstance
    outcome: Outcome

    @cached_property
    def report(self) -> Report | None:
        """The best design scored in full, once it is asked for; None where there is none."""
        return report(self.instance, self.outcome.design) if len(self.outcome.design) else None

    @property
    def design(self) -> dict[str, Value]:
        """The value of every column of the best design; empty when there is none."""
        return next(self.outcome.design.points(), {})


@dataclass(frozen=True)
class Difference:
    """What a changed problem answers, against its baseline.

    `metrics` and `terms_s` map a name to (before, after); `design` holds only the columns that moved.
    """

    baseline: Answer
    changed: Answer
    metrics: Mapping[str, tuple[Number | None, Number | None]]
    terms_s: Mapping[str, tuple[float, float]]
    design: Mapping[str, tuple[Value | None, Value | None]]


def answer(
    instance: BoundInstance,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    start: tuple[Mapping[str, Value], ...] = (),
    memo: RegionMemo | None = None,
) -> Answer:
    """Return the solved problem."""
    return Answer(instance, solve(instance, seed=seed, budget=budget, start=start, memo=memo))


def what_if(
    baseline: BoundInstance, changed: BoundInstance, *, seed: int = 0, budget: Budget | None = None
) -> Difference:
    """Solve both problems and compare.

    The changed one starts from the baseline's design, and from what its search proved of every region that the change
    does not reach. Its answer equals that of a cold solve.
    """
    memo = RegionMemo()
    before = answer(baseline, seed=seed, budget=budget, memo=memo)
    after = answer(changed, seed=seed, budget=budget, start=(before.design,) if before.design else (), memo=memo)
    return difference(before, after)


def difference(before: Answer, after: Answer) -> Difference:
    """Compare two answers, metric by metric, term by term, knob by knob."""
    old, new = before.report, after.report
    scored = old if old is not None else new
    names = list(scored.metrics) if scored is not None else []
    metrics = {name: (_metric(old, name), _metric(new, name)) for name in names}
    terms = _terms(old.terms_s, new.terms_s) if old and new else {}
    return Difference(before, after, metrics, terms, moved(before.design, after.design))


def _terms(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return each part of a step before and after; another simulator has other parts, which are 0 on this side."""
    return {name: (old.get(name, 0.0), new.get(name, 0.0)) for name in {**old, **new}}


def _metric(scored: Report | None, name: str) -> Number | None:
    return None if scored is None else scored.metrics[name]


def moved(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[str, tuple[Value | None, Value | None]]:
    """Return the columns whose value differs, in the order of `before`."""
    names = [*before, *(name for name in after if name not in before)]
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
