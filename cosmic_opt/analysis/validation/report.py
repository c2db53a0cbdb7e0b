"""The report on reference rows: each row, and errors by source, GPU, kind and scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.validation.confidence import Confidence
from cosmic_opt.analysis.validation.regret import Regret, regret_of

CALIBRATION_FOLDS = (0, 1)
"""Folds that may be used to fit; any other row, and a row without a fold, is only reported."""
RANKED_ROWS = 10
"""A rank correlation needs at least as many rows."""
SCALES = ((1, "1 GPU"), (8, "2 to 8 GPUs"), (64, "9 to 64 GPUs"), (512, "65 to 512 GPUs"))
LARGER = "more than 512 GPUs"
COMPARED_ROWS = 3
"""The order of two rows is no correlation."""


@dataclass(frozen=True, slots=True)
class Facts:
    """How a row is counted: its source, device, what it measures, scale, fold, metric, and whether it is primary."""

    source: str
    gpu: str
    kind: str
    scale: str
    fold: int | None
    metric: str
    primary: bool


@dataclass(frozen=True, slots=True)
class Ranked:
    """How a row is compared by order.

    Attributes:
        groups: The groups inside which it is ranked.
        engines: What each simulator predicts, by name.
        absolute: Whether its error counts, too; False where a reference is known up to its order only.
    """

    groups: tuple[str, ...]
    engines: tuple[tuple[str, float], ...]
    absolute: bool = True


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """One row: `error` is (predicted - measured) / measured; None where either is missing or measured is 0.

    Numbers have the unit of the file's own rows (ASTRA-sim: ns). `facts` is None for formats without groups, `ranked`
    for rows whose order is not compared, `choice` for rows that are no way to do a job that others do as well,
    `confidence` where nothing was measured to judge the prediction by. `not_read` is the part of the note on keys that
    change nothing.
    """

    id: str
    predicted: float | None
    measured: float | None
    error: float | None
    note: str | None
    facts: Facts | None = None
    ranked: Ranked | None = None
    choice: str | None = None
    confidence: Confidence | None = None
    not_read: str | None = None

    @property
    def counts(self) -> bool:
        """Whether the error counts among others."""
        return self.ranked is None or self.ranked.absolute

    @property
    def is_reported(self) -> bool:
        """Whether no constant may be fitted to the row: it has facts, and another fold than those, or none."""
        return self.facts is not None and self.facts.fold not in CALIBRATION_FOLDS

    @property
    def counted_error(self) -> float | None:
        """The error, None where it does not count."""
        return self.error if self.counts else None


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of some rows: median signed, median absolute, 90th percentile absolute, share within 10 %.

    `rank` is Spearman's correlation of predicted and measured, over rows of one metric; None below ten rows.
    """

    rows: int
    signed: float
    absolute: float
    p90: float
    within_10: float
    rank: float | None


@dataclass(frozen=True, slots=True)
class MetricRank:
    """Spearman's correlation of predicted and measured over `rows` rows of one metric, of all folds."""

    metric: str
    rows: int
    rank: float


@dataclass(frozen=True, slots=True)
class GroupErrors:
    """Errors of the rows whose `by` is `group`: rows that may be fitted, and rows that are only reported.

    `ranks` are those of all folds together, one for each metric with at least ten rows: order does not depend on what
    was fitted, and a source may be too small for a rank of a fold alone.
    """

    by: str
    group: str
    calibration: Errors | None
    reported: Errors | None
    ranks: tuple[MetricRank, ...] = ()


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Spearman's correlation of what an engine predicts and what is measured, over the rows of a group.

    `rank` is None below three rows, or where all are equal.
    """

    group: str
    engine: str
    rows: int
    rank: float | None


@dataclass(frozen=True, slots=True)
class ValidationSummary:
    """Counts, and absolute relative errors of the rows that have one; None when there is no such row.

    `regret` is over rows of all folds, `regret_reported` over those that are only reported.
    """

    format: str
    rows: int
    predicted: int
    exact: int
    median_error: float | None
    p90_error: float | None
    worst_error: float | None
    groups: tuple[GroupErrors, ...] = ()
    ranks: tuple[RankGroup, ...] = ()
    regret: Regret | None = None
    regret_reported: Regret | None = None


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Every row of the files, in their order, and the summary."""

    rows: tuple[ValidationRow, ...]
    summary: ValidationSummary


def scale_of(gpus: int) -> str:
    """Return the name of the range a number of GPUs lies in."""
    return next((name for most, name in SCALES if gpus <= most), LARGER)


def summarise(name: str, rows: Sequence[ValidationRow]) -> ValidationSummary:
    """Return the counts and errors of rows."""
    errors = sorted(abs(row.counted_error) for row in rows if row.counted_error is not None)

    def quantile(share: float) -> float | None:
        return errors[max(0, math.ceil(share * len(errors)) - 1)] if errors else None

    return ValidationSummary(
        format=name,
        rows=len(rows),
        predicted=sum(row.predicted is not None for row in rows),
        exact=sum(row.counts and row.predicted is not None and row.predicted == row.measured for row in rows),
        median_error=quantile(0.5),
        p90_error=quantile(0.9),
        worst_error=quantile(1.0),
        groups=tuple(_groups([row for row in rows if row.facts is not None and row.error is not None])),
        ranks=_rank_groups(rows),
        regret=_regret(rows),
        regret_reported=_regret([row for row in rows if row.is_reported]),
    )


def _regret(rows: Iterable[ValidationRow]) -> Regret | None:
    """Return what choosing by prediction loses among rows that are choices and have both times."""
    return regret_of(
        (row.choice, row.predicted, row.measured)
        for row in rows
        if row.choice is not None and row.predicted and row.measured and row.predicted > 0 and row.measured > 0
    )


def _rank_groups(rows: Sequence[ValidationRow]) -> tuple[RankGroup, ...]:
    """Return the correlation of every group and engine, in the order in which rows name them."""
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.ranked is None or row.measured is None:
            continue
        for group in row.ranked.groups:
            for engine, predicted in row.ranked.engines:
                pairs.setdefault((group, engine), []).append((predicted, row.measured))
    return tuple(
        RankGroup(group, engine, len(found), _correlation(found) if len(found) >= COMPARED_ROWS else None)
        for (group, engine), found in pairs.items()
    )


def _groups(rows: Sequence[ValidationRow]) -> Iterable[GroupErrors]:
    """Yield errors of all rows, of primary rows, and by each of source, GPU, kind and scale."""
    if not rows:
        return
    yield _group("all", "all rows", rows)
    yield _group("all", "primary rows", [row for row in rows if row.facts is not None and row.facts.primary])
    for by in ("source", "gpu", "kind", "scale"):
        for name in sorted({getattr(row.facts, by) for row in rows}, key=_natural):
            yield _group(by, name, [row for row in rows if getattr(row.facts, by) == name])


def _natural(name: str) -> tuple[int, str]:
    scales = [*(scale for _, scale in SCALES), LARGER]
    return (scales.index(name), "") if name in scales else (len(scales), name)


def _group(by: str, name: str, rows: Sequence[ValidationRow]) -> GroupErrors:
    fitted = [row for row in rows if not row.is_reported]
    reported = [row for row in rows if row.is_reported]
    return GroupErrors(by, name, errors_of(fitted), errors_of(reported), tuple(_ranks_by_metric(rows)))


def _ranks_by_metric(rows: Sequence[ValidationRow]) -> Iterable[MetricRank]:
    """Yield the correlation over the rows of each metric, the most frequent metric first."""
    for metric, count in Counter(row.facts.metric for row in rows if row.facts is not None).most_common():
        rank = _rank(rows, metric)
        if rank is not None:
            yield MetricRank(metric, count, rank)


def errors_of(rows: Sequence[ValidationRow]) -> Errors | None:
    """Return the errors of rows that have one; None without such rows."""
    errors = np.array([row.error for row in rows if row.error is not None])
    if not len(errors):
        return None
    return Errors(
        rows=len(errors),
        signed=float(np.median(errors)),
        absolute=float(np.median(np.abs(errors))),
        p90=float(np.quantile(np.abs(errors), 0.9)),
        within_10=float(np.mean(np.abs(errors) <= 0.1)),
        rank=_rank(rows),
    )


def _rank(rows: Sequence[ValidationRow], metric: str | None = None) -> float | None:
    """Return Spearman's correlation over the rows of a metric, by default the most frequent one."""
    if metric is None:
        metrics = Counter(row.facts.metric for row in rows if row.facts is not None)
        metric = max(metrics, key=lambda name: (metrics[name], name))
    pairs = [
        (row.predicted, row.measured)
        for row in rows
        if row.facts is not None and row.facts.metric == metric and row.error is not None
    ]
    return _correlation(pairs) if len(pairs) >= RANKED_ROWS else None


def _correlation(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Return Spearman's correlation of pairs; None where all of one side are equal."""
    predicted, measured = (_ranks(np.array(values, dtype=float)) for values in zip(*pairs, strict=True))
    if np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return None
    return float(np.corrcoef(predicted, measured)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 0, equal values sharing the mean of theirs."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / 2
