"""Two answers side by side, and the optimum along a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from cosmic_opt.analysis.sweep import Point, Range, breakpoints
from cosmic_opt.analysis.what_if import Answer, Difference, Number
from cosmic_opt.psa.domain import Value
from cosmic_opt.reporting.answers import value_text
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.numbers import count_text, exact, table
from cosmic_opt.reporting.scores import score_keys
from cosmic_opt.units import Unit, show, show_seconds

METRIC_UNITS = {
    "step_time_s": None,
    "memory_bytes": Unit.BYTES,
    "memory_cosmic_bytes": Unit.BYTES,
    "network_cost": Unit.DOLLARS,
    "total_bandwidth_bytes_per_s": Unit.BYTES_PER_S,
}
"""The metrics a comparison shows; None is seconds."""


def answer_summary(answer: Answer) -> dict[str, object]:
    """Return status, objective, design, metrics and counts of one answer."""
    outcome = answer.outcome
    value = None if outcome.value is None else outcome.objective.show(outcome.value)
    return {
        "status": outcome.status.value,
        "objective": {"name": outcome.objective.name, "value": value, "unit": outcome.objective.unit},
        "gap": outcome.gap,
        "feasible_designs": outcome.feasible_designs,
        "design": next(designs_keys(outcome.design), {}),
        **(score_keys(answer.report) if answer.report else {"metrics": None, "breakdown": None}),
    }


def difference_keys(difference: Difference) -> dict[str, object]:
    """Return the keys of `what-if`; a delta is after minus before, None where either is missing."""
    before, after = difference.baseline.outcome, difference.changed.outcome
    return {
        "baseline": answer_summary(difference.baseline),
        "changed": answer_summary(difference.changed),
        "delta": {
            "feasible_designs": after.feasible_designs - before.feasible_designs,
            "metric": {name: _delta(pair) for name, pair in difference.metrics.items()},
            "terms": {name: new - old for name, (old, new) in difference.terms_s.items()},
        },
        "design_diff": {name: {"from": old, "to": new} for name, (old, new) in difference.design.items()},
    }


def _delta(pair: tuple[Number | None, Number | None]) -> Number | None:
    old, new = pair
    return None if old is None or new is None else new - old


def difference_text(title: str, difference: Difference) -> str:
    """Return the comparison on one screen."""
    before, after = difference.baseline.outcome, difference.changed.outcome
    rows = [
        ("status", before.status.value, after.status.value, ""),
        ("feasible designs", exact(before.feasible_designs), exact(after.feasible_designs), ""),
        (
            before.objective.name,
            value_text(before.value, before.objective),
            value_text(after.value, after.objective),
            _ratio(before.value, after.value),
        ),
    ]
    for name, unit in METRIC_UNITS.items():
        old, new = difference.metrics.get(name, (None, None))
        if old != new:
            rows.append((name, _shown(old, unit), _shown(new, unit), _ratio(old, new)))
    parts = [title, table(("", "baseline", "changed", "change"), rows, right=(1, 2, 3))]
    moved = [
        (name, show_seconds(old), show_seconds(new), _signed(new - old))
        for name, (old, new) in difference.terms_s.items()
        if old != new
    ]
    if moved:
        parts.append(table(("time by term", "baseline", "changed", "change"), moved, right=(1, 2, 3)))
    knobs = [
        (name, _value(difference, name, old), _value(difference, name, new))
        for name, (old, new) in difference.design.items()
    ]
    parts.append(table(("knobs that moved", "baseline", "changed"), knobs) if knobs else "  no knob moved")
    return "\n\n".join(parts)


def _value(difference: Difference, name: str, value: Value | None) -> str:
    if value is None:
        return "-"
    return difference.baseline.instance.parameter_set.column(name).show(value)


def _shown(value: Number | None, unit: Unit | None) -> str:
    if value is None:
        return "-"
    return show_seconds(value) if unit is None else show(value, unit)


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '-'}{show_seconds(abs(seconds))}"


def _ratio(old: Number | None, new: Number | None) -> str:
    return f"{100 * (new - old) / old:+.2f} %" if old and new is not None else ""


def sweep_keys(over: Range, points: Sequence[Point]) -> dict[str, object]:
    """Return the keys of `sweep`: one entry a point, and the pairs of values the best design changes between."""
    return {
        "over": over.name,
        "points": [
            {"value": point.value, "changed": point.changed, **answer_summary(point.answer)} for point in points
        ],
        "breakpoints": [{"from": low, "to": high} for low, high in breakpoints(points)],
    }


def sweep_row(point: Point) -> tuple[str, ...]:
    """Return one row of the sweep's table."""
    outcome = point.answer.outcome
    return (
        point.value,
        outcome.status.value,
        value_text(outcome.value, outcome.objective),
        count_text(outcome.feasible_designs),
        "new design" if point.changed else "",
    )


def sweep_text(title: str, over: Range, points: Sequence[Point]) -> str:
    """Return the table of a sweep and its breakpoints."""
    objective = points[0].answer.outcome.objective.name
    body = table((over.name, "status", objective, "feasible designs", ""), [sweep_row(p) for p in points], right=(2, 3))
    pairs = [f"{low} and {high}" for low, high in breakpoints(points)]
    ends = (
        f"  the best design changes between {'; between '.join(pairs)}" if pairs else "  one design is best throughout"
    )
    return f"{title}\n\n{body}\n\n{ends}"
