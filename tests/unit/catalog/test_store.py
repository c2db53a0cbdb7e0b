"""Names become files; files that cannot be read are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.bind import bind
from cosmic_opt.catalog.edits import Edits, parse_edits
from cosmic_opt.catalog.instance_file import load_instance, read_instance
from cosmic_opt.catalog.store import (
    MAX_FILE_BYTES,
    data_root,
    display,
    instance_names,
    instance_path,
    model_names,
    read_document,
    read_text,
    shared_names,
)
from cosmic_opt.errors import CosmicError, SpecError
from tests.unit.catalog.files import FILES, bound, write


def test_shipped_names_are_those_of_the_files() -> None:
    assert "cosmic/gpt3-175b-system2" in instance_names()
    assert not any(name.startswith("_") for name in instance_names())
    assert set(model_names()) >= {"cosmic", "training"}
    assert "libra" in shared_names("prices")
    assert instance_path("cosmic/table1-1024") == data_root() / "instances/cosmic/table1-1024.yaml"


@pytest.mark.parametrize("name", instance_names())
def test_shipped_instance_binds_and_says_where_its_numbers_come_from(name: str) -> None:
    assert bound(name).name == name
    assert "source:" in read_text(instance_path(name))


@pytest.mark.parametrize("kind", ["devices", "systems", "workloads", "prices"])
def test_every_shared_part_says_where_its_numbers_come_from(kind: str) -> None:
    for name in shared_names(kind):
        text = read_text(data_root() / "instances" / f"_{kind}" / f"{name}.yaml")
        assert "source:" in text, name
        assert f"name: {name}" in text


def test_shipped_file_is_shown_by_its_place_in_the_data_folder(tmp_path: Path) -> None:
    assert display(instance_path("cosmic/table1-1024")) == "instances/cosmic/table1-1024.yaml"
    assert display(tmp_path / "x.yaml") == str(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("cosmic/gpt3-175b-sytem2", "unknown instance 'cosmic/gpt3-175b-sytem2'", "did you mean 'cosmic/gpt3-175b-s"),
        ("gone.yaml", "there is no file 'gone.yaml'", None),
        ("", "unknown instance ''", "known, nearest first: "),
        (".", "unknown instance '.'", "known, nearest first: "),
        ("a\0b.yaml", "there is no file", None),
        ("a" * 5000 + ".yaml", "there is no file", None),
        ("a" * 5000, "unknown instance", None),
        ("_systems/cosmic-system2", "unknown instance '_systems/cosmic-system2'", None),
        ("../models/cosmic", "unknown instance '../models/cosmic'", None),
    ],
)
def test_name_without_a_file_is_refused(name: str, message: str, hint: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        load_instance(name)
    assert message in str(caught.value)
    assert hint is None or str(caught.value.hint).startswith(hint)


def folder(path: Path) -> None:
    path.mkdir()


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (folder, "there is no file"),
    "binary": (lambda path: path.write_bytes(b"\xff\xfe\x00\x81"), "the file is not UTF-8 text"),
    "latin-1": (lambda path: path.write_bytes("name: größe".encode("latin-1")), "the file is not UTF-8 text"),
    "empty": (lambda path: path.write_text(""), "the file is empty"),
    "too large": (lambda path: path.write_text(" " * (MAX_FILE_BYTES + 1)), "the file has 8,000,001 bytes"),
    "UTF-16": (lambda path: path.write_text("name: x", encoding="utf-16"), "the file is not UTF-8 text"),
}


@pytest.mark.parametrize(("make", "message"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable_file_is_refused_by_name(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "own.yaml"
    make(path)
    with pytest.raises(SpecError, match=message) as caught:
        load_instance(str(path))
    assert str(path) in str(caught.value)


def test_a_mark_at_the_start_of_a_text_file_is_no_fault(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert bound(path).name == "instance"


# --- edits ----------------------------------------------------------------------------------------------------


def test_edits_are_read_as_the_command_line_spells_them() -> None:
    edits = parse_edits(set_=["a = 1 GB"], fix=["b=2"], free=["c,d", "e"], without=["f, g"], scope="s", objective="o")
    assert edits == Edits((("a", "1 GB"),), (("b", "2"),), ("c", "d", "e"), (), ("f", "g"), "s", "o")


def test_later_edits_come_after_earlier_ones() -> None:
    first = Edits(fix=(("tp", "1"),), scope="workload", objective="throughput")
    both = first.then(Edits(fix=(("tp", "2"),), scope="network"))
    assert (both.fix, both.scope, both.objective) == ((("tp", "1"), ("tp", "2")), "network", "throughput")


# --- any change of any file -----------------------------------------------------------------------------------


@settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from(sorted(FILES)), st.floats(0, 1), st.integers(0, 20), st.text(max_size=8))
def test_any_change_of_a_file_binds_or_is_refused(
    tmp_path: Path, file: str, start: float, length: int, new: str
) -> None:
    path = write(tmp_path)
    text = FILES[file]
    at = int(start * len(text))
    (tmp_path / file).write_text(text[:at] + new + text[at + length :], encoding="utf-8")
    assert refusal(path) != "nowhere"


_LINES = [line for text in FILES.values() for line in text.splitlines(keepends=True)]


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(_LINES), max_size=12).map("".join))
def test_any_lines_are_an_instance_or_refused(text: str) -> None:
    with suppress(CosmicError):
        bind(read_instance("schema: cosmic-opt/instance@1\nmodel: cosmic\n" + text, Path("own.yaml")))


def refusal(path: Path) -> str:
    """Return the file that an error blames, "nowhere" if none; "" when the instance binds."""
    try:
        bound(path)
    except CosmicError as error:
        return (error.where.file if error.where else None) or "nowhere"
    return ""


def test_a_document_is_of_the_kind_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("schema: cosmic-opt/stack@1\nname: own\n", encoding="utf-8")
    assert read_document(file, "stack").mapping()["name"].text() == "own"
    with pytest.raises(SpecError, match="stack@1") as caught:
        read_document(file, "engine")
    assert str(file) in str(caught.value)
    with pytest.raises(SpecError, match="cannot read the file"):
        read_document(tmp_path / "gone.yaml", "stack")


def test_names_of_shipped_files_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = shared_names("devices")
    monkeypatch.setattr(Path, "rglob", None)
    again = shared_names("devices")
    assert again == names
    again.clear()
    assert shared_names("devices") == names
