"""Predictions beside reference numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from cosmic_opt.analysis.validation import (
    Errors,
    GroupErrors,
    RankGroup,
    Regret,
    ValidationReport,
    ValidationRow,
    ValidationSummary,
)
from cosmic_opt.analysis.validation.measured import UNUSABLE
from cosmic_opt.analysis.validation.row_keys import NOT_READ
from cosmic_opt.reporting.numbers import exact, table

SHOWN = 15
ROW_KEYS = ("id", "predicted", "measured", "error", "note")
GROUPS = {"all": "", "source": "by source", "gpu": "by GPU", "kind": "by kind", "scale": "by scale"}
"""Every way rows are grouped, and its heading."""


def validation_keys(report: ValidationReport) -> dict[str, object]:
    """Return the object of `validation --json`."""
    rows = [{key: getattr(row, key) for key in ROW_KEYS} | _sureness(row) for row in report.rows]
    return {"rows": rows, "summary": asdict(report.summary)}


def _sureness(row: ValidationRow) -> dict[str, object]:
    """Return interval, hidden input and extrapolation; null where nothing was measured to judge the row by."""
    sure = row.confidence
    return {
        "interval": None if sure is None else list(sure.interval),
        "hidden_input": None if sure is None else sure.hidden_input,
        "extrapolates": None if sure is None else list(sure.extrapolates),
    }


def validation_text(report: ValidationReport) -> str:
    """Return the summary, errors by group, ranks, regret, the worst rows, and how many have no prediction and why."""
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
    lines += _groups(summary.groups) + _ranks(summary.ranks) + _regret(summary)
    wrong = [row for row in report.rows if row.counted_error]
    wrong.sort(key=lambda row: -abs(row.error or 0))
    if wrong:
        rows = [(row.id, _number(row.predicted), _number(row.measured), _error(row.error)) for row in wrong[:SHOWN]]
        lines += ["", table(("worst rows", "predicted", "measured", "error"), rows, right=(1, 2, 3))]
    return "\n".join([*lines, *_unusable(report.rows), *_not_read(report.rows), *_unpredicted(report.rows)])


def _groups(groups: Sequence[GroupErrors]) -> list[str]:
    """Return one table: each group's rows that may be fitted beside those that are only reported."""
    if not groups:
        return []
    lines = [
        "",
        "error in percent, median signed / median absolute / 90th percentile; rank: Spearman's, of rows of one metric",
    ]
    rows = list[tuple[str, ...]]()
    for by, heading in GROUPS.items():
        members = [group for group in groups if group.by == by]
        if heading and members:
            rows.append((heading, *[""] * 7))
        rows += [_group_cells(group, "  " if heading else "") for group in members]
    header = ("", "calibration", "error", "rank", "reported", "error", "rank", "rank of all folds")
    return [*lines, table(header, rows, right=(1, 2, 3, 4, 5, 6))]


def _group_cells(group: GroupErrors, indent: str) -> tuple[str, ...]:
    together = "-"
    if group.ranks:
        most = group.ranks[0]
        together = f"{most.rank:.3f} of {exact(most.rows)} {most.metric}"
    return (indent + group.group, *_error_cells(group.calibration), *_error_cells(group.reported), together)


def _error_cells(errors: Errors | None) -> tuple[str, str, str]:
    if errors is None:
        return "-", "-", "-"
    percents = f"{100 * errors.signed:+.1f} / {100 * errors.absolute:.1f} / {100 * errors.p90:.1f}"
    return exact(errors.rows), percents, "-" if errors.rank is None else f"{errors.rank:.3f}"


def _ranks(ranks: Sequence[RankGroup]) -> list[str]:
    """Return one table: the correlation of each group, an engine a column."""
    if not ranks:
        return []
    engines = list(dict.fromkeys(group.engine for group in ranks))
    rows = list[tuple[str, ...]]()
    for name in dict.fromkeys(group.group for group in ranks):
        found = {group.engine: group for group in ranks if group.group == name}
        most = max(group.rows for group in found.values())
        rows.append((name, exact(most), *(_rank(found.get(engine)) for engine in engines)))
    header = ("order, Spearman's correlation", "rows", *engines)
    return ["", table(header, rows[:SHOWN], right=tuple(range(1, len(header))))]


def _regret(summary: ValidationSummary) -> list[str]:
    """Return what the choice of the fastest prediction loses against the fastest measurement."""
    if summary.regret is None:
        return []
    lines = ["", *_regret_lines("in", summary.regret)]
    if summary.regret_reported is not None and summary.regret_reported != summary.regret:
        lines += _regret_lines("among rows only reported, in", summary.regret_reported)
    return lines


def _regret_lines(where: str, regret: Regret) -> list[str]:
    percents = (100 * each for each in (regret.median, regret.p90, regret.worst))
    jobs = f"{exact(regret.groups)} job{'s'[: regret.groups != 1]} of three measured splits or more"
    return [
        f"choosing by prediction, {where} {jobs}: the best in {exact(regret.none)}, "
        f"at most 5 % behind in {exact(regret.within_5)};",
        "median {:.1f} %, 90th percentile {:.1f} %, worst {:.1f} %".format(*percents),
    ]


def _rank(group: RankGroup | None) -> str:
    return "-" if group is None or group.rank is None else f"{group.rank:.3f}"


def _unpredicted(rows: tuple[ValidationRow, ...]) -> list[str]:
    reasons: dict[str, int] = {}
    for row in rows:
        if row.predicted is None:
            reasons[row.note or "no reason given"] = reasons.get(row.note or "no reason given", 0) + 1
    if not reasons:
        return []
    counted = [(exact(times), note) for note, times in sorted(reasons.items(), key=lambda item: -item[1])]
    return ["", table(("rows", "without a prediction, because"), counted[:SHOWN], right=(0,))]


def _not_read(rows: tuple[ValidationRow, ...]) -> list[str]:
    """Return the keys of rows that change nothing, and in how many rows each list of them stands."""
    found = Counter(row.not_read.removeprefix(NOT_READ) for row in rows if row.not_read)
    if not found:
        return []
    more = [(exact(len(found) - SHOWN), "lists of keys more")] if len(found) > SHOWN else []
    counted = [(exact(times), keys) for keys, times in found.most_common(SHOWN)]
    return ["", table(("rows", "keys that are not read"), [*counted, *more], right=(0,))]


def _unusable(rows: tuple[ValidationRow, ...]) -> list[str]:
    """Return the rows whose measured value cannot be one."""
    found = [(row.id, (row.note or "").partition(";")[0]) for row in rows if (row.note or "").startswith(UNUSABLE)]
    if not found:
        return []
    more = [(f"and {exact(len(found) - SHOWN)} more", "")] if len(found) > SHOWN else []
    return ["", table(("row", "left out of the errors"), [*found[:SHOWN], *more])]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _error(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:+.3g} %" if error < 0 else f"{100 * error:.3g} %"
