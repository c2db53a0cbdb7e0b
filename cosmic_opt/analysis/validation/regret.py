"""What one loses by trusting predictions to choose: the number an optimizer should publish."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

LEAST_CHOICES = 3
"""A group with fewer members leaves little to choose."""
WITHIN = 0.05


@dataclass(frozen=True, slots=True)
class Regret:
    """Regret of groups of at least three measured choices.

    The regret of a group is the measured time of the choice predicted fastest over the best measured one, less 1.

    Attributes:
        groups: How many there are; in `none` of them the choice was the best, in `within_5` at most 5 % behind.
        median, p90, worst, mean: Of the regrets; p90 interpolates.
    """

    groups: int
    none: int
    within_5: int
    median: float
    p90: float
    worst: float
    mean: float


def regrets(rows: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Return the regret of each group; `rows` are (group, predicted time, measured time), all above zero.

    Equally fast predictions count as the slowest of them measured: nothing tells which would be chosen.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for group, predicted, measured in rows:
        groups.setdefault(group, []).append((predicted, -measured))
    return {
        group: -min(pairs)[1] / min(-measured for _, measured in pairs) - 1
        for group, pairs in groups.items()
        if len(pairs) >= LEAST_CHOICES
    }


def regret_of(rows: Iterable[tuple[str, float, float]]) -> Regret | None:
    """Return the summary of `regrets`; None without a group of three."""
    found = np.array(list(regrets(rows).values()))
    if not len(found):
        return None
    return Regret(
        groups=len(found),
        none=int((found == 0).sum()),
        within_5=int((found <= WITHIN).sum()),
        median=float(np.median(found)),
        p90=float(np.quantile(found, 0.9)),
        worst=float(found.max()),
        mean=float(found.mean()),
    )
