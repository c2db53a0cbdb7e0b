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


def full(file: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_failure_while_sampling_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "fsync", full)
    done = run("sample", LLAMA, "--out", str(tmp_path / "a.csv"))
    assert done.code == 2
    assert "No space left" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_enumerating_keeps_what_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.csv"
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        done = run("enumerate", LLAMA, "--out", str(out))
    assert done.code == 2
    assert "No space left" in done.err
    assert "--resume" in done.err
    assert not out.exists()
    assert run("enumerate", LLAMA, "--out", str(out), "--resume").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert len(out.read_text().splitlines()) == 969


@pytest.mark.parametrize("name", ["a.txt", "a", "a.parquett", "a.json", ".csv.gz", "nowhere/a.csv", ""])
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


# --- metrics beside designs -----------------------------------------------------------------------------------------


def test_metrics_stand_beside_designs_as_simulate_gives_them(tmp_path: Path) -> None:
    names = "step_time,memory_per_npu,network_cost,total_bandwidth,model_flop_fraction,micro_batches,optimizer"
    for design in lines(run("sample", LLAMA, "-n", "3", "--with", names)):
        file = tmp_path / "design.json"
        file.write_text(json.dumps(design))
        keys = run("simulate", LLAMA, "--design", str(file), "--json").keys
        score = keys["metrics"] | keys["breakdown"]
        added = {name: value for name, value in design.items() if name not in keys["design"]}
        assert added == {name: score[name] for name in added}
        assert len(added) == 7


def test_every_metric_of_simulate_can_be_asked_for() -> None:
    keys = run("simulate", LLAMA, "--json").keys
    names = [*keys["metrics"], *keys["breakdown"], *keys["hidden"]]
    names.remove("memory_capacity_bytes")  # the same for every design
    (design,) = lines(run("sample", LLAMA, "--with", ",".join(names)))
    assert set(names) <= set(design)


def test_a_design_that_cannot_run_has_null_times(tmp_path: Path) -> None:
    """Halving and doubling needs a power of two: without its rule, twelve NPUs cannot run it."""
    done = run("enumerate", TABLE1, *UNRUNNABLE, "--with", "step_time,memory_per_npu_cosmic")
    found = lines(done)
    assert {design["step_time_s"] is None for design in found} == {True, False}
    assert all(isinstance(design["memory_cosmic_bytes"], int) for design in found)
    out = tmp_path / "a.csv"
    assert run("enumerate", TABLE1, *UNRUNNABLE, "--with", "step_time", "--out", str(out)).code == 0
    with out.open(newline="") as file:
        shown = [row["step_time_s"] for row in csv.DictReader(file)]
    assert [text == "" for text in shown] == [design["step_time_s"] is None for design in found]
