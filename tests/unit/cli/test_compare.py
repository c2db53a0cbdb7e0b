from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.running import Done, run

NAME = "cosmic/gpt3-13b-system1"


@pytest.fixture
def designs(tmp_path: Path) -> list[Path]:
    lines = run("sample", NAME, "--number", "2", "--seed", "3").out.splitlines()
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path, line in zip(paths, lines, strict=True):
        path.write_text(line)
    return paths


def test_designs_are_scored_as_simulate_scores_them(designs: list[Path]) -> None:
    done = run("compare", NAME, "--design", str(designs[0]), "--design", str(designs[1]), "--json")
    assert done.code == 0
    for path, one in zip(designs, done.keys["designs"], strict=True):
        alone = run("simulate", NAME, "--design", str(path), "--json").keys
        assert one["name"] == path.stem
        assert one["metrics"] == alone["metrics"]
        assert one["breakdown"] == alone["breakdown"]
        assert one["design"] == json.loads(path.read_text())


def test_the_knobs_that_differ_are_named(designs: list[Path]) -> None:
    left, right = (json.loads(path.read_text()) for path in designs)
    keys = run("compare", NAME, "--design", str(designs[0]), "--design", str(designs[1]), "--json").keys
    scalars = {name for name in left if not isinstance(left[name], list) and left[name] != right[name]}
    members = {
        f"{name}[{i}]"
        for name in left
        if isinstance(left[name], list)
        for i, (a, b) in enumerate(zip(left[name], right[name], strict=True))
        if a != b
    }
    assert set(keys["differing"]) == scalars | members


def test_one_design_is_compared_with_the_instance_s_own(designs: list[Path]) -> None:
    done = run("compare", NAME, "--design", str(designs[0]))
    assert done.code == 0
    assert "own design" in done.out
    assert "knobs that differ" in done.out


def piped(content: bytes, *arguments: str) -> Done:
    """Run `compare` with a design from a pipe, as `--design <(command)` gives it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
        os.close(writer)
        return run("compare", NAME, "--design", f"/dev/fd/{reader}", *arguments)
    finally:
        os.close(reader)


def test_a_design_from_a_pipe_is_that_of_the_file(designs: list[Path]) -> None:
    there = run("compare", NAME, "--design", str(designs[0]), "--json").keys
    here = piped(designs[0].read_bytes(), "--json").keys
    assert [each["design"] for each in here["designs"]] == [each["design"] for each in there["designs"]]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]", b"dp: 1\x00"])
def test_a_pipe_without_a_design_is_refused_with_a_hint(content: bytes) -> None:
    done = piped(content)
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


def test_a_device_is_to_be_saved_to_a_file() -> None:
    done = run("compare", NAME, "--design", "/dev/null")
    assert "is not a regular file\n  hint: save what it gives to a file" in done.err


def test_a_design_and_itself_differ_in_nothing(designs: list[Path]) -> None:
    done = run("compare", NAME, "--design", str(designs[0]), "--design", str(designs[0]))
    assert "every knob is the same" in done.out


def test_a_design_that_breaks_a_rule_is_refused_by_name(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"dp": 512, "tp": 4, "sp": 1}')
    done = run("compare", NAME, "--design", str(bad))
    assert done.code == 3
    assert "bad" in done.err
    assert "world_size" in done.err


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "dp", '{"dpp": 4}', '{"dp": "many"}', '{"dp": -4}', '{"dp": 4, "dp": 8}', '{"bandwidth": [1]}'],
)
def test_a_file_that_is_no_design_is_refused_with_a_hint(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    done = run("compare", NAME, "--design", str(path))
    assert done.code == 2
    assert "hint:" in done.err


@pytest.mark.parametrize(
    "arguments", [(), ("--design", ""), ("--design", "/none.json"), ("--design", "/"), ("--design", "x") * 9]
)
def test_hostile_options_are_refused_with_a_hint(arguments: tuple[str, ...]) -> None:
    done = run("compare", NAME, *arguments)
    assert done.code == 2
    assert "hint:" in done.err


def test_an_own_design_that_does_not_run_asks_for_the_other_one(designs: list[Path]) -> None:
    done = run("compare", NAME, "--set", "npus=1024", "--design", str(designs[0]))
    assert done.code == 3
    assert "give the other one, too, --design A.json --design B.json" in done.err
    assert "--without world_size" not in done.err
