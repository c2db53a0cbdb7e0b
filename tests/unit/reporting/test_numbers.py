"""Numbers as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.reporting import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (968, "968"),
        (10_865_885_184_000, "10,865,885,184,000 (1.087e13)"),
        (10**400, f"{10**400:,} (1.000e400)"),
    ],
)
def test_a_count_keeps_every_digit(value: int, text: str) -> None:
    assert numbers.count_text(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (5, 5, "all"),
        (0, 5, "none"),
        (1, 2, "50 %"),
        (2, 3, "66.7 %"),
        (1, 10, "1 in 10"),
        (1, 10**400, f"1 in {10**400:,}"),
    ],
)
def test_a_share_reads_as_percent_or_as_one_in_many(part: int, whole: int, text: str) -> None:
    assert numbers.share_text(part, whole) == text


def test_names_of_a_family_are_run_together_only_when_consecutive() -> None:
    assert numbers.compress(["dp", "b[0]", "b[1]", "b[2]", "c[1]"]) == "dp, b[0..2], c[1]"
    assert numbers.compress(["b[0]", "b[2]"]) == "b[0], b[2]"
    assert numbers.compress([]) == ""


def test_a_table_is_aligned_and_has_no_trailing_spaces() -> None:
    assert numbers.table(("a", "b"), [("x", "10"), ("long", "9")], right=(1,)) == "  a      b\n  x     10\n  long   9"
    assert numbers.table(("a", "b"), [("x", "")], indent=0) == "a  b\nx"
    assert numbers.table((), []) == ""


def test_long_text_is_clipped_to_its_width() -> None:
    assert numbers.clip("x" * 64) == "x" * 64
    assert len(numbers.clip("x" * 65)) == 64


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(min_value=1e-12, max_value=1e6), min_size=1, max_size=12))
def test_printed_shares_add_up_to_one_hundred(parts: list[float]) -> None:
    shown = [float(text.removesuffix(" %")) for text in numbers.shares(parts)]
    assert round(sum(shown), 6) == 100.0
    total = sum(parts)
    assert all(abs(value - 100 * part / total) <= 0.1 + 1e-9 for value, part in zip(shown, parts, strict=True))


def test_one_design_is_singular() -> None:
    assert numbers.designs_text(1) == "1 feasible design"
    assert numbers.designs_text(0) == "0 feasible designs"
    assert numbers.designs_text(2, before_simulated_rules=True) == "2 feasible designs before rules on simulated times"
