"""How validation is printed."""

from __future__ import annotations

from dataclasses import replace

from cosmic_opt.analysis.validation.report import Facts, ValidationReport, ValidationRow, summarise
from cosmic_opt.reporting.validations import validation_text

FACTS = Facts(source="paper", gpu="A100", kind="step", scale="1 GPU", fold=None, metric="step_s", primary=True)
TIMES = ((1.0, 3.0), (2.0, 2.5), (3.0, 2.0))
"""Seconds predicted and measured of three splits: the one predicted fastest is half as slow again as the best."""


def printed(folds: tuple[int, ...]) -> list[str]:
    """Return the lines on choosing by prediction, of one job for each fold."""
    rows = [
        ValidationRow(f"{fold}/{i}", predicted, measured, predicted / measured - 1, None, choice=f"job {fold}")
        for fold in folds
        for i, (predicted, measured) in enumerate(TIMES)
    ]
    rows = [replace(row, facts=replace(FACTS, fold=int(row.id[0]))) for row in rows]
    text = validation_text(ValidationReport(tuple(rows), summarise("training", rows)))
    return [line for line in text.splitlines() if line.startswith(("choosing", "median"))]


def test_choosing_by_prediction_is_printed_for_all_rows_and_for_those_only_reported() -> None:
    everything, _, reported, last = printed((0, 2))
    assert everything.startswith("choosing by prediction, in 2 jobs")
    assert reported.startswith("choosing by prediction, among rows only reported, in 1 job of")
    assert last == "median 50.0 %, 90th percentile 50.0 %, worst 50.0 %"


def test_it_is_printed_once_where_every_row_or_none_is_only_reported() -> None:
    assert len(printed((2,))) == len(printed((0,))) == 2
