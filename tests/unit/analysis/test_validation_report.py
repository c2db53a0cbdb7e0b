"""Errors by group: closed forms, and scipy's rank correlation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from cosmic_opt.analysis.validation import Facts, Ranked, RankGroup, ValidationRow
from cosmic_opt.analysis.validation.report import errors_of, scale_of, summarise

FACTS = Facts("a", "h100-sxm", "gemm", "1 GPU", 0, "time_s", True)


def row(predicted: float, measured: float, facts: Facts = FACTS) -> ValidationRow:
    return ValidationRow("x", predicted, measured, predicted / measured - 1, None, facts)


def test_errors_are_medians_a_percentile_and_a_share() -> None:
    errors = errors_of([row(1.0 + change, 1.0) for change in (-0.3, -0.09, 0.05, 0.09, 0.2)])
    assert errors is not None
    assert errors.rows == 5
    assert errors.signed == pytest.approx(0.05)
    assert errors.absolute == pytest.approx(0.09)
    assert errors.p90 == pytest.approx(0.26)  # between 0.2 and 0.3, at 0.6 of the way
    assert errors.within_10 == pytest.approx(0.6)
    assert errors.rank is None


def test_no_rows_have_no_errors() -> None:
    assert errors_of([]) is None


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=10, max_size=30))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_rank_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    errors = errors_of([row(float(predicted), float(measured)) for predicted, measured in pairs])
    assert errors is not None
    predicted, measured = np.array(pairs).T
    if np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        assert errors.rank is None
    else:
        assert errors.rank == pytest.approx(float(spearmanr(predicted, measured).statistic))


def test_ranks_compare_rows_of_one_metric_only() -> None:
    times = [row(float(index), float(index)) for index in range(1, 11)]
    rates = [row(float(10 - index), 1e9 * index, replace(FACTS, metric="gb_s")) for index in range(1, 10)]
    errors = errors_of([*times, *rates])
    assert errors is not None
    assert errors.rank == pytest.approx(1.0)


def test_rows_that_may_be_fitted_are_kept_apart_from_all_others() -> None:
    rows = [row(1.1, 1.0, replace(FACTS, fold=fold)) for fold in (0, 1, 2, None, 7)]
    groups = {(group.by, group.group): group for group in summarise("rows", rows).groups}
    whole = groups["all", "all rows"]
    assert whole.calibration is not None
    assert whole.reported is not None
    assert (whole.calibration.rows, whole.reported.rows) == (2, 3)


def test_rows_that_lack_inputs_are_no_primary_rows() -> None:
    rows = [row(1.1, 1.0), row(9.0, 1.0, replace(FACTS, primary=False))]
    groups = {group.group: group for group in summarise("rows", rows).groups}
    assert groups["all rows"].calibration is not None
    assert groups["all rows"].calibration.rows == 2
    assert groups["primary rows"].calibration is not None
    assert groups["primary rows"].calibration.rows == 1


def test_rows_are_grouped_by_source_gpu_kind_and_scale() -> None:
    rows = [row(1.0, 1.0), row(1.0, 1.0, Facts("b", "b200", "all_reduce", "2 to 8 GPUs", 2, "time_s", True))]
    found = {(group.by, group.group) for group in summarise("rows", rows).groups}
    assert found == {
        *(("all", "all rows"), ("all", "primary rows"), ("source", "a"), ("source", "b")),
        *(("gpu", "h100-sxm"), ("gpu", "b200"), ("kind", "gemm"), ("kind", "all_reduce")),
        *(("scale", "1 GPU"), ("scale", "2 to 8 GPUs")),
    }


def test_formats_without_facts_have_no_groups() -> None:
    assert summarise("rows", [ValidationRow("x", 1.0, 1.0, 0.0, None)]).groups == ()


@pytest.mark.parametrize(
    ("gpus", "name"),
    [(1, "1 GPU"), (2, "2 to 8 GPUs"), (8, "2 to 8 GPUs"), (9, "9 to 64 GPUs"), (512, "65 to 512 GPUs")],
)
def test_a_scale_names_its_range(gpus: int, name: str) -> None:
    assert scale_of(gpus) == name


def test_above_the_largest_range_there_is_one_more() -> None:
    assert scale_of(513) == scale_of(16_384) == "more than 512 GPUs"


def ranked(predicted: float, measured: float | None, *groups: str, absolute: bool = True) -> ValidationRow:
    engines = (("analytical", predicted), ("events", -predicted))
    error = None if measured is None else predicted / measured - 1
    return ValidationRow("x", predicted, measured, error, None, None, Ranked(groups, engines, absolute))


def test_rows_are_ranked_by_group_and_engine_and_a_group_below_three_rows_has_no_rank() -> None:
    rows = [
        ranked(1.0, 10.0, "all", "a"),
        ranked(2.0, 30.0, "all", "a"),
        ranked(3.0, 50.0, "all"),
        ranked(9.0, None, "all"),
    ]
    assert summarise("rows", rows).ranks == (
        RankGroup("all", "analytical", 3, pytest.approx(1.0)),  # type: ignore[arg-type]
        RankGroup("all", "events", 3, pytest.approx(-1.0)),  # type: ignore[arg-type]
        RankGroup("a", "analytical", 2, None),
        RankGroup("a", "events", 2, None),
    )


def test_equal_predictions_have_no_rank() -> None:
    assert {
        group.rank for group in summarise("rows", [ranked(1.0, value, "g") for value in (1.0, 2.0, 3.0)]).ranks
    } == {None}


def test_rows_of_known_order_only_have_an_error_that_is_not_counted() -> None:
    summary = summarise("rows", [ranked(5.0, 1.0, "g", absolute=False), ranked(1.0, 1.0, "g", absolute=False)])
    assert (summary.median_error, summary.exact, summary.predicted) == (None, 0, 2)


def test_a_group_too_small_for_a_rank_of_each_fold_is_ranked_over_all_folds_by_metric() -> None:
    rates = [
        row(float(index), float(index), replace(FACTS, fold=index % 3, metric="flop_per_s")) for index in range(1, 11)
    ]
    times = [row(float(10 - index), float(index), replace(FACTS, fold=2)) for index in range(1, 10)]
    group = summarise("rows", [*rates, *times]).groups[0]
    assert group.calibration is not None
    assert group.calibration.rank is None
    assert [(each.metric, each.rows, each.rank) for each in group.ranks] == [("flop_per_s", 10, pytest.approx(1.0))]
