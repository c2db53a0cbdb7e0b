"""`enumerate` and `sample`: every line is a feasible design, files appear whole or not at all."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.cli import files
from tests.unit.cli.running import Done, run

LLAMA = "llama3-405b/h100-16k"


def lines(done: Done) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_enumerate_prints_each_design_once() -> None:
    done = run("enumerate", LLAMA)
    designs = [json.dumps(design) for design in lines(done)]
    assert len(designs) == len(set(designs)) == run("count", LLAMA, "--json").keys["value"]


def test_families_are_lists_in_base_units() -> None:
    (design,) = lines(run("enumerate", LLAMA, "--limit", "1"))
    assert design["bandwidth"] == [450_000_000_000, 50_000_000_000]
    assert design["topology"] == ["switch", "switch"]
    assert isinstance(design["dp"], int)


def test_limit_is_a_prefix_of_the_whole() -> None:
    assert run("enumerate", LLAMA).out.startswith(run("enumerate", LLAMA, "--limit", "7").out.rstrip())


def test_the_same_seed_gives_the_same_sample_and_another_seed_another() -> None:
    first = run("sample", LLAMA, "-n", "20", "--seed", "3")
    assert first.out == run("sample", LLAMA, "--number", "20", "--seed", "3").out
    assert first.out != run("sample", LLAMA, "-n", "20", "--seed", "4").out
    assert "seed 3" in first.err


def test_every_sample_obeys_the_rules() -> None:
    for design in lines(run("sample", LLAMA, "-n", "50")):
        assert design["dp"] * design["sp"] * design["tp"] * design["pp"] == 16384  # type: ignore[operator]
        assert 8 % design["tp"] == 0  # type: ignore[operator]


def test_distinct_beyond_the_whole_gives_the_whole() -> None:
    done = run("sample", LLAMA, "-n", "5000", "--distinct")
    assert len({json.dumps(design) for design in lines(done)}) == len(lines(done)) == 968
    assert "only 968 of 5,000" in done.err


def test_a_rule_on_the_step_filters_and_is_said() -> None:
    done = run("enumerate", LLAMA, "--require", "step_time <= 6 s")
    assert 0 < len(lines(done)) < 968
    assert "filtered by simulation: step_time <= 6 s" in done.err
    quiet = run("enumerate", LLAMA, "--require", "step_time <= 6 s", "--quiet")
    assert (quiet.out, quiet.err) == (done.out, "")


def test_distinct_samples_under_a_rule_on_the_step_are_distinct() -> None:
    found = lines(run("sample", LLAMA, "-n", "30", "--distinct", "--require", "step_time <= 6 s"))
    assert len({json.dumps(design) for design in found}) == 30


@pytest.mark.parametrize(("command", "code"), [("enumerate", 3), ("sample", 4)])
def test_a_step_no_design_reaches_is_proved_by_enumeration_only(command: str, code: int) -> None:
    done = run(command, LLAMA, "--require", "step_time <= 1 ms")
    assert (done.code, done.out) == (code, "")
    assert "simulated" in done.err


def test_no_feasible_design_is_explained_and_ends_with_three() -> None:
    done = run("enumerate", LLAMA, "--fix", "tp=16")
    assert (done.code, done.out) == (3, "")
    assert "whole_kv_heads" in done.err


def test_csv_and_jsonl_hold_the_same_designs(tmp_path: Path) -> None:
    table, rows = tmp_path / "a.csv", tmp_path / "a.jsonl"
    assert run("enumerate", LLAMA, "--out", str(table)).out == f"968 designs in {table}\n"
    keys = run("enumerate", LLAMA, "--out", str(rows), "--json").keys
    assert (keys["designs"], keys["schema"]) == (968, "cosmic-opt/enumerate@1")
    with table.open(newline="") as file:
        flat = list(csv.DictReader(file))
    whole = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["bandwidth[1]"] for row in flat] == [str(design["bandwidth"][1]) for design in whole]
    assert [row["dp"] for row in flat] == [str(design["dp"]) for design in whole]


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    out.write_text("mine")
    refused = run("enumerate", LLAMA, "--out", str(out))
    assert (refused.code, out.read_text()) == (2, "mine")
    assert "--force" in refused.err
    assert run("enumerate", LLAMA, "--out", str(out), "--force").code == 0
    assert out.read_text().startswith("dp,sp,tp,pp")


def test_a_failure_while_writing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    done = run("enumerate", LLAMA, "--out", str(tmp_path / "a.csv"))
    assert done.code == 2
    assert "No space left" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.txt", "a", ".csv.gz", "nowhere/a.csv", ""])
def test_a_target_that_cannot_be_is_refused_before_any_work(name: str, tmp_path: Path) -> None:
    done = run("enumerate", LLAMA, "--out", str(tmp_path / name))
    assert done.code == 2
    assert "hint:" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    done = run("enumerate", LLAMA, "--out", "/proc/a.csv")
    assert (done.code, done.out) == (2, "")
    assert "cannot write" in done.err


def test_ten_billion_designs_are_not_written_by_accident(tmp_path: Path) -> None:
    done = run("enumerate", "cosmic/table1-1024", "--out", str(tmp_path / "a.csv"))
    assert done.code == 4
    assert "--limit" in done.err


def test_samples_match_the_python_front_door() -> None:
    batch = Problem.load(LLAMA).sample(5, seed=9, distinct=True)
    found = lines(run("sample", LLAMA, "-n", "5", "--seed", "9", "--distinct"))
    assert [point["dp"] for point in batch.points()] == [design["dp"] for design in found]
