"""Designs side by side: knob by knob, metric by metric, term by term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.cluster_warnings import labelled, warnings_text
from cosmic_opt.reporting.designs import designs_keys, value_text
from cosmic_opt.reporting.differences import metric_units, shown
from cosmic_opt.reporting.numbers import table
from cosmic_opt.reporting.scores import npu_warnings, score_keys
from cosmic_opt.search.report import Report
from cosmic_opt.units import show_seconds


@dataclass(frozen=True)
class Scored:
    """A design with the name it goes by and its full score."""

    name: str
    design: DesignBatch
    report: Report


def comparison_keys(scored: Sequence[Scored]) -> dict[str, object]:
    """Return the keys of `compare`: each design with its score, and the names of the knobs that differ."""
    return {
        "designs": [
            {"name": one.name, "design": next(designs_keys(one.design)), **score_keys(one.report)} for one in scored
        ],
        "differing": [name for name, values in _values(scored).items() if len(set(values)) > 1],
    }


def comparison_text(title: str, scored: Sequence[Scored]) -> str:
    """Return the designs side by side; knobs and terms that are the same in all are left out."""
    names = [one.name for one in scored]
    right = tuple(range(1, len(names) + 1))
    units = metric_units(scored[0].design.parameter_set)
    metrics = [(name, *(shown(one.report.metrics[name], unit) for one in scored)) for name, unit in units.items()]
    parts = [title, table(("metric", *names), metrics, right=right)]
    terms = [
        (term, *(show_seconds(one.report.terms_s[term]) for one in scored))
        for term in scored[0].report.terms_s
        if any(one.report.terms_s[term] for one in scored)
    ]
    parts.append(table(("where the time goes", *names), terms, right=right))
    knobs = [(name, *values) for name, values in _values(scored).items() if len(set(values)) > 1]
    parts.append(table(("knobs that differ", *names), knobs, right=right) if knobs else "  every knob is the same")
    parts.append(warnings_text(labelled((one.name, npu_warnings(one.report)) for one in scored)))
    return "\n\n".join(filter(None, parts))


def _values(scored: Sequence[Scored]) -> dict[str, list[str]]:
    """Return the value of every column in each design, with units."""
    columns = scored[0].design.parameter_set.columns
    points = [next(one.design.points()) for one in scored]
    return {column.name: [value_text(column, point[column.name]) for point in points] for column in columns}
