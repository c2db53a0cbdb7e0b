"""Prints what an optimizer loses by trusting predicted training steps, why, and the bias of every source.

python benchmarks/training_regret.py ROWS.json
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from arguments import path_given

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.regret import LEAST_CHOICES, regrets
from cosmic_opt.analysis.validation.report import CALIBRATION_FOLDS

TRIALS = 500
NOISES = (0.02, 0.035, 0.05, 0.07)


@dataclass(frozen=True)
class Split:
    """One measured split: seconds a step takes, seconds predicted, its group and its shape."""

    group: str
    gpus: int
    shape: tuple[Any, ...]
    fold: int
    measured_s: float
    predicted_s: float

    @property
    def residual(self) -> float:
        """Logarithm of predicted over measured."""
        return float(np.log(self.predicted_s / self.measured_s))


def splits_of(rows: Sequence[Mapping[str, Any]], report: Any) -> list[Split]:
    """Return the splits of jobs that have at least three."""
    groups: dict[str, list[Split]] = defaultdict(list)
    for row, result in zip(rows, report.rows, strict=True):
        if result.choice is not None and result.predicted is not None:
            shape = (row["dims"]["hidden"], row["tp"], row["mbs"])
            split = Split(result.choice, row["gpus"], shape, row["fold"], row["value"], result.predicted)
            groups[result.choice].append(split)
    return [split for group in groups.values() if len(group) >= LEAST_CHOICES for split in group]


def regrets_of(splits: Sequence[Split], predicted_s: Sequence[float]) -> dict[str, float]:
    """Return the regret of each job, were these the predictions."""
    return regrets((split.group, step, split.measured_s) for split, step in zip(splits, predicted_s, strict=True))


def line(name: str, found: Iterable[float]) -> str:
    """Return counts and percentiles of regrets."""
    values = np.array(list(found))
    quantiles = (np.median(values), np.quantile(values, 0.9), values.max(), values.mean())
    texts = ", ".join(f"{label} {100 * each:.1f} %" for label, each in zip(LABELS, quantiles, strict=True))
    none, few = int((values < 1e-9).sum()), int((values <= 0.05).sum())
    return f"{name}: {len(values)} groups, none in {none}, at most 5 % in {few}; {texts}"


LABELS = ("median", "90th percentile", "worst", "mean")


def with_shape_means(splits: Sequence[Split]) -> list[float]:
    """Return predictions corrected by the mean residual of equal (hidden, tp, micro-batch) in the calibration folds."""
    known: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for split in splits:
        if split.fold in CALIBRATION_FOLDS:
            known[split.shape].append(split.residual)
    return [
        split.predicted_s / float(np.exp(np.mean(known[split.shape]))) if known[split.shape] else split.predicted_s
        for split in splits
    ]


def spread_within_shapes(splits: Sequence[Split]) -> tuple[float, float]:
    """Return the standard deviation of residuals, and of what equal shapes do not share."""
    shapes: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for split in splits:
        shapes[split.shape].append(split.residual)
    several = [np.array(each) for each in shapes.values() if len(each) > 1]
    freedom = sum(len(each) - 1 for each in several)
    within = np.sqrt(sum(float(((each - each.mean()) ** 2).sum()) for each in several) / freedom)
    return float(np.std([split.residual for split in splits])), float(within)


def print_regrets(splits: Sequence[Split]) -> None:
    """Print the regret of the model and of oracles: the truth with noise, and the model with each shape's own mean."""
    own = regrets_of(splits, [split.predicted_s for split in splits])
    for key, regret in sorted(own.items(), key=lambda item: -item[1]):
        print(f"  {100 * regret:5.1f} %  {key}")
    print(line("model", own.values()))
    print(line("model, residual means of equal shapes removed", regrets_of(splits, with_shape_means(splits)).values()))
    small = [split for split in splits if split.gpus <= 8]
    whole, within = spread_within_shapes(small)
    print(f"residuals up to 8 GPUs: {whole:.3f} in all, {within:.3f} within equal (hidden, tp, micro-batch)")
    rng = np.random.default_rng(0)
    measured = np.array([split.measured_s for split in splits])
    for noise in NOISES:
        trials = [
            list(regrets_of(splits, list(measured * np.exp(rng.normal(0, noise, len(splits))))).values())
            for _ in range(TRIALS)
        ]
        p90 = np.quantile(trials, 0.9, axis=1)
        print(
            f"truth with noise of {100 * noise:.1f} %: 90th percentile {100 * p90.mean():.1f} %"
            f" ({100 * np.quantile(p90, 0.05):.1f} to {100 * np.quantile(p90, 0.95):.1f})"
        )


def print_bias(report: Any) -> None:
    """Print the median signed error of each source, of rows that state every input and of the others."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for result in report.rows:
        if result.error is not None:
            stated = "stated" if result.facts.primary else "incomplete"
            groups[result.facts.source, stated].append(result.error)
    for (source, stated), errors in sorted(groups.items()):
        values = np.array(errors)
        beyond = "  beyond 10 %" if stated == "stated" and abs(np.median(values)) > 0.1 else ""
        spread = f"{100 * np.median(values):+6.1f} / {100 * np.median(abs(values)):5.1f}"
        print(f"  {source:16s} {stated:10s} {len(values):4d} rows  {spread}{beyond}")


def main(path: Path) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    report = validate({"rows": rows})
    print("regret of the chosen split:")
    print_regrets(splits_of(rows, report))
    print("bias by source, predicted over measured in the row's metric, signed / absolute median in percent:")
    print_bias(report)


if __name__ == "__main__":
    main(path_given(__doc__))
