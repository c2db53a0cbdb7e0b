"""Domains: their values, and every way to get one wrong."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, LimitError, SpecError, Where
from cosmic_opt.psa.domain import MAX_VALUES, DivisorsOf, Domain, Doublings, Explicit, PowersOf, Range, Value

WHERE = Where("model.yaml", 4, "parameters.tp.domain")
DATA: dict[str, Value] = {"npus": 1024, "layers": 96, "name": "gpt", "huge": 10**18}


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (Explicit((3, 1, 2)), (3, 1, 2)),
        (Explicit(("ring", "switch")), ("ring", "switch")),
        (Range(-2, 4, 3), (-2, 1, 4)),
        (Range(0, 5, 2), (0, 2, 4)),
        (Range(7, 7, 1), (7,)),
        (Range(1, "layers", 95), (1, 96)),
        (Range(0, 10**30, 10**30), (0, 10**30)),
        (Doublings(1, 16, 2), (1, 2, 3, 4, 6, 8, 12, 16)),
        (Doublings(7, 20, 2), (8, 12, 16)),
        (Doublings(5, "layers", 1), (8, 16, 32, 64)),
        (Doublings(3, 3, 2), (3,)),
        (PowersOf(2, 1, "npus"), (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
        (PowersOf(3, 2, 80), (3, 9, 27)),
        (PowersOf(2, -5, 3), (1, 2)),
        (DivisorsOf("layers", 2, 12), (2, 3, 4, 6, 8, 12)),
        (DivisorsOf(49), (1, 7, 49)),
        (DivisorsOf(1), (1,)),
        (DivisorsOf(97, 2), (97,)),
    ],
)
def test_domain_has_these_values(domain: Domain, values: tuple[int | str, ...]) -> None:
    assert domain.resolve(DATA, WHERE) == values


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (Explicit(()), "the domain is empty"),
        (Explicit((1, 2, 1)), "1 is listed twice"),
        (Explicit(("a", "b", "b")), "'b' is listed twice"),
        (Range(1, 5, 0), "the step must be positive, not 0"),
        (Range(1, 5, -1), "the step must be positive, not -1"),
        (Range(5, 1, 1), "the range starts at 5, above its end 1"),
        (Doublings(1, 8, 0), "per_doubling is 0"),
        (Doublings(0, 8, 2), "per_doubling needs a range of positive numbers, not [0, 8]"),
        (Doublings(9, 8, 2), "per_doubling needs a range of positive numbers, not [9, 8]"),
        (Doublings(5, 5, 1), "no step lies in [5, 5]"),
        (PowersOf(1, 1, 8), "powers_of needs a base of at least 2, not 1"),
        (PowersOf(2, 5, 7), "no power of 2 lies in [5, 7]"),
        (PowersOf(2, 1, 0), "no power of 2 lies in [1, 0]"),
        (DivisorsOf(0), "divisors_of needs a positive number, not 0"),
        (DivisorsOf(-6), "divisors_of needs a positive number, not -6"),
        (DivisorsOf("huge"), "divisors_of 1000000000000000000 is too large"),
        (DivisorsOf(7, 2, 6), "no divisor of 7 lies in [2, 6]"),
        (PowersOf(2, 1, "npu"), "the domain names 'npu', which the instance does not give"),
        (Range("name", 5, 1), "'name' is 'gpt', not a number"),
    ],
)
def test_domain_that_means_nothing_is_refused(domain: Domain, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        domain.resolve(DATA, WHERE)
    assert caught.value.where == WHERE


def test_unknown_datum_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        DivisorsOf("layer").resolve(DATA, WHERE)
    assert caught.value.hint == "did you mean 'layers'?"


@pytest.mark.parametrize("high", [MAX_VALUES, 10**30, 2**64])
def test_range_of_too_many_values_is_refused_without_listing_them(high: int) -> None:
    with pytest.raises(LimitError, match=f"a domain of {high + 1:,} values"):
        Range(0, high, 1).resolve({}, WHERE)


def test_doublings_of_too_many_values_are_refused_without_listing_them() -> None:
    with pytest.raises(LimitError, match="use a larger step"):
        Doublings(1, 10**30, 2**60).resolve({}, WHERE)


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 40), st.integers(1, 3000), st.integers(0, 3000))
def test_no_step_between_doublings_is_more_than_its_part_of_the_value(parts: int, low: int, more: int) -> None:
    every = range(low, low + more + 1)
    with suppress(SpecError):
        values = [int(value) for value in Doublings(low, low + more, parts).resolve({}, WHERE)]
        assert all(after - before <= max(1, before / parts) for before, after in itertools.pairwise(values))
        assert set(every[: max(0, 2 * parts - low + 1)]) <= set(values) <= set(every)


def test_a_long_list_is_checked_for_repeats_quickly() -> None:
    values = (*range(50_000), 0)
    with pytest.raises(SpecError, match="0 is listed twice"):
        Explicit(values).resolve({}, WHERE)


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 50_000))
def test_divisors_are_exactly_the_divisors(number: int) -> None:
    assert DivisorsOf(number).resolve({}, WHERE) == tuple(d for d in range(1, number + 1) if number % d == 0)


_BOUND = st.one_of(st.integers(-50, 500), st.sampled_from(["npus", "name", "nothing"]))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.one_of(
        st.builds(Range, _BOUND, _BOUND, st.integers(-2, 30)),
        st.builds(Doublings, _BOUND, _BOUND, st.integers(-1, 30)),
        st.builds(PowersOf, st.integers(-1, 6), _BOUND, _BOUND),
        st.builds(DivisorsOf, _BOUND, _BOUND, st.none() | _BOUND),
    )
)
def test_any_domain_has_distinct_values_or_is_refused(domain: Domain) -> None:
    values: tuple[Value, ...] = (0,)
    with suppress(CosmicError):
        values = domain.resolve(DATA, WHERE)
    assert len(values) == len(set(values)) > 0
