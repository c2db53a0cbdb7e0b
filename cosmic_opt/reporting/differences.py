"""Two answers side by side, and the optimum along a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosmic_opt.analysis.breakpoints import Breakpoint
from cosmic_opt.analysis.sweep import Point, Range
from cosmic_opt.analysis.what_if import Answer, Difference, Number, moved
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.reporting.answers import value_text
from cosmic_opt.reporting.cluster_warnings import labelled, warnings_text
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.numbers import BEFORE, clip, count_text, exact, rate, table
from cosmic_opt.reporting.runnable import cannot_run_keys, nothing_runs_text
from cosmic_opt.reporting.scores import npu_warnings, score_keys
from cosmic_opt.search.objective import is_inference
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.units import Unit, show, show_joules, show_seconds

TRAINING_UNITS: Mapping[str, Unit | None] = {
    "step_time_s": None,
    "memory_bytes": Unit.BYTES,
    "memory_cosmic_bytes": Unit.BYTES,
    "network_cost": Unit.DOLLARS,
    "system_cost": Unit.DOLLARS,
    "system_power_w": Unit.POWER,
    "energy_j": Unit.ENERGY,
    "total_bandwidth_bytes_per_s": Unit.BYTES_PER_S,
}
SERVING_UNITS: Mapping[str, Unit | None] = {
    **dict.fromkeys(("first_token_time_s", "output_token_time_s")),
    **dict.fromkeys(("throughput_tokens_per_s", "throughput_tokens_per_s_per_npu", "users", "npus_used"), Unit.NONE),
    **dict.fromkeys(("memory_bytes", "kv_cache_bytes"), Unit.BYTES),
    "system_cost": Unit.DOLLARS,
    "system_power_w": Unit.POWER,
    "energy_per_token_j": Unit.ENERGY,
}


def metric_units(parameter_set: ParameterSet) -> Mapping[str, Unit | None]:
    """Return the metrics that a comparison of designs of a problem shows, and their units; None is seconds."""
    return SERVING_UNITS if is_inference(parameter_set) else TRAINING_UNITS


def answer_summary(answer: Answer) -> dict[str, object]:
    """Return status, objective, design, metrics and counts of one answer."""
    outcome = answer.outcome
    return {
        "status": outcome.status.value,
        "objective": {"name": outcome.objective.name, "value": outcome.shown, "unit": outcome.objective.unit},
        "gap": outcome.gap,
        "feasible_designs": outcome.designs,
        "before_simulated_rules": outcome.before_simulated_rules,
        "cannot_run": cannot_run_keys(outcome.cannot_run),
        "design": next(designs_keys(outcome.design), {}),
        **(score_keys(answer.report) if answer.report else {"metrics": None, "breakdown": None}),
    }


def difference_keys(difference: Difference) -> dict[str, object]:
    """Return the keys of `what-if`; a delta is after minus before, None where either is missing or not known."""
    before, after = difference.baseline.outcome, difference.changed.outcome
    return {
        "baseline": answer_summary(difference.baseline),
        "changed": answer_summary(difference.changed),
        "delta": {
            "feasible_designs": None if _uncounted(before, after) else after.designs - before.designs,
            "metric": {name: _delta(pair) for name, pair in difference.metrics.items()},
            "terms": {name: new - old for name, (old, new) in difference.terms_s.items()},
        },
        "design_diff": {name: {"from": old, "to": new} for name, (old, new) in difference.design.items()},
    }


def _uncounted(*outcomes: Outcome) -> bool:
    """Tell whether the feasible designs of some answer are counted before rules on simulated quantities only."""
    return any(outcome.before_simulated_rules for outcome in outcomes)


def _delta(pair: tuple[Number | None, Number | None]) -> Number | None:
    old, new = pair
    return None if old is None or new is None else new - old


def difference_text(title: str, difference: Difference) -> str:
    """Return the comparison on one screen."""
    before, after = difference.baseline.outcome, difference.changed.outcome
    rows = [
        ("status", before.status.value, after.status.value, ""),
        (
            f"feasible designs{BEFORE if _uncounted(before, after) else ''}",
            exact(before.designs),
            exact(after.designs),
            "",
        ),
        (
            before.objective.name,
            value_text(before.value, before.objective),
            value_text(after.value, after.objective),
            _ratio(before.shown, after.shown),
        ),
    ]
    for name, unit in metric_units(difference.baseline.instance.parameter_set).items():
        old, new = difference.metrics.get(name, (None, None))
        if old != new:
            rows.append((name, shown(old, unit), shown(new, unit), _ratio(old, new)))
    parts = [title, table(("", "baseline", "changed", "change"), rows, right=(1, 2, 3))]
    for name, outcome in (("baseline", before), ("changed", after)):
        if outcome.cannot_run is not None:
            parts.append(f"{name}: {nothing_runs_text(outcome.cannot_run)}")
    terms = [
        (name, show_seconds(old), show_seconds(new), _signed(new - old))
        for name, (old, new) in difference.terms_s.items()
        if old != new
    ]
    if terms:
        parts.append(table(("time by term", "baseline", "changed", "change"), terms, right=(1, 2, 3)))
    knobs = [
        (name, _value(difference, name, old), _value(difference, name, new))
        for name, (old, new) in difference.design.items()
    ]
    parts.append(table(("knobs that moved", "baseline", "changed"), knobs) if knobs else "  no knob moved")
    parts.append(_warnings(("baseline", difference.baseline), ("changed", difference.changed)))
    return "\n\n".join(filter(None, parts))


def _warnings(*answers: tuple[str, Answer]) -> str:
    """Return what to know of the NPUs that the designs use; each answer has its name here."""
    scored = ((name, answer.report) for name, answer in answers)
    return warnings_text(labelled((name, npu_warnings(report)) for name, report in scored if report is not None))


def _value(difference: Difference, name: str, value: Value | None) -> str:
    """Return the value of a knob that one of the problems, or each, has as a column."""
    if value is None:
        return "-"
    sets = (answer.instance.parameter_set for answer in (difference.baseline, difference.changed))
    return next(own for own in sets if name in own.positions).column(name).show(value)


def shown(value: Number | None, unit: Unit | None) -> str:
    """Return a metric with its unit; None is seconds, an energy is in joules, and no value is "-"."""
    if value is None:
        return "-"
    if unit is Unit.NONE:
        return rate(value)
    if unit is Unit.ENERGY:
        return show_joules(value)
    return show_seconds(value) if unit is None else show(value, unit)


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '-'}{show_seconds(abs(seconds))}"


def _ratio(old: Number | None, new: Number | None) -> str:
    return f"{100 * (new - old) / old:+.2f} %" if old and new is not None else ""


def sweep_keys(
    over: Range, points: Sequence[Point], breaks: Sequence[Breakpoint], *, interrupted: bool = False
) -> dict[str, object]:
    """Return the keys of `sweep`: one entry a point, and where the best design changes between them.

    After an interrupt there are those points that were over, and no changes.
    """
    return {
        "over": over.name,
        "points": [
            {"value": point.value, "changed": point.changed, **answer_summary(point.answer)} for point in points
        ],
        "breakpoints": [
            {
                "from": change.low.value,
                "to": change.high.value,
                "exact": change.exact,
                "design_diff": {name: {"from": old, "to": new} for name, (old, new) in _moved(over, change).items()},
            }
            for change in breaks
        ],
        "interrupted": interrupted,
    }


def _moved(over: Range, change: Breakpoint) -> dict[str, tuple[Value | None, Value | None]]:
    knobs = moved(change.low.answer.design, change.high.answer.design)
    return {name: pair for name, pair in knobs.items() if over.name not in (name, family_of(name))}


def _note(point: Point, outcome: Outcome) -> str:
    if outcome.cannot_run is not None:
        return "none can run"
    if not point.changed:
        return ""
    return "new design" if len(outcome.design) else "no design"


def sweep_row(point: Point) -> tuple[str, ...]:
    """Return one row of the sweep's table."""
    outcome = point.answer.outcome
    return (
        point.value,
        outcome.status.value,
        value_text(outcome.value, outcome.objective),
        count_text(outcome.designs),
        _note(point, outcome),
    )


def sweep_text(
    title: str, over: Range, points: Sequence[Point], breaks: Sequence[Breakpoint], *, interrupted: bool = False
) -> str:
    """Return the table of a sweep and its breakpoints."""
    objective = points[0].answer.outcome.objective.name
    designs = f"feasible designs{BEFORE if _uncounted(*(point.answer.outcome for point in points)) else ''}"
    body = table((over.name, "status", objective, designs, ""), [sweep_row(point) for point in points], right=(2, 3))
    idle = next((point.answer.outcome.cannot_run for point in points if point.answer.outcome.cannot_run), None)
    if idle is not None:
        body += f"\n\n{nothing_runs_text(idle)}"
    known = _warnings(*((f"{over.name} {point.value}", point.answer) for point in points))
    warned = f"\n\n{known}" if known else ""
    if interrupted:
        note = "interrupted: more values may follow, and where the design changes was not looked for to the end"
        return f"{title}\n\n{body}\n\n  {note}{warned}"
    if not breaks:
        none = not any(point.answer.design for point in points)
        return f"{title}\n\n{body}" + ("" if none else "\n\n  one design is best throughout") + warned
    rows = [(*_place(change), clip(_knobs(over, change), 100)) for change in breaks]
    return f"{title}\n\n{body}\n\n{table(('the best design changes', '', 'knobs that move'), rows)}{warned}"


def _place(change: Breakpoint) -> tuple[str, str]:
    if change.exact:
        return f"at {change.high.value}", "exactly"
    return f"between {change.low.value} and {change.high.value}", ""


def _knobs(over: Range, change: Breakpoint) -> str:
    if not change.low.answer.design:
        return "a feasible design"
    if not change.high.answer.design:
        return "no feasible design"
    parameter_set = change.low.answer.instance.parameter_set
    return ", ".join(
        f"{name} {parameter_set.column(name).show(old)} -> {parameter_set.column(name).show(new)}"
        for name, (old, new) in _moved(over, change).items()
        if old is not None and new is not None
    )


def sweep_rows(points: Sequence[Point]) -> list[list[object]]:
    """Return the sweep as rows of a CSV file, the header first; numbers in base units, an empty cell where none is."""
    parameter_set = points[0].answer.instance.parameter_set
    columns, units = [column.name for column in parameter_set.columns], metric_units(parameter_set)
    objective = points[0].answer.outcome.objective
    designs = ("feasible_designs", "before_simulated_rules")
    rows: list[list[object]] = [["value", "status", f"{objective.name} ({objective.unit})", *designs, *units, *columns]]
    for point in points:
        outcome, report = point.answer.outcome, point.answer.report
        metrics = [None if report is None else report.metrics[name] for name in units]
        knobs = [point.answer.design.get(name) for name in columns]
        counted = (outcome.designs, int(outcome.before_simulated_rules))
        rows.append([point.value, outcome.status.value, outcome.shown, *counted, *metrics, *knobs])
    return rows
