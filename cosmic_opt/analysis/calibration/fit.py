"""Robust least squares: constants of a device that make measured kernels and collectives come out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.calibration.constants import LARGEST_FACTOR, Constant, constants_for, value_at
from cosmic_opt.analysis.calibration.rows import Group, MeasuredRows
from cosmic_opt.system.hardware import Device

FloatArray = NDArray[np.float64]
NOISE = {"collectives": 0.07}
OTHER_NOISE = 0.05
"""Spread of measurements of one thing: the unit in which a residual counts against a prior."""
MOST_EVALUATIONS = 200


@dataclass(frozen=True, slots=True)
class Change:
    """One constant before and after, in base units (seconds, shares)."""

    constant: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class FitError:
    """Relative errors of a group of rows: median signed, median absolute, 90th percentile absolute."""

    group: str
    held_out: bool
    rows: int
    before: tuple[float, float, float]
    after: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Residual:
    """One row after the fit."""

    id: str
    group: str
    predicted: float
    measured: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted device: what moved, how errors changed, every row's residual, rows left out by reason, and what of the
    rows is probably not meant as it stands."""

    device: Device
    changes: tuple[Change, ...]
    errors: tuple[FitError, ...]
    residuals: tuple[Residual, ...]
    fitted: int
    left_out: Mapping[str, int]
    warnings: tuple[str, ...] = ()


def calibrate(device: Device, rows: MeasuredRows) -> Calibration:
    """Return the device fitted to the rows that are not held out.

    Minimises soft-L1 of log(predicted / measured) over the measurements' noise, plus the priors of the constants:
    one row moves what it determines and nothing else. Groups without rows keep their constants.
    """
    kinds = defaultdict[str, list[str]](list)
    for group in rows.groups:
        kinds[group.name].append(group.detail)
    constants = constants_for(device, {name: tuple(details) for name, details in kinds.items()})
    fitted = solve(device, constants, lambda candidate: _residuals(candidate, rows.groups))
    return Calibration(
        device=fitted,
        changes=changes_of(device, fitted, constants),
        errors=tuple(_errors(device, fitted, rows.groups)),
        residuals=tuple(_rows(device, fitted, rows.groups)),
        fitted=rows.fitted,
        left_out=rows.left_out,
        warnings=rows.warnings,
    )


def solve(device: Device, constants: Sequence[Constant], residuals: Callable[[Device], FloatArray]) -> Device:
    """Return the device at the least of soft-L1 residuals plus squared distances from the constants' priors."""
    from scipy.optimize import least_squares  # half a second: loaded where it is used

    start = np.array([constant.log(device) for constant in constants])
    spread = np.array([constant.spread for constant in constants])
    reach = np.log(LARGEST_FACTOR)

    def moved(point: FloatArray) -> Device:
        candidate = device
        for constant, log in zip(constants, point, strict=True):
            candidate = constant.put(candidate, float(log))
        return candidate

    def cost(point: FloatArray) -> FloatArray:
        # Soft-L1 by hand, on rows only: r -> sqrt(2 (sqrt(1 + r^2) - 1)), so that priors stay quadratic.
        scaled = residuals(moved(point))
        robust = np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
        return np.concatenate([np.copysign(robust, scaled), (point - start) / spread])

    bounds = (start - reach, start + reach)
    best = least_squares(cost, start, bounds=bounds, x_scale=spread, diff_step=[1e-4], max_nfev=MOST_EVALUATIONS)
    return moved(best.x)


def changes_of(before: Device, after: Device, constants: Sequence[Constant]) -> tuple[Change, ...]:
    """Return each constant before and after."""
    return tuple(
        Change(constant.path, value_at(before, constant.path), value_at(after, constant.path)) for constant in constants
    )


def _residuals(device: Device, groups: Sequence[Group]) -> FloatArray:
    parts = []
    for group in groups:
        kept = ~group.held_out
        ratio = group.predict(device)[kept] / group.measured[kept]
        parts.append(np.log(ratio) / NOISE.get(group.name, OTHER_NOISE))
    return np.concatenate(parts)


def _errors(before: Device, after: Device, groups: Sequence[Group]) -> list[FitError]:
    found = []
    for held_out in (False, True):
        for name in dict.fromkeys(group.name for group in groups):
            members = [group for group in groups if group.name == name]
            old, new = (_relative(device, members, held_out) for device in (before, after))
            if len(old):
                found.append(FitError(name, held_out, len(old), summary(old), summary(new)))
    return found


def _relative(device: Device, groups: Sequence[Group], held_out: bool) -> FloatArray:
    parts = [(group.predict(device) / group.measured - 1)[group.held_out == held_out] for group in groups]
    return np.concatenate(parts)


def summary(errors: FloatArray) -> tuple[float, float, float]:
    """Return median signed, median absolute and 90th percentile absolute error."""
    size = np.abs(errors)
    return float(np.median(errors)), float(np.median(size)), float(np.quantile(size, 0.9))


def _rows(before: Device, after: Device, groups: Sequence[Group]) -> list[Residual]:
    found = []
    for group in groups:
        old, new = group.predict(before), group.predict(after)
        for index, name in enumerate(group.ids):
            measured = float(group.measured[index])
            errors = (float(each[index]) / measured - 1 for each in (old, new))
            found.append(Residual(name, group.name, float(new[index]), measured, *errors))
    return found
