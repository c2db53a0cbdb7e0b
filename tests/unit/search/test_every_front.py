"""The front of scored designs, against comparing every pair."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.search.every import Scored, best_of
from cosmic_opt.search.every_front import every_front

POINTS = st.lists(st.tuples(*(st.integers(0, 6) for _ in range(3))), min_size=1, max_size=40)


def chunks(points: np.ndarray, size: int) -> Iterator[Scored]:
    """Designs whose code is their number; every fifth is not allowed."""
    for start in range(0, len(points), size):
        part = np.arange(start, min(start + size, len(points)), dtype=np.int32)
        yield Scored(start, part.reshape(-1, 1), points[part, 0], part % 5 != 4)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(POINTS, st.integers(2, 3), st.integers(1, 41))
def test_the_front_is_what_no_allowed_design_matches_or_beats(
    given_points: list[tuple[int, int, int]], objectives: int, size: int
) -> None:
    points = np.array(given_points, dtype=np.int64)[:, :objectives]
    found = every_front(chunks(points, size), lambda codes: points[codes[:, 0], 1:], objectives, 1)
    allowed = [row for row in range(len(points)) if row % 5 != 4]
    kept = [
        row
        for row in allowed
        if not any(
            (points[other] <= points[row]).all() and ((points[other] < points[row]).any() or other < row)
            for other in allowed
        )
    ]
    expected = sorted(kept, key=lambda row: (tuple(points[row]), row))
    assert found.codes[:, 0].tolist() == expected
    assert np.array_equal(found.points, points[expected].reshape(-1, objectives))
    assert found.scored == len(points)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(POINTS, st.integers(1, 41), st.integers(1, 10))
def test_the_best_few_are_the_first_of_all_sorted(
    given_points: list[tuple[int, int, int]], size: int, number: int
) -> None:
    points = np.array(given_points, dtype=np.int64)
    order = sorted((int(points[row, 0]), row) for row in range(len(points)) if row % 5 != 4)
    assert best_of(chunks(points, size), number)[:, 0].tolist() == [row for _, row in order[:number]]
