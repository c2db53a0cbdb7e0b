"""Predictions beside reference numbers."""

from __future__ import annotations

from dataclasses import asdict

from cosmic_opt.analysis.validation import ValidationReport, ValidationRow
from cosmic_opt.reporting.numbers import exact, table

SHOWN = 25


def validation_keys(report: ValidationReport) -> dict[str, object]:
    """Return the object of `validation --json`."""
    return {"rows": [asdict(row) for row in report.rows], "summary": asdict(report.summary)}


def validation_text(report: ValidationReport) -> str:
    """Return the summary, the worst rows, and how many have no prediction and why."""
    summary = report.summary
    lines = [
        f"{summary.format}: {exact(summary.rows)} rows, {exact(summary.predicted)} predicted, "
        f"{exact(summary.exact)} of them exactly",
    ]
    if summary.median_error is not None:
        lines.append(
            f"absolute relative error: median {_error(summary.median_error)}, "
            f"90th percentile {_error(summary.p90_error)}, worst {_error(summary.worst_error)}"
        )
    wrong = [row for row in report.rows if row.error]
    wrong.sort(key=lambda row: -abs(row.error or 0))
    if wrong:
        rows = [(row.id, _number(row.predicted), _number(row.measured), _error(row.error)) for row in wrong[:SHOWN]]
        lines += ["", table(("worst rows", "predicted", "measured", "error"), rows, right=(1, 2, 3))]
    return "\n".join([*lines, *_unpredicted(report.rows)])


def _unpredicted(rows: tuple[ValidationRow, ...]) -> list[str]:
    reasons: dict[str, int] = {}
    for row in rows:
        if row.predicted is None:
            reasons[row.note or "no reason given"] = reasons.get(row.note or "no reason given", 0) + 1
    if not reasons:
        return []
    counted = [(exact(times), note) for note, times in sorted(reasons.items(), key=lambda item: -item[1])]
    return ["", table(("rows", "without a prediction, because"), counted[:SHOWN], right=(0,))]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _error(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:+.3g} %" if error < 0 else f"{100 * error:.3g} %"
