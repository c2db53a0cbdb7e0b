"""Errors name the place, say what is wrong and what to write."""

from __future__ import annotations

import pytest

from cosmic_opt.errors import (
    CosmicError,
    EngineDisagreement,
    InfeasibleError,
    LimitError,
    SpecError,
    Where,
    close_names,
    nearest,
)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Where("m.yaml", 7, "parameters.tp"), "m.yaml:7: parameters.tp"),
        (Where("m.yaml", 7), "m.yaml:7"),
        (Where("m.yaml"), "m.yaml"),
        (Where("--fix", key="tp"), "--fix: tp"),
        (Where(line=3), "line 3"),
        (Where(line=3, key="a"), "line 3: a"),
        (Where(key="a"), "a"),
        (Where(), ""),
    ],
)
def test_place_reads_as_file_line_key(where: Where, text: str) -> None:
    assert str(where) == text


def test_message_holds_place_fault_and_hint() -> None:
    error = SpecError("3 is not a power of two", where=Where("m.yaml", 7, "tp"), hint="write 2 or 4")
    assert str(error) == "m.yaml:7: tp: 3 is not a power of two\n  hint: write 2 or 4"
    assert (error.message, error.hint) == ("3 is not a power of two", "write 2 or 4")


def test_message_without_place_or_hint_is_the_fault_alone() -> None:
    assert str(LimitError("too many designs")) == "too many designs"
    assert str(LimitError("too many designs", where=Where())) == "too many designs"


@pytest.mark.parametrize("kind", [SpecError, InfeasibleError, LimitError, EngineDisagreement])
def test_every_error_is_a_cosmic_error(kind: type[CosmicError]) -> None:
    assert issubclass(kind, CosmicError)


def test_nearest_names_what_was_meant() -> None:
    assert nearest("bandwith", ["latency", "bandwidth"]) == "did you mean 'bandwidth'?"
    assert nearest("tp_", ["tp", "pp", "tpu"]) == "did you mean 'tp' or 'tpu'?"


def test_nearest_names_what_a_word_is_part_of() -> None:
    assert nearest("power", ["tp", "system_power", "device_power"]) == "did you mean 'device_power' or 'system_power'?"


def test_nearest_lists_names_when_none_is_close() -> None:
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
    twenty = [f"n{at:02}" for at in range(20)]
    assert nearest("zzz", twenty) == f"known: {', '.join(twenty)}"
    assert nearest("zzz", []) is None


def test_of_many_names_the_nearest_come_first_and_the_others_are_counted() -> None:
    """An unknown word shares letters with quantities at the end of the alphabet."""
    names = [f"a{at:02}" for at in range(29)] + ["total_bandwidth"]
    hint = nearest("width_total", names)
    assert hint is not None
    assert hint.startswith("known, nearest first: total_bandwidth, a00, ")
    assert hint.endswith(" and 20 more")


def test_case_does_not_count() -> None:
    assert nearest("H100", ["a100-80", "b200", "h100-sxm", "mi300x"]) == "did you mean 'h100-sxm'?"
    assert nearest("NPUS_PER_DIM", ["npus", "npus_per_dim"]) == "did you mean 'npus_per_dim'?"
    assert nearest("Power", ["tp", "system_power"]) == "did you mean 'system_power'?"
    many = [f"n{at:02}" for at in range(29)] + ["Total_Bandwidth"]
    assert str(nearest("WIDTH_TOTAL", many)).startswith("known, nearest first: Total_Bandwidth, n00, ")


def test_names_that_differ_in_case_alone_are_both_close() -> None:
    assert close_names("kw", ["KW", "kW", "MW"], most=2) == ["KW", "kW"]
    assert close_names("kw", ["KW", "kW", "MW"], most=1) == ["KW"]
    assert close_names("zzz", ["kW"], most=2) == []
