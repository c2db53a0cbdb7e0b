"""What choosing by prediction loses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.validation.regret import Regret, regret_of, regrets

TIMES = st.floats(0.1, 10)


def test_the_best_predicted_is_compared_with_the_best_measured() -> None:
    rows = [("job", 1.0, 3.0), ("job", 2.0, 2.5), ("job", 3.0, 2.0)]
    assert regrets(rows) == {"job": 0.5}


def test_groups_of_two_leave_nothing_to_choose() -> None:
    assert regret_of([("job", 1.0, 2.0), ("job", 2.0, 1.0)]) is None
    assert regret_of([]) is None


def test_equal_predictions_count_as_the_slowest_of_them() -> None:
    rows = [("job", 1.0, 2.0), ("job", 1.0, 4.0), ("job", 5.0, 3.0)]
    assert regrets(rows) == {"job": 1.0}


def test_the_summary_by_hand() -> None:
    rows = [(f"job {n}", time, time * (1 + n * (time == 1.0))) for n in (0, 1) for time in (1.0, 1.5, 3.0)]
    found = regret_of(rows)
    assert found == Regret(
        groups=2,
        none=1,
        within_5=1,
        median=pytest.approx(1 / 6),
        p90=pytest.approx(0.3),
        worst=pytest.approx(1 / 3),
        mean=pytest.approx(1 / 6),
    )


@settings(derandomize=True, deadline=None)
@given(st.lists(TIMES, min_size=3, max_size=9), st.floats(0.5, 2))
def test_a_model_off_by_a_factor_has_no_regret(times: list[float], factor: float) -> None:
    assert regrets(("job", factor * time, time) for time in times)["job"] == pytest.approx(0, abs=1e-9)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=3, max_size=9))
def test_regret_is_never_negative(pairs: list[tuple[float, float]]) -> None:
    assert regrets(("job", *pair) for pair in pairs)["job"] >= 0
