from __future__ import annotations

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.json_document import read_json


def test_json_is_read_as_it_is_written() -> None:
    assert read_json('{"a": [1, 2.5, null], "b": {"a": true}}', "f.json", hint="h") == {
        "a": [1, 2.5, None],
        "b": {"a": True},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "recursion"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_plain_json_is_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=r"f\.json: the file is not JSON") as refused:
        read_json(text, "f.json", hint="give JSON")
    assert said in refused.value.message
    assert refused.value.hint == "give JSON"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"a": 1, "a": 1}', "a"),
        ('{"x": [{"b": 1, "c": 2, "b": 3}]}', "b"),
        ('{"a": 1, "\\u0061": 2}', "a"),
        ('{"": 1, "": 2}', ""),
    ],
)
def test_a_key_given_twice_is_refused(text: str, key: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_json(text, "f.json", hint="give JSON")
    assert (str(refused.value.where), refused.value.message) == ("f.json", f"the key {key!r} appears twice")
    assert refused.value.hint == "keep one of the two"


def test_a_long_key_is_shown_in_part() -> None:
    with pytest.raises(SpecError) as refused:
        read_json("{" + ", ".join([f'"{"k" * 500}": 1'] * 2) + "}", "f.json", hint="give JSON")
    assert len(str(refused.value)) < 200
