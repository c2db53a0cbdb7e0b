"""Hostile input on every problem command: always 2, 3 or 4, always with a hint, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.running import run

TABLE1 = "cosmic/table1-1024"
COMMANDS = (("validate",), ("count",), ("enumerate", "--limit", "1"), ("sample",), ("simulate",), ("solve", "--quiet"))

NAMES = ("", "nowhere", "cosmic/table1", ".", "/", "nowhere.yaml", "x" * 5000, "x" * 900 + ".yaml", "a\0b", "~", "-")

OPTIONS = (
    ("--fix", "tp=-1"),
    ("--fix", "tp=nan"),
    ("--fix", "tp=1e99"),
    ("--fix", "tp="),
    ("--fix", "=8"),
    ("--fix", "tp"),
    ("--fix", "tpp=8"),
    ("--fix", "tp=7"),
    ("--fix", "tp[0]=8"),
    ("--fix", "bandwidth=50 GiB/s"),
    ("--fix", "bandwidth=50 GB"),
    ("--fix", "bandwidth[9]=50 GB/s"),
    ("--fix", "bandwidth[-1]=50 GB/s"),
    ("--fix", "topology=rng"),
    ("--set", "memory_capacity=-1 GB"),
    ("--set", "memory_capacity=0"),
    ("--set", "memory_capacity=1e60 GB"),
    ("--set", "memory_capacity=80 GB/s"),
    ("--set", "npus=0"),
    ("--set", "npus=1.5"),
    ("--set", "npus=7"),
    ("--set", "npus=1"),
    ("--set", "latency=5"),
    ("--set", "latency=-5 ns"),
    ("--set", "nothing=1"),
    ("--set", "tp=8"),
    ("--set", "hidden=1000000000"),
    ("--require", ""),
    ("--require", "tp =< 8"),
    ("--require", "tp / 2 == 1"),
    ("--require", "tp == 8.5"),
    ("--require", "tp"),
    ("--require", "step_time"),
    ("--require", "tp % 0 == 1"),
    ("--require", "(" * 3000),
    ("--require", "tp == ring"),
    ("--require", "memory_per_npu_cosmic <= 24"),
    ("--require", "nothing <= 3"),
    ("--without", "nothing"),
    ("--without", ""),
    ("--scope", "nothing"),
    ("--scope", ""),
    ("--objective", "nothing"),
    ("--objective", ""),
    ("--free", "nothing"),
    ("--free", ""),
    ("--seed", "-1"),
    ("--seed", "x"),
    ("--seed", "1.5"),
    ("--jsn",),
    ("extra",),
)


def refused(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code in (2, 3, 4), (arguments, done)
    said = done.out + done.err
    assert "hint:" in said or "warning:" in said or "refused" in said, (arguments, done)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12].replace("\0", "0") or "empty")
def test_a_name_that_means_nothing_is_refused(command: tuple[str, ...], name: str) -> None:
    refused((*command, name))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options)[:30])
def test_an_option_that_means_nothing_is_refused(command: tuple[str, ...], options: tuple[str, ...]) -> None:
    refused((*command, TABLE1, *options))


HEAD = "schema: cosmic-opt/instance@1\nmodel: cosmic\nworkload: gpt3-13b\nsystem: cosmic-system1\n"
FILES = {
    "empty": b"",
    "bytes": b"\xff\xfe\x00\x01",
    "no schema": b"model: cosmic\n",
    "other schema": b"schema: cosmic-opt/device@1\n",
    "future schema": b"schema: cosmic-opt/instance@2\n",
    "list": b"[1, 2]\n",
    "tabs": b"schema:\n\tx\n",
    "misspelt key": (HEAD + "jobb: {global_batch: 8}\n").encode(),
    "no batch": (HEAD + "job: {kind: training}\n").encode(),
    "unknown model": b"schema: cosmic-opt/instance@1\nmodel: x\nworkload: gpt3-13b\nsystem: cosmic-system1\njob: {}\n",
    "alias": b"schema: &a cosmic-opt/instance@1\nmodel: *a\n",
    "twice": (HEAD + "model: cosmic\njob: {global_batch: 8}\n").encode(),
    "negative": (HEAD + "job: {global_batch: -8}\n").encode(),
    "nan": (HEAD + "job: {global_batch: .nan}\n").encode(),
    "unit": (HEAD + "job: {global_batch: 8 GB}\n").encode(),
    "deep": b"schema: " + b"[" * 5000 + b"\n",
    "long": b"schema: " + b"x" * 9_000_000,
    "rule": (HEAD + "job: {global_batch: 8}\nconstraints: {a: {rule: tp ==}}\n").encode(),
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_means_nothing_is_refused(command: tuple[str, ...], name: str, tmp_path: Path) -> None:
    file = tmp_path / "instance.yaml"
    file.write_bytes(FILES[name])
    refused((*command, str(file)))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_folder_in_place_of_a_file_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "instance.yaml").mkdir()
    refused((*command, str(tmp_path / "instance.yaml")))
    refused((*command, str(tmp_path)))
