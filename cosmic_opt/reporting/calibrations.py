"""What a calibration moved and how errors changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cosmic_opt.analysis.calibration import Calibration, FitError
from cosmic_opt.reporting.numbers import exact, table

SHOWN = 15


def calibration_keys(device: str, calibrations: Sequence[Calibration], out: str | None) -> dict[str, object]:
    """Return the object of `calibrate --json`."""
    return {
        "device": device,
        "fitted": sum(each.fitted for each in calibrations),
        "left_out": {reason: times for each in calibrations for reason, times in each.left_out.items()},
        "errors": [asdict(error) for each in calibrations for error in each.errors],
        "changes": [asdict(change) for each in calibrations for change in each.changes],
        "residuals": [asdict(residual) for each in calibrations for residual in each.residuals],
        "warnings": [warning for each in calibrations for warning in each.warnings],
        "out": out,
    }


def calibration_text(device: str, calibrations: Sequence[Calibration]) -> str:
    """Return errors before and after, constants before and after, largest residuals, rows left out, and warnings."""
    fitted = sum(each.fitted for each in calibrations)
    left_out = sum(times for each in calibrations for times in each.left_out.values())
    lines = [f"{device}: {exact(fitted)} rows fitted" + (f", {exact(left_out)} left out" if left_out else "")]
    if fitted <= 3:
        lines.append("so few rows move only what they determine; every other constant stays where it was")
    errors = [error for each in calibrations for error in each.errors]
    rows = [(_name(error), exact(error.rows), _percents(error.before), _percents(error.after)) for error in errors]
    header = ("error in percent, signed / absolute / 90th percentile", "rows", "before", "after")
    lines += ["", table(header, rows, right=(1, 2, 3))]
    changes = [change for each in calibrations for change in each.changes]
    moved = [
        (each.constant, f"{each.before:.5g}", f"{each.after:.5g}", _factor(each.before, each.after)) for each in changes
    ]
    lines += ["", table(("constant", "before", "after", "change"), moved, right=(1, 2, 3))]
    residuals = sorted((row for each in calibrations for row in each.residuals), key=lambda row: -abs(row.after))
    worst = [
        (row.id, row.group, f"{100 * row.before:+.1f} %", f"{100 * row.after:+.1f} %") for row in residuals[:SHOWN]
    ]
    lines += ["", table(("largest residuals", "", "before", "after"), worst, right=(2, 3))]
    left = [(exact(times), reason) for each in calibrations for reason, times in each.left_out.items()]
    if left:
        lines += ["", table(("rows", "left out"), left, right=(0,))]
    warnings = [f"warning: {warning}" for each in calibrations for warning in each.warnings]
    return "\n".join([*lines, *([""] if warnings else []), *warnings])


def _name(error: FitError) -> str:
    return f"{error.group}, held out" if error.held_out else error.group


def _percents(values: tuple[float, float, float]) -> str:
    signed, absolute, p90 = (100 * value for value in values)
    return f"{signed:+.1f} / {absolute:.1f} / {p90:.1f}"


def _factor(before: float, after: float) -> str:
    return f"{100 * (after / before - 1):+.1f} %" if before else "-"
