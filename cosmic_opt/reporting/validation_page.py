"""A page of predictions against measurements: self-contained HTML with one scatter plot per kind of row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from cosmic_opt.analysis.validation import ValidationReport, ValidationRow
from cosmic_opt.reporting.validations import validation_text

SIDE = 360
MARGIN = 44
FITTED, REPORTED = "#9aa7b4", "#c2410c"
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; color: #1f2937; }
figure { display: inline-block; margin: 0 1em 1em 0; }
figcaption { font-weight: 600; }
pre { background: #f3f4f6; padding: 1em; overflow-x: auto; }
text { font-size: 11px; fill: #4b5563; }
"""


def validation_page(report: ValidationReport) -> str:
    """Return the page: a plot per kind (predicted over measured, both logarithmic), then the printed summary.

    A dot's tooltip names its row. The solid line is a perfect prediction, the dashed ones 20 % off.
    """
    plotted = [row for row in report.rows if (row.predicted or 0) > 0 and (row.measured or 0) > 0]
    titles = sorted({_title(row) for row in plotted})
    figures = "".join(_figure(title, [row for row in plotted if _title(row) == title]) for title in titles)
    legend = (
        f'<p><span style="color:{REPORTED}">&#9679;</span> only reported &nbsp; '
        f'<span style="color:{FITTED}">&#9679;</span> may be fitted (folds 0 and 1)</p>'
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Predicted against measured</title>'
        f"<style>{STYLE}</style></head><body><h1>Predicted against measured</h1>{legend}{figures}"
        f"<pre>{escape(validation_text(report))}</pre></body></html>\n"
    )


def _title(row: ValidationRow) -> str:
    if row.facts is None:
        return row.ranked.groups[0] if row.ranked is not None and row.ranked.groups else "rows"
    return row.facts.kind if row.facts.metric == "time_s" else f"{row.facts.kind} ({row.facts.metric})"


def _figure(title: str, rows: Sequence[ValidationRow]) -> str:
    values = [value for row in rows for value in (row.predicted, row.measured) if value]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    inner = SIDE - 2 * MARGIN

    def at(value: float) -> float:
        return MARGIN + inner * (math.log10(value) - low) / (high - low)

    parts = [_line(at, low, high, factor) for factor in (1.0, 1.2, 1 / 1.2)]
    for decade in range(low, high + 1):
        x = at(10.0**decade)
        parts.append(f'<text x="{x:.0f}" y="{SIDE - MARGIN + 16}" text-anchor="middle">1e{decade}</text>')
        parts.append(f'<text x="{MARGIN - 6}" y="{SIDE - x + 4:.0f}" text-anchor="end">1e{decade}</text>')
    parts += [_dot(row, at) for row in rows]
    parts.append(f'<text x="{SIDE / 2}" y="{SIDE - 8}" text-anchor="middle">measured</text>')
    parts.append(
        f'<text x="12" y="{SIDE / 2}" text-anchor="middle" transform="rotate(-90 12 {SIDE / 2})">predicted</text>'
    )
    frame = f'<rect x="{MARGIN}" y="{MARGIN}" width="{inner}" height="{inner}" fill="none" stroke="#d1d5db"/>'
    return (
        f"<figure><figcaption>{escape(title)}: {len(rows)} rows</figcaption>"
        f'<svg width="{SIDE}" height="{SIDE}" role="img">{frame}{"".join(parts)}</svg></figure>'
    )


def _line(at: Callable[[float], float], low: int, high: int, factor: float) -> str:
    """Return the line predicted = factor x measured, clipped to the frame."""
    left, right = 10.0**low * max(1, 1 / factor), 10.0**high * min(1, 1 / factor)
    dash = "" if factor == 1 else ' stroke-dasharray="4 4"'
    ends = f'x1="{at(left):.1f}" y1="{SIDE - at(left * factor):.1f}" x2="{at(right):.1f}"'
    return f'<line {ends} y2="{SIDE - at(right * factor):.1f}" stroke="#6b7280"{dash}/>'


def _dot(row: ValidationRow, at: Callable[[float], float]) -> str:
    assert row.predicted is not None, "only predicted rows are plotted"
    assert row.measured is not None, "only measured rows are plotted"
    fitted = row.facts is not None and row.facts.fold in (0, 1)
    error = f"{100 * row.error:+.1f} %" if row.error is not None else "-"
    device = f", {row.facts.gpu}" if row.facts is not None else ""
    tip = escape(f"{row.id}{device}: predicted {row.predicted:.4g}, measured {row.measured:.4g} ({error})")
    place = f'cx="{at(row.measured):.1f}" cy="{SIDE - at(row.predicted):.1f}"'
    return f'<circle {place} r="2.6" fill="{FITTED if fitted else REPORTED}"><title>{tip}</title></circle>'
