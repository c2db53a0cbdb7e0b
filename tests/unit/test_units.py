"""Numbers with units: exact reading, refusals, and what a person is shown."""

from __future__ import annotations

import re
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.units import SYMBOLS, Unit, missing_unit, parse, parse_exact, show, show_seconds


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("24 GB", Unit.BYTES, 24_000_000_000),
        ("24GB", Unit.BYTES, 24_000_000_000),
        ("  24  GB ", Unit.BYTES, 24_000_000_000),
        ("24 GiB", Unit.BYTES, 24 * 2**30),
        ("1.5 KiB", Unit.BYTES, 1536),
        ("0.1 GB", Unit.BYTES, 100_000_000),
        ("1e3 kB", Unit.BYTES, 10**6),
        ("50 GB/s", Unit.BYTES_PER_S, 50 * 10**9),
        ("400 Gb/s", Unit.BYTES_PER_S, 50 * 10**9),
        ("989.5 TFLOPS", Unit.FLOP_PER_S, 989_500_000_000_000),
        ("1 PFLOP/s", Unit.FLOP_PER_S, 10**15),
        ("500 ns", Unit.TIME, 500_000),
        ("0.5 us", Unit.TIME, 500_000),
        ("1 h", Unit.TIME, 3600 * 10**12),
        ("-3 ps", Unit.TIME, -3),
        ("7 $", Unit.DOLLARS, 7),
        ("7 USD", Unit.DOLLARS, 7),
        ("1_000", Unit.NONE, 1000),
        ("200 %", Unit.NONE, 2),
        (8, Unit.BYTES, 8),
        (8.0, Unit.NONE, 8),
        (0, Unit.TIME, 0),
        ("0", Unit.TIME, 0),
    ],
)
def test_text_is_a_whole_number_of_base_units(text: str | float, unit: Unit, value: int) -> None:
    assert parse(text, unit) == value


def test_without_a_unit_the_hint_shows_two() -> None:
    with pytest.raises(SpecError) as caught:
        parse_exact("fast")
    assert caught.value.hint == "write for example '24 GB' or '50 GB/s'"


def test_exact_value_keeps_fractions() -> None:
    assert parse_exact("0.1 Gb/s") == (Fraction(12_500_000), Unit.BYTES_PER_S)
    assert parse_exact("7.8 $") == (Fraction(39, 5), Unit.DOLLARS)
    assert parse_exact("1 b/s") == (Fraction(1, 8), Unit.BYTES_PER_S)


@pytest.mark.parametrize(
    ("text", "unit", "whole"),
    [
        ("79.6 GiB", Unit.BYTES, 85_469_849_190),  # .4 of a byte; the last digit is worth 107 million
        ("1.0e-1 KiB", Unit.BYTES, 102),
        ("3.1 Gb/s", Unit.BYTES_PER_S, 387_500_000),
        ("100.3 GiB/s", Unit.BYTES_PER_S, 107_696_304_947),
    ],
)
def test_digits_that_are_worth_more_than_a_base_unit_mean_the_nearest_whole_one(
    text: str, unit: Unit, whole: int
) -> None:
    assert parse(text, unit) == whole


def test_a_decimal_is_not_read_through_a_float() -> None:
    assert parse("9007199254740993 B", Unit.BYTES) == 2**53 + 1
    assert parse("0.000000000001 s", Unit.TIME) == 1


@pytest.mark.parametrize(
    ("text", "unit", "message", "hint"),
    [
        ("", Unit.BYTES, "'' is not a number with a unit", "write for example '24 GB'"),
        ("GB", Unit.BYTES, "'GB' is not a number with a unit", "write for example '24 GB'"),
        ("1 2 GB", Unit.BYTES, "'1 2 GB' is not a number with a unit", "write for example '24 GB'"),
        ("fast", Unit.BYTES, "'fast' is not a number with a unit", "write for example '24 GB'"),
        ("24 gb", Unit.BYTES, "unknown unit 'gb' in '24 gb'", None),
        ("24 GBs", Unit.BYTES, "unknown unit 'GBs' in '24 GBs'", "did you mean"),
        ("24 GB", Unit.BYTES_PER_S, "'24 GB' is a size, but a bandwidth is meant here", "write for example '50 GB/s'"),
        ("24 GB", Unit.NONE, "'24 GB' is a size, but a plain number is meant here", "write for example '8'"),
        ("5", Unit.TIME, "'5' needs a unit of time", "write for example '5 ns' or '5 us'"),
        (5, Unit.TIME, "5 needs a unit of time", "write for example '5 ns' or '5 us'"),
        ("1.5", Unit.NONE, "'1.5' is not a whole number", "write 1 or 2; a size or a time needs its unit"),
        ("-0.5", Unit.NONE, "'-0.5' is not a whole number", "write -1 or 0;"),
        ("1e-60", Unit.NONE, "'1e-60' is not a whole number", "write 0 or 1;"),
        ("1.5 $", Unit.DOLLARS, "'1.5 $' is not a whole number of $", "write 1 $ or 2 $"),
        ("44799.9 W", Unit.POWER, "'44799.9 W' is not a whole number of W", "write 44799 W or 44800 W"),
        ("44800.5 W", Unit.POWER, "'44800.5 W' is not a whole number of W", "write 44800 W or 44801 W"),
        (700.5, Unit.POWER, "700.5 is not a whole number of W", "write 700 W or 701 W"),
        ("0.5 B", Unit.BYTES, "'0.5 B' is not a whole number of B", "write 0 B or 1 B"),
        ("0.0001 KiB", Unit.BYTES, "'0.0001 KiB' is not a whole number of B", "write 0 B or 1 B"),
        ("1 b/s", Unit.BYTES_PER_S, "'1 b/s' is not a whole number of B/s", "write 0 B/s or 1 B/s"),
        ("1.5 ps", Unit.TIME, "'1.5 ps' is not a whole number of ps", "write 1 ps or 2 ps"),
        ("0.6 uJ", Unit.ENERGY, "'0.6 uJ' is not a whole number of uJ", "write 0 uJ or 1 uJ"),
        ("0.5 FLOPS", Unit.FLOP_PER_S, "'0.5 FLOPS' is not a whole number of FLOP/s", "write 0 FLOP/s or 1 FLOP/s"),
        (True, Unit.NONE, "True is not a number", None),
        ("5 J", Unit.POWER, "'5 J' is an energy, but a power is meant here", "write for example '700 W'"),
        (float("inf"), Unit.NONE, "inf is not a number", "write for example '8'"),
        (float("nan"), Unit.POWER, "nan is not a number", "write for example '700 W'"),
        (float("nan"), Unit.DOLLARS, "nan is not a number", "write for example '1000000 $'"),
        (float("nan"), Unit.NONE, "nan is not a number", None),
        ("1e61", Unit.NONE, "'1e61' is out of range", "exponents go up to 60"),
        ("1e-61", Unit.NONE, "'1e-61' is out of range", "exponents go up to 60"),
        ("1e999999999999", Unit.NONE, "is out of range", "exponents go up to 60"),
        (10**200, Unit.NONE, "the number is out of range", "at most 100 digits"),
        ("9" * 101, Unit.NONE, "is too long for a number", "at most 100 characters"),
    ],
)
def test_text_that_means_nothing_is_refused(text: str | float, unit: Unit, message: str, hint: str | None) -> None:
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        parse(text, unit, where=Where("f.yaml", 3, "a.b"))
    assert caught.value.where == Where("f.yaml", 3, "a.b")
    if hint is not None:
        assert caught.value.hint is not None
        assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("1 hour", "write 'h'"), ("5 minutes", "write 'min'"), ("3 Seconds", "write 's'"), ("8 bytes", "write 'B'")],
)
def test_a_unit_in_words_has_its_symbol_in_the_hint(text: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_exact(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize("text", ["3 parsecs", "1 x", "24 ,", "5 __"])
def test_an_unknown_unit_is_answered_with_units_of_every_kind_and_no_empty_one(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_exact(text)
    hint = str(caught.value.hint)
    assert hint.startswith("known: ps, ns, us, ms, s, min, h; B, ")
    shown = hint.removeprefix("known: ").replace(";", ",").split(",")
    assert {each.strip() for each in shown} - {"..."} <= {symbol for symbol in SYMBOLS if symbol}


def test_long_text_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(SpecError):
        parse("9" * 500_000 + " x y", Unit.BYTES)
    assert time.process_time() - started < 10


@settings(derandomize=True, deadline=None)
@given(st.integers(-(10**15), 10**15), st.sampled_from(sorted(SYMBOLS)))
def test_whole_number_of_any_unit_reads_back_exactly(number: int, symbol: str) -> None:
    value, unit = parse_exact(f"{number} {symbol}")
    assert (value, unit) == (number * SYMBOLS[symbol][1], SYMBOLS[symbol][0])


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.text(max_size=30), st.sampled_from(Unit))
def test_any_text_is_a_number_or_a_spec_error(text: str, unit: Unit) -> None:
    try:
        value = parse(text, unit)
    except SpecError as error:
        value = len(error.message)
    assert isinstance(value, int)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (24_000_000_000, Unit.BYTES, "24 GB"),
        (375 * 10**9, Unit.BYTES_PER_S, "375 GB/s"),
        (989 * 10**12, Unit.FLOP_PER_S, "989 TFLOPS"),
        (999, Unit.BYTES, "999 B"),
        (0, Unit.BYTES, "0 B"),
        (-2_500_000, Unit.BYTES, "-2.5 MB"),
        (1_234_567, Unit.NONE, "1,234,567"),
        (1_234_567, Unit.DOLLARS, "$ 1,234,567"),
        (3_205_100_000, Unit.TIME, "3.2051 ms"),
        (0, Unit.TIME, "0 s"),
        (7, Unit.TIME, "7 ps"),
    ],
)
def test_value_is_shown_in_a_unit_a_person_reads(value: int, unit: Unit, text: str) -> None:
    assert show(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (2e-9, "2 ns"), (123456.0, "123,456 s"), (0.0123456, "12.346 ms"), (-0.5, "-500 ms")],
)
def test_duration_has_five_digits(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 999), st.sampled_from([Unit.BYTES, Unit.BYTES_PER_S, Unit.FLOP_PER_S]), st.integers(0, 6))
def test_what_is_shown_reads_back(number: int, unit: Unit, thousands: int) -> None:
    value = number * 1000**thousands
    assert parse(show(value, unit), unit) == value


@pytest.mark.parametrize(
    ("value", "unit", "hint"),
    [
        ("75", Unit.BYTES, "write '75 GB', or '75 B' for bytes"),
        (400, Unit.BYTES_PER_S, "write '400 GB/s', or '400 B/s' for bytes/s"),
        ("141.5", Unit.BYTES, "write '141.5 GB'"),
        ("999_999", Unit.BYTES, "write '999_999 GB', or '999_999 B' for bytes"),
        ("1000000", Unit.BYTES, None),
        ("75 B", Unit.BYTES, None),
        ("75 GB", Unit.BYTES, None),
        ("0", Unit.BYTES, None),
        ("75", Unit.NONE, None),
        ("75", Unit.FLOP_PER_S, None),
    ],
)
def test_a_bare_number_of_few_bytes_misses_its_unit(value: int | str, unit: Unit, hint: str | None) -> None:
    assert missing_unit(value, unit) == hint


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("700 W", Unit.POWER, 700),
        ("0.5 kW", Unit.POWER, 500),
        ("3 MW", Unit.POWER, 3_000_000),
        ("2 J", Unit.ENERGY, 2_000_000),
        ("5 mJ", Unit.ENERGY, 5_000),
        ("7 uJ", Unit.ENERGY, 7),
        ("1.5 kJ", Unit.ENERGY, 1_500_000_000),
        ("1 kWh", Unit.ENERGY, 3_600_000 * 10**6),
    ],
)
def test_power_is_in_watts_and_energy_in_microjoules(text: str, unit: Unit, value: int) -> None:
    assert parse(text, unit) == value


def test_an_energy_needs_its_unit() -> None:
    with pytest.raises(SpecError, match="needs a unit of energy") as caught:
        parse("5", Unit.ENERGY)
    assert caught.value.hint == "write for example '5 J' or '5 kJ'"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (716_800, Unit.POWER, "716.8 kW"),
        (90, Unit.POWER, "90 W"),
        (3 * 10**6, Unit.POWER, "3 MW"),
        (0, Unit.ENERGY, "0 J"),
        (837_368, Unit.ENERGY, "837.368 mJ"),
        (329 * 10**12, Unit.ENERGY, "329 MJ"),
        (1500 * 10**6, Unit.ENERGY, "1.5 kJ"),
    ],
)
def test_power_and_energy_are_shown_with_a_sensible_prefix(value: int, unit: Unit, shown: str) -> None:
    assert show(value, unit) == shown
