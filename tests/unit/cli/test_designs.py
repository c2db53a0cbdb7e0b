"""`enumerate` and `sample`: every line is a feasible design, files appear whole or not at all."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.cli import designs, files
from cosmic_opt.reporting.line_file import Position
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


def test_resuming_with_a_limit_below_what_is_there_says_so_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.csv"
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        assert run("enumerate", LLAMA, "--out", str(out), "--limit", "500").code == 2
    done = run("enumerate", LLAMA, "--out", str(out), "--resume", "--limit", "100")
    assert done.code == 0
    assert f"{out} already held 500 designs, more than --limit 100: all of them are kept, and none is added" in done.err
    assert len(out.read_text().splitlines()) == 501


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
    plain = lines(run("sample", LLAMA, "-n", "3"))
    for design, measured in zip(plain, lines(run("sample", LLAMA, "-n", "3", "--with", names)), strict=True):
        file = tmp_path / "design.json"
        file.write_text(json.dumps(design))
        keys = run("simulate", LLAMA, "--design", str(file), "--json").keys
        score = keys["metrics"] | keys["breakdown"]
        added = {name: value for name, value in measured.items() if name not in design}
        assert added == {name: score[name] for name in added}
        assert len(added) == 7


def test_every_metric_of_simulate_can_be_asked_for() -> None:
    keys = run("simulate", LLAMA, "--json").keys
    names = [*keys["metrics"], *keys["breakdown"], *keys["hidden"]]
    names.remove("memory_capacity_bytes")  # the same for every design
    (design,) = lines(run("sample", LLAMA, "--with", ",".join(names)))
    assert set(names) <= set(design)


def test_a_design_that_cannot_run_has_null_times(tmp_path: Path) -> None:
    """Without the rule of the world size, most degrees do not fill the network."""
    asked = ("sample", LLAMA, "--without", "world_size", "-n", "500", "--with", "step_time,memory_per_npu")
    found = lines(run(*asked))
    assert {design["step_time_s"] is None for design in found} == {True, False}
    assert all(isinstance(design["memory_bytes"], int) for design in found)
    table, store = tmp_path / "a.csv", tmp_path / "a.parquet"
    assert run(*asked, "--out", str(table)).code == run(*asked, "--out", str(store)).code == 0
    with table.open(newline="") as file:
        assert [row["step_time_s"] == "" for row in csv.DictReader(file)] == [d["step_time_s"] is None for d in found]
    stored = parquet.read_table(store).to_pylist()
    assert [row["step_time_s"] for row in stored] == [design["step_time_s"] for design in found]
    assert [row["dp"] for row in stored] == [design["dp"] for design in found]


# --- going on -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_files_that_go_on_after_a_token_add_up_to_the_whole(suffix: str, tmp_path: Path) -> None:
    whole, first, second = (tmp_path / f"{name}{suffix}" for name in ("whole", "first", "second"))
    assert run("enumerate", LLAMA, "--out", str(whole)).code == 0
    keys = run("enumerate", LLAMA, "--out", str(first), "--limit", "100", "--json").keys
    assert keys["designs"] == 100
    last = run("enumerate", LLAMA, "--out", str(second), "--resume-after", keys["resume_after"], "--json").keys
    assert (last["designs"], last["resume_after"]) == (868, None)
    lines_of = [path.read_text().splitlines() for path in (whole, first, second)]
    header = int(suffix == ".csv")
    assert lines_of[0] == lines_of[1] + lines_of[2][header:]


def test_a_token_of_a_filtered_run_goes_on_after_its_last_design() -> None:
    rule = ("--require", "step_time <= 6 s")
    whole = run("enumerate", LLAMA, *rule).out.splitlines()
    first = run("enumerate", LLAMA, *rule, "--limit", "7")
    token = first.err.rsplit(maxsplit=1)[-1]
    rest = run("enumerate", LLAMA, *rule, "--resume-after", token)
    assert first.out.splitlines() + rest.out.splitlines() == whole


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_stopped_file_goes_on_after_its_last_whole_block(suffix: str, tmp_path: Path) -> None:
    """Stopped by hand: three blocks written down, a fourth half written."""
    problem = Problem.load(LLAMA)
    source, out = problem.designs("step_time"), tmp_path / f"a{suffix}"
    asked = ("enumerate", LLAMA, "--with", "step_time", "--out", str(out))
    assert run(*asked).code == 0
    expected = out.read_text()
    out.unlink()
    sink = designs._sink(source, out, 0)
    assert sink.open(resume=False) == Position(0, 0, 0, 0)
    for at, block in enumerate(source.blocks(0, 300, 100)):
        sink.add(block, 100 * at)
    with (tmp_path / f".a{suffix}.part").open("a") as file:
        file.write('{"dp": 8, "sp"')
    assert run(*asked, "--resume").code == 0
    assert out.read_text() == expected
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


HOSTILE: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown metric": (("enumerate", "--with", "step_tme"), "did you mean 'step_time'"),
    "unknown metric of a sample": (("sample", "--with", "memory"), "unknown metric"),
    "no metric": (("sample", "--with", ""), "a name is empty"),
    "an empty name": (("enumerate", "--with", "step_time,,memory_per_npu"), "a name is empty"),
    "a metric twice": (("enumerate", "--with", "step_time,step_time_s"), "asked for twice"),
    "a parameter as a metric": (("enumerate", "--with", "tp"), "unknown metric 'tp'"),
    "no limit": (("enumerate", "--limit", "0"), "--limit"),
    "a negative limit": (("enumerate", "--limit", "-5"), "--limit"),
    "a limit that is no number": (("enumerate", "--limit", "many"), "--limit"),
    "an empty token": (("enumerate", "--resume-after", ""), "not a token"),
    "a token of letters": (("enumerate", "--resume-after", "abc-def"), "not a token"),
    "a token of foreign digits": (("enumerate", "--resume-after", "\u0665-abc"), "not a token"),
    "an endless token": (("enumerate", "--resume-after", "9" * 100_000 + "-abc"), "not a token"),
    "a token of another problem": (("enumerate", "--resume-after", "5-0123456789abcdef"), "another problem"),
    "a misspelt extension": (("enumerate", "--out", "a.parqet"), "no known format"),
    "a folder nobody may write": (("enumerate", "--out", "/proc/a.parquet"), "cannot use"),
    "a file nobody may write": (("enumerate", "--out", "/proc/a.jsonl"), "cannot write"),
    "a sample nobody may write": (("sample", "--out", "/proc/a.parquet"), "cannot write"),
    "no such folder": (("enumerate", "--out", "nowhere/a.parquet"), "no folder"),
    "a name too long": (("enumerate", "--out", "x" * 300 + ".csv"), "cannot"),
    "resume without a file": (("enumerate", "--resume"), "goes on with a file"),
    "no samples": (("sample", "-n", "0"), "--number"),
    "more samples than any": (("sample", "-n", "1000000000000000000000"), "at most"),
    "a foreign folder": (("enumerate", "--out", "foreign.parquet", "--resume"), "cannot use"),
    "an existing folder": (("enumerate", "--out", "foreign.parquet"), "exists"),
    "a folder for a file": (("enumerate", "--out", "folder.csv"), "is a folder"),
    "a state of another problem": (("enumerate", "--out", "other.csv", "--resume"), "another problem"),
    "a state that is none": (("enumerate", "--out", "broken.csv", "--resume"), "not a state of ours"),
    "a part that is gone": (("enumerate", "--out", "gone.csv", "--resume"), "not a state of ours"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_input_is_refused_with_a_hint(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("foreign.parquet", "folder.csv"):
        Path(folder).mkdir()
    Path("foreign.parquet/mine.txt").write_text("mine")
    Path(".broken.csv.state").write_text("not json")
    Path(".gone.csv.state").write_text("[]")
    Path(".other.csv.state").write_text('{"manifest": {}, "rank": "1", "designs": "1", "bytes": 5}')
    before = sorted(path.name for path in tmp_path.rglob("*"))
    (command, *options), words = HOSTILE[case]
    done = run(command, LLAMA, *options)
    assert (done.code, done.out) in ((2, ""), (4, "")), done
    assert words in done.err
    assert "hint:" in done.err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_huge_limit_is_everything() -> None:
    assert len(lines(run("enumerate", LLAMA, "--limit", "9" * 30))) == 968


def test_a_folder_that_is_not_gone_on_with_names_the_rank_after_all_that_it_holds(tmp_path: Path) -> None:
    out = str(tmp_path / "pp.parquet")
    whole = run("enumerate", LLAMA, "--limit", "300", "--out", out, "--json").keys["resume_after"]
    assert whole.startswith("300-")
    kept = run("enumerate", LLAMA, "--limit", "3", "--out", out, "--resume", "--json").keys
    assert (kept["designs"], kept["resume_after"]) == (300, whole)
    after = ("--resume-after", whole.replace("300-", "10-"), "--out", str(tmp_path / "from.parquet"))
    assert run("enumerate", LLAMA, *after, "--limit", "3").code == 0
    assert "--resume-after 13-" in run("enumerate", LLAMA, *after, "--limit", "2", "--resume").err


def test_a_plain_file_named_as_a_folder_is_not_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "plain.parquet"
    out.touch()
    for more in ([], ["--resume"]):
        done = run("enumerate", LLAMA, "--out", str(out), "--limit", "1", *more)
        assert done.code == 2
        assert "is a file, no folder" in done.err
        assert "--resume" not in done.err
