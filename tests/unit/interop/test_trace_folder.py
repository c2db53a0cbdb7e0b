"""Traced workloads in folders and archives: read whole, or refused with a hint."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, LimitError, SpecError
from cosmic_opt.interop import read_workload, trace_folder, write_workload
from cosmic_opt.simulation.replay import WORKLOAD_READERS, Kind, Operation, TraceWorkload

SUM = Operation(id=1, kind=Kind.COLLECTIVE, collective="all_reduce", size_bytes=64, group="1")
WORKLOAD = TraceWorkload(((SUM,), (SUM,), ()), {"1": (0, 1)})


def archive(folder: Path, ending: str = ".tar.xz", mode: str = "w:xz") -> Path:
    write_workload(folder / "w", WORKLOAD)
    path = folder / f"w{ending}"
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        tar.add(folder / "w", arcname="w")
    return path


def test_a_folder_is_written_and_read_back(tmp_path: Path) -> None:
    write_workload(tmp_path / "w", WORKLOAD, "job")
    assert {file.name for file in (tmp_path / "w").iterdir()} == {
        "comm_groups.json",
        *(f"job.{rank}.et" for rank in range(3)),
    }
    assert read_workload(tmp_path / "w") == WORKLOAD


@pytest.mark.parametrize(("ending", "mode"), [(".tar.xz", "w:xz"), (".tar.gz", "w:gz"), (".tar", "w")])
def test_an_archive_is_read_without_unpacking_it(tmp_path: Path, ending: str, mode: str) -> None:
    path = archive(tmp_path, ending, mode)
    before = sorted(tmp_path.rglob("*"))
    assert read_workload(path) == WORKLOAD
    assert sorted(tmp_path.rglob("*")) == before


def test_the_reader_is_registered_for_those_below() -> None:
    assert WORKLOAD_READERS.get("chakra") is read_workload


def test_other_files_beside_the_traces_are_passed_over(tmp_path: Path) -> None:
    write_workload(tmp_path / "w", WORKLOAD)
    (tmp_path / "w" / "README").write_text("notes")
    assert read_workload(tmp_path / "w") == WORKLOAD


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SpecError, match="not empty"):
        write_workload(tmp_path, WORKLOAD)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="cannot be written"):
        write_workload(tmp_path / "file" / "w", WORKLOAD)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "there are 0 traces"),
        (["w.1.et"], r"there are 1 traces, which are not NAME\.0\.et to NAME\.0\.et"),
        (["w.0.et", "w.2.et"], "there are 2 traces"),
        (["w.0.et", "v.0.et"], "a second trace of NPU 0"),
    ],
)
def test_missing_and_doubled_traces_are_refused(tmp_path: Path, names: list[str], reason: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"\0")
    with pytest.raises(SpecError, match=reason):
        read_workload(tmp_path)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ("[", "not JSON"),
        ("[]", "expected 'key: value'"),
        ('{"1": 3}', "expected a list"),
        ('{"1": [0, 0]}', "twice"),
        ('{"1": []}', "empty"),
        ('{"1": [7]}', "out of range"),
        ('{"1": [0], "1": [1]}', "the key '1' appears twice"),
        ('{"1": [0.5]}', "whole number"),
        ("[" * 10_000, "not JSON"),
    ],
)
def test_bad_communicator_groups_are_refused_by_file(tmp_path: Path, groups: str, reason: str) -> None:
    write_workload(tmp_path / "w", WORKLOAD)
    (tmp_path / "w" / "comm_groups.json").write_text(groups)
    with pytest.raises(SpecError, match=reason) as caught:
        read_workload(tmp_path / "w")
    assert "comm_groups.json" in str(caught.value)


def test_a_trace_in_an_archive_is_refused_by_its_name_there(tmp_path: Path) -> None:
    path = tmp_path / "w.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("w/w.0.et")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"\x05a"))
    with pytest.raises(SpecError, match=r"w\.tar/w/w\.0\.et: byte 1: a message of 5 bytes ends after 1"):
        read_workload(path)


@pytest.mark.parametrize("name", ["nowhere", "w.txt"])
def test_what_is_no_folder_or_archive_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "w.txt").write_text("no archive")
    with pytest.raises(SpecError) as caught:
        read_workload(tmp_path / name)
    assert caught.value.hint


def outcome(path: Path) -> TraceWorkload | CosmicError:
    try:
        return read_workload(path)
    except CosmicError as error:
        return error


def test_an_archive_cut_off_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    data = archive(tmp_path).read_bytes()
    cut = tmp_path / "cut.tar.xz"
    for length in range(0, len(data), 3):
        cut.write_bytes(data[:length])
        result = outcome(cut)
        assert isinstance(result, CosmicError) or result == WORKLOAD


@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_damaged_archive_does_no_harm(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    content = bytearray(archive(folder, ".tar", "w").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 3000))] ^= 1 << data.draw(st.integers(0, 7))
    for name, damaged in (("d.tar", bytes(content)), ("d.tar.xz", lzma.compress(bytes(content)))):
        (folder / name).write_bytes(damaged)
        result = outcome(folder / name)
        assert isinstance(result, TraceWorkload) or result.hint


def test_too_large_a_workload_is_refused_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_workload(tmp_path / "w", WORKLOAD)
    monkeypatch.setattr(trace_folder, "MOST_OPERATIONS", 1)
    with pytest.raises(LimitError, match="too large"):
        read_workload(tmp_path / "w")


def test_too_long_a_file_of_groups_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_workload(tmp_path / "w", WORKLOAD)
    monkeypatch.setattr(trace_folder, "MOST_GROUP_BYTES", 5)
    with pytest.raises(LimitError, match="too long"):
        read_workload(tmp_path / "w")


def test_a_group_file_is_read_in_its_order(tmp_path: Path) -> None:
    write_workload(tmp_path / "w", WORKLOAD)
    (tmp_path / "w" / "comm_groups.json").write_text(json.dumps({"1": [2, 0], "2": [1]}))
    assert read_workload(tmp_path / "w").groups == {"1": (2, 0), "2": (1,)}
