"""A user's own measured steps: a few constants of their cluster, refined after kernels and collectives.

These rows are end to end: a device refined on them no longer predicts them independently, and its file says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.calibration.constants import LARGEST_FACTOR, Constant, value_at, with_value
from cosmic_opt.analysis.calibration.fit import (
    Calibration,
    FitError,
    Residual,
    changes_of,
    solve,
    summary,
)
from cosmic_opt.analysis.calibration.rows import counted, unread_of
from cosmic_opt.analysis.validation.kinds import Row, number, text
from cosmic_opt.analysis.validation.measured import unusable
from cosmic_opt.analysis.validation.row_boards import TELLING, as_stated, limit_notes, stated_boards
from cosmic_opt.analysis.validation.row_keys import TRAINING_KEYS
from cosmic_opt.analysis.validation.training import predict_training, step_metric
from cosmic_opt.analysis.validation.training_rows import read_row
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.system.hardware import Device

GROUP = "steps"
NOISE = 0.05
MODEL_ERROR = 0.25
"""The largest 90th percentile of the model's own error by stack (`instances/_accuracy/training.yaml`)."""
MOST_OFF = 1.5
"""A fitted step that is further off, either way, is another job than its row says, or in another unit."""
FAR = 10.0
"""A step this many times further off than the others is in another unit, or of another job."""
LEFT_OUT = f"{FAR:.0f} or more times further off than the other steps"
OUTLIER, TWICE = 5.0, 2.0
"""A fitted step further from the median one than so many robust standard deviations, or than twice, is named."""
SHARES = {
    "gemm.sustained.bf16": "the matrix peak",
    "fabric.efficiency": "the rate of the links",
    "fabric.nic_efficiency": "the rate of the network cards",
}
"""Constants of `REFINED` that are a share, and of what: none can be above 1."""
CHECK = "check of these rows the unit of 'value', the FLOPs of a step (dims, seq, gbs) and 'gpus'"
MOST_NAMED = 5
UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9, "minutes": 1 / 60, "hours": 1 / 3600}
"""Other units of a step, in seconds' stead, per second."""
NEAR = 4.0
"""How far from a unit's factor a step may be to be taken for one in that unit."""
REFINED: tuple[Constant, ...] = (
    Constant("gemm.sustained.bf16", GROUP, 0.1),
    Constant("gemm.joules_per_flop_bit", GROUP, 0.1),
    Constant("fabric.efficiency", GROUP, 0.1),
    Constant("fabric.nic_efficiency", GROUP, 0.3),
)
"""What differs between clusters of one device: the clock a long run keeps, or what its power feeds, and how well links
and NICs are used."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One measured step: seconds (`timed`: stated as such, else as a rate), and seconds the model gives on a device.

    `assumed` says what its row leaves open.
    """

    id: str
    timed: bool
    measured_s: float
    predict_s: Callable[[Device], float]
    assumed: tuple[str, ...]


def refine(device: Device, rows: Sequence[Row], *, where: Where) -> Calibration:
    """Return the device with the constants of `REFINED` fitted to measured training steps.

    Steps that are `FAR` from all others are left out, and the rest is fitted once more.

    Raises:
        SpecError: a row that is no training step of this device, or cannot be predicted; steps that these constants do
            not explain, or only with shares above 1. The error names the row or rows.
    """
    steps = _steps(device, rows, where)
    constants = tuple(constant for constant in REFINED if _matters(device, constant.path))
    first = _fit(device, constants, steps)
    ratios = _ratios(first, steps)
    _refuse_far(device, first, constants, ratios, where)
    far = _far_rows(steps, ratios)
    kept = [step for index, step in enumerate(steps) if index not in far]
    fitted = _fit(device, constants, kept) if far else first
    ratios = _ratios(fitted, kept)
    _refuse_far(device, fitted, constants, ratios, where)
    _refuse_beyond(fitted, constants, kept, where)
    _refuse_impossible(fitted, kept, where)
    before, after = _ratios(device, kept) - 1, ratios - 1
    return Calibration(
        device=fitted,
        changes=changes_of(device, fitted, constants),
        errors=(FitError(GROUP, False, len(kept), summary(before), summary(after)),),
        residuals=tuple(
            Residual(step.id, GROUP, float((1 + new) * step.measured_s), step.measured_s, float(old), float(new))
            for step, old, new in zip(kept, before, after, strict=True)
        ),
        fitted=len(kept),
        left_out={LEFT_OUT: len(far)} if far else {},
        warnings=(
            *unread_of(rows, lambda row: TRAINING_KEYS),
            *counted(assumption for step in kept for assumption in step.assumed),
            *far.values(),
            *_outliers(kept, ratios),
        ),
    )


def _steps(device: Device, rows: Sequence[Row], where: Where) -> list[_Step]:
    steps = []
    for index, row in enumerate(rows):
        name = str(row.get("id", f"row {index + 1}"))
        try:
            steps.append(_step(name, row, device))
        except SpecError as error:
            raise SpecError(error.message, where=Where(where.file, key=name), hint=error.hint) from None
    return steps


def _fit(device: Device, constants: Sequence[Constant], steps: Sequence[_Step]) -> Device:
    return solve(device, constants, lambda candidate: np.log(_ratios(candidate, steps)) / NOISE)


def _ratios(device: Device, steps: Sequence[_Step]) -> NDArray[np.float64]:
    """Return predicted over measured seconds of each step."""
    return np.array([step.predict_s(device) / step.measured_s for step in steps])


def _far_rows(steps: Sequence[_Step], ratios: NDArray[np.float64]) -> dict[int, str]:
    """Return a warning for each step, by position, that is further from the others than any constant explains."""
    found = {}
    for index, step in enumerate(steps):
        others = np.delete(ratios, index)
        if not others.size or 1 / FAR < (longer := float(np.median(others) / ratios[index])) < FAR:
            continue
        unit = next((name for name, factor in UNITS.items() if 1 / NEAR < longer / factor < NEAR), None)
        likely = f"probably in {unit}" if step.timed and unit else "check its unit, metric and job"
        much = f"{longer:,.0f} times longer" if longer > 1 else f"{1 / longer:,.0f} times shorter"
        found[index] = f"{step.id} is {much} than the other steps would have it: {likely}; it is left out of the fit"
    return found


def _outliers(steps: Sequence[_Step], ratios: NDArray[np.float64]) -> list[str]:
    """Return a warning for each fitted step that is `OUTLIER` robust standard deviations from the median step.

    The deviation is 1.4826 times the median absolute one of the logarithm (Rousseeuw and Croux 1993), at least `NOISE`.
    """
    logs = np.log(ratios)
    off = np.median(logs) - logs
    deviation = max(NOISE, 1.4826 * float(np.median(np.abs(off))))
    found = []
    for step, distance in zip(steps, off, strict=True):
        if abs(distance) > min(OUTLIER * deviation, np.log(TWICE)):
            much, way = np.exp(abs(distance)), "longer" if distance > 0 else "shorter"
            found.append(
                f"{step.id} is {much:.2g} times {way} than the other steps would have it, and fitted: check its job"
            )
    return found


def _matters(device: Device, path: str) -> bool:
    """Return whether a constant has any effect on a step: what power feeds replaces the sustained fraction."""
    powered = device.gemm.joules_per_flop_bit > 0 and device.power_w > 0
    if path.startswith("gemm."):
        return powered == (path == "gemm.joules_per_flop_bit")
    return device.fabric is not None


def _refuse_far(
    start: Device, fitted: Device, constants: Sequence[Constant], ratios: NDArray[np.float64], where: Where
) -> None:
    """Refuse a fit that cannot explain the steps: these constants are shares, and no step differs so much by them.

    Raises:
        SpecError: half of the steps are still off by `MOST_OFF` or more.
    """
    off = float(np.exp(np.median(np.abs(np.log(ratios)))))
    if off < MOST_OFF:
        return
    limit = 0.99 * np.log(LARGEST_FACTOR)
    ended = [each.path for each in constants if abs(each.log(fitted) - each.log(start)) > limit]
    reached = f", with {', '.join(ended)} at the limit of its range" if ended else ""
    raise SpecError(
        f"the steps cannot be explained: half of them are off by a factor of {off:.3g} or more after the fit{reached}",
        where=where,
        hint="check the unit of 'value', the metric, and the job of each row",
    )


def _refuse_beyond(fitted: Device, constants: Sequence[Constant], steps: Sequence[_Step], where: Where) -> None:
    """Refuse a fit that takes more than there is: the device it describes cannot be.

    The steps that ask for it are those that are shorter than the whole of each share gives.

    Raises:
        SpecError: a share of `SHARES` is above 1.
    """
    shares = {each.path: value_at(fitted, each.path) for each in constants if each.path in SHARES}
    beyond = {path: share for path, share in shares.items() if share > 1}
    if not beyond:
        return
    capped = fitted
    for path in beyond:
        capped = with_value(capped, path, 1.0)
    asked = ", ".join(f"{100 * share:.0f} % of {SHARES[path]} ({path})" for path, share in beyond.items())
    shorter = _longest_first(steps, _ratios(capped, steps), 1.0)
    raise SpecError(f"the steps ask for {asked}; shorter than all of it gives: {shorter}", where=where, hint=CHECK)


def _refuse_impossible(fitted: Device, steps: Sequence[_Step], where: Where) -> None:
    """Refuse steps that the whole of every share does not explain, though the prior kept the fit itself below it.

    Raises:
        SpecError: a step is shorter than at the whole peak, links and network cards, by more than `MODEL_ERROR`.
    """
    kernels = replace(fitted.gemm, sustained=dict.fromkeys(fitted.peak_flop_per_s, 1.0), joules_per_flop_bit=0.0)
    fabric = None if fitted.fabric is None else replace(fitted.fabric, efficiency=1.0, nic_efficiency=1.0)
    shorter = _longest_first(steps, _ratios(replace(fitted, gemm=kernels, fabric=fabric), steps), 1 + MODEL_ERROR)
    if shorter:
        parts = ", ".join(SHARES.values())
        raise SpecError(f"shorter than all of {parts} gives: {shorter}", where=where, hint=CHECK)


def _longest_first(steps: Sequence[_Step], ratios: NDArray[np.float64], most: float) -> str:
    """Return the names of the steps that are predicted longer than `most` times the measured one, the worst first."""
    ids = [steps[index].id for index in np.argsort(-ratios, kind="stable") if ratios[index] > most]
    return ", ".join(ids[:MOST_NAMED]) + (f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else "")


def _step(name: str, row: Row, device: Device) -> _Step:
    """Return a row as seconds of a step, whatever metric it has: a rate is inversely proportional to the step."""
    if "kernel" in row or "collective" in row:
        raise SpecError("this is no measured step", hint="kernels and collectives go to --rows")
    stated_row = stated_boards({**row, "gpu": row.get("gpu", device.name)})
    if load_device(text(stated_row, "gpu")).name != device.name:
        raise SpecError(f"the row is of {stated_row['gpu']!r}", hint=f"give steps of {device.name!r}")
    limit_w = as_stated(device, stated_row).power_w
    unlimited = {key: entry for key, entry in stated_row.items() if key not in TELLING}
    job, outcome = read_row(unlimited), predict_training(unlimited)
    value, reason = number(row, "value"), unusable(row)
    if reason is not None:
        raise SpecError(reason, hint="check the unit of 'value'")
    assert outcome.predicted is not None, "a training row is predicted or refused"
    stated = float(step_time(job.setup, job.designs).step_s[0])
    ratio = outcome.predicted / value
    timed = step_metric(row)[0] == "step_time_s"
    measured_s = stated / ratio if timed else stated * ratio

    def predict_s(candidate: Device) -> float:
        return float(step_time(replace(job.setup, device=candidate.limited_to(limit_w)), job.designs).step_s[0])

    unknown_limit = () if device.power_w else limit_notes(stated_row, device)
    return _Step(name, timed, measured_s, predict_s, (*job.assumed, *unknown_limit))
