"""YAML with positions: what is read, and every hostile document refused with its place."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.document import MAX_BYTES, expect_schema, read_yaml
from cosmic_opt.units import Unit


def test_plain_values_keep_their_kinds() -> None:
    root = read_yaml("a: 1\nb: [x, 2.5, true, null]\nc: {d: 'true', 1: y}\ndate: 2024-02-30\n", "f.yaml")
    assert root.value == {
        "a": 1,
        "b": ["x", 2.5, True, None],
        "c": {"d": "true", 1: "y"},
        "date": "2024-02-30",
    }


def test_every_entry_knows_file_line_and_key() -> None:
    root = read_yaml("# comment\na:\n  b:\n    - 1\n    - c: 2\n", "f.yaml")
    inner = root.mapping()["a"].mapping()["b"].items()[1].mapping()["c"]
    assert inner.where == Where("f.yaml", 5, "a.b.1.c")
    assert str(inner.where) == "f.yaml:5: a.b.1.c"


def test_small_alias_repeats_its_value() -> None:
    assert read_yaml("a: &x [1, 2]\nb: *x\n", "f").value == {"a": [1, 2], "b": [1, 2]}


HOSTILE = {
    "empty": ("", 1, "the file is empty"),
    "only a comment": ("# nothing\n", 1, "the file is empty"),
    "two documents": ("a: 1\n---\nb: 2\n", 2, "another document"),
    "tab indentation": ("a:\n\t- 1\n", 2, "cannot start any token"),
    "tab before a key": ("\ta: 1\n", 1, "cannot start any token"),
    "unclosed list": ("a: [1, 2\n", 2, "not YAML"),
    "unclosed quote": ('a: "x\n', 2, "not YAML"),
    "two colons": ("a: b: c\n", 1, "not YAML"),
    "bad indentation": ("a:\n  b: 1\n c: 2\n", 3, "not YAML"),
    "undefined alias": ("a: *nobody\n", 1, "undefined alias"),
    "recursive alias": ("a: &a [*a]\n", 1, "nests too deeply"),
    "repeated key": ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' appears twice"),
    "repeated nested key": ("a:\n  b: 1\n  b: 2\n", 3, "the key 'b' appears twice"),
    "merge key": ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge keys ('<<') are not supported"),
    "list as a key": ("? [1, 2]\n: 3\n", 1, "a key must be plain text"),
    "null key": ("null: 1\n", 1, "the key 'null' is not plain text"),
    "float key": ("1.5: 1\n", 1, "the key '1.5' is not plain text"),
    "tag that runs code": ("a: !!python/object/apply:os.system [ls]\n", 1, "the tag !!python/object/apply:os.system"),
    "tag that runs code as a key": ("!!python/name:os.system x: 1\n", 1, "the tag !!python/name:os.system"),
    "empty integer": ('a: !!int ""\n', 1, "the tag !!int has no meaning here"),
    "no truth value": ("a: !!bool x\n", 1, "the tag !!bool"),
    "no date": ("a: !!timestamp x\n", 1, "the tag !!timestamp"),
    "a set": ("a: !!set {b, c}\n", 1, "the tag !!set"),
    "private tag": ("a: !mine x\n", 1, "the tag !mine"),
    "number of no digits": ("a: 0b_\n", 1, "'0b_' is not a number"),
    "number of 5,000 digits": (f"a: {'9' * 5000}\n", 1, "is too large"),
    "number of 5,000 hexadecimal digits": (f"a: 0x{'f' * 5000}\n", 1, "is too large"),
    "zero byte": ('a: "\x00"\n', None, "not YAML"),
    "control character": ("a: \x01\n", None, "not YAML"),
    "half a character": ("a: \ud800\n", None, "not YAML"),
    "future version": ("%YAML 9.9\n---\na: 1\n", 1, "not YAML"),
    "31 levels": ("a: " + "[" * 31 + "]" * 31 + "\n", 1, "nests too deeply"),
    "100,000 levels": ("[" * 100_000, 1, "not YAML"),
    "100,001 values": ("a: [" + "1," * 100_001 + "]\n", 1, "too many values"),
    "a megabyte": ("a: " + "x" * MAX_BYTES, None, "characters"),
}


@pytest.mark.parametrize(("text", "line", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_document_is_refused_with_its_place(text: str, line: int | None, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        read_yaml(text, "f.yaml")
    assert caught.value.where is not None
    assert (caught.value.where.file, caught.value.where.line) == ("f.yaml", line)


@pytest.mark.parametrize("shape", ["[*{0}, *{0}, *{0}, *{0}, *{0}, *{0}, *{0}, *{0}, *{0}]", "{{x: *{0}, y: *{0}}}"])
def test_alias_bomb_is_refused_before_it_grows(shape: str) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = ["a: &a [lol, lol]"]
    lines += [f"{name}: &{name} {shape.format(before)}" for before, name in pairwise(letters)]
    started = time.process_time()
    with pytest.raises(SpecError, match="too many values, or nests too deeply"):
        read_yaml("\n".join(lines), "bomb.yaml")
    assert time.process_time() - started < 10


def test_reading_methods_say_what_was_expected_and_where() -> None:
    root = read_yaml("text: ''\nnumber: true\nlist: 3\nmap: [1]\nbig: 9\nnothing:\n", "f.yaml").mapping()
    cases: list[tuple[Callable[[], object], str, int]] = [
        (root["text"].text, "expected text, found ''", 1),
        (root["number"].integer, "expected a whole number, found True", 2),
        (lambda: root["number"].quantity(Unit.BYTES), "expected a number with a unit, found True", 2),
        (root["list"].items, "expected a list, found 3", 3),
        (root["map"].mapping, "expected 'key: value' lines, found a list", 4),
        (lambda: root["big"].integer(low=1, high=8), "9 is out of range", 5),
        (root["nothing"].text, "expected text, found nothing", 6),
    ]
    for read, message, line in cases:
        with pytest.raises(SpecError, match=re.escape(message)) as caught:
            read()
        assert caught.value.where is not None
        assert caught.value.where.line == line


def test_unknown_and_missing_keys_are_named() -> None:
    root = read_yaml("name: m\nparamters: {}\n", "f.yaml")
    with pytest.raises(SpecError, match="unknown key 'paramters'") as caught:
        root.fields(required=("name",), optional=("parameters",))
    assert caught.value.hint == "did you mean 'parameters'?"
    assert caught.value.where == Where("f.yaml", 2, "paramters")
    with pytest.raises(SpecError, match="the key 'schema' is missing"):
        root.fields(required=("schema",), optional=("name", "paramters"))


def test_key_that_is_not_text_is_refused_where_keys_are_names() -> None:
    with pytest.raises(SpecError, match="the key True is not text") as caught:
        read_yaml("a:\n  yes: 1\n", "f.yaml").mapping()["a"].mapping()
    assert caught.value.hint == "write it in quotes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x", "the key 'schema' is missing"),
        ("schema: cosmic-opt/model@1", "this is a 'cosmic-opt/model@1' file"),
        ("schema: cosmic-opt/instance@2", "this is a 'cosmic-opt/instance@2' file"),
        ("schema: [1]", "expected text, found a list"),
        ("- schema", "expected 'key: value' lines, found a list"),
    ],
)
def test_wrong_schema_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        expect_schema(read_yaml(text, "f.yaml"), "instance")


_PIECES = ["a", "b: ", "- ", "\n", "  ", "[", "]", "{", "}", ",", "&x ", "*x", "!!int ", "<<: ", "? ", "|\n"]
_PIECES += ["'", '"', "#", "1", "~", ": "]


def refusal(text: str) -> SpecError | None:
    try:
        read_yaml(text, "f.yaml")
    except SpecError as error:
        return error
    return None


@settings(derandomize=True, deadline=None, max_examples=500)
@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(_PIECES), max_size=25).map("".join)))
def test_any_text_is_a_document_or_a_spec_error_in_the_file(text: str) -> None:
    error = refusal(text)
    assert error is None or str(error).startswith("f.yaml:")
