from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet as parquet
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.cli.main import main
from cosmic_opt.errors import SpecError
from cosmic_opt.reporting.design_source import spans
from cosmic_opt.reporting.parquet import PART_DESIGNS, PartFolder, arrow_table

NAME = "cosmic/gpt3-175b-system2"
PROBLEM = Problem.load(NAME)
LIMIT = PART_DESIGNS + 1000


def codes_in(folder: Path) -> np.ndarray:
    """The codes of every design in the folder, in the order of its parts."""
    table = pyarrow.concat_tables(parquet.read_table(part) for part in sorted(folder.glob("part-*")))
    columns = []
    for column in PROBLEM.parameter_set.columns:
        plain = table.column(column.name).cast(
            pyarrow.string() if isinstance(column.values[0], str) else pyarrow.int64()
        )
        codes = pyarrow.compute.index_in(plain, value_set=pyarrow.array(list(column.values)))
        columns.append(codes.to_numpy())
    return np.column_stack(columns)


def test_a_table_holds_the_values_of_the_designs() -> None:
    batch = PROBLEM.sample(50, seed=1)
    assert arrow_table(batch).to_pylist() == list(batch.points())


def test_parts_start_at_multiples_of_their_size() -> None:
    cut = list(spans(5, 2 * PART_DESIGNS + 3, PART_DESIGNS))
    assert cut == [(5, PART_DESIGNS), (PART_DESIGNS, 2 * PART_DESIGNS), (2 * PART_DESIGNS, 2 * PART_DESIGNS + 3)]
    assert list(spans(7, 7, PART_DESIGNS)) == []


def test_the_folder_holds_the_first_designs_in_order(tmp_path: Path) -> None:
    out = tmp_path / "designs.parquet"
    assert main(["enumerate", NAME, "--limit", str(LIMIT), "--out", str(out), "--quiet"]) == 0
    assert np.array_equal(codes_in(out), PROBLEM.feasible.span(0, LIMIT))


def test_a_larger_limit_goes_on_where_the_smaller_one_ended(tmp_path: Path) -> None:
    out = tmp_path / "designs.parquet"
    for limit in (1000, PART_DESIGNS, LIMIT):
        assert main(["enumerate", NAME, "--limit", str(limit), "--out", str(out), "--resume", "--quiet"]) == 0
        assert np.array_equal(codes_in(out), PROBLEM.feasible.span(0, limit))


@pytest.mark.slow
def test_a_run_killed_at_random_moments_and_resumed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    out = tmp_path / "designs.parquet"
    total = 12 * PART_DESIGNS
    command = [
        sys.executable,
        "-m",
        "cosmic_opt.cli",
        "enumerate",
        NAME,
        "--limit",
        str(total),
        "--out",
        str(out),
        "--resume",
    ]
    rng = random.Random(4)
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = len(list(out.glob("part-*"))) + rng.randint(1, 2)
        deadline = time.monotonic() + 60
        while len(list(out.glob("part-*"))) < wanted and process.poll() is None and time.monotonic() < deadline:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait()
    (out / ".part-99.parquet.tmp").write_bytes(b"half written")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert not list(out.glob(".*.tmp"))
    assert np.array_equal(codes_in(out), PROBLEM.feasible.span(0, total))


def test_another_problem_is_not_mixed_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "designs.parquet"
    assert main(["enumerate", NAME, "--limit", "10", "--out", str(out), "--quiet"]) == 0
    before = sorted(path.name for path in out.iterdir())
    assert main(["enumerate", NAME, "--fix", "tp=8", "--limit", "10", "--out", str(out), "--resume", "--quiet"]) == 2
    assert "another problem" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == before


def test_a_missing_part_is_noticed(tmp_path: Path) -> None:
    source = PROBLEM.designs()
    folder = PartFolder(tmp_path / "x.parquet", source.manifest(0), 0, source.size)
    folder.open(resume=False)
    folder.add(source.block(PART_DESIGNS, PART_DESIGNS + 5), 0)
    with pytest.raises(SpecError, match="a part is missing before this one"):
        folder.open(resume=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "{there}"], "exists"),
        (["--out", "{file}", "--resume"], "cannot use"),
        (["--out", "/nowhere/at/all/x.parquet"], "no folder"),
        (["--out", "there.parquet", "--resume"], "cannot use"),
        (["--out", "{there}", "--force"], "does not replace a folder"),
        (["--resume"], "goes on with a file"),
        (["--resume-after", "12"], "not a token"),
        (["--resume-after", "-5-abc"], "not a token"),
        (["--resume-after", "5-abc"], "another problem"),
        (["--resume-after", "99999999999999999999-{digest}"], "no designs after"),
        (["--out", "x.parquett"], "no known format"),
        (["--out", "x.parquet", "--limit", "0"], "limit"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.parquet").mkdir()
    (tmp_path / "file.parquet").write_text("not a folder")
    names = {"there": "there.parquet", "file": "file.parquet", "digest": PROBLEM.designs().digest}
    filled = [argument.format(**names) for argument in arguments]
    limit = [] if "--limit" in filled else ["--limit", "3"]
    assert main(["enumerate", NAME, *limit, *filled]) == 2
    assert words in capsys.readouterr().err


def test_a_token_goes_on_after_the_last_design(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enumerate", NAME, "--limit", "5"]) == 0
    first = capsys.readouterr()
    token = first.err.rsplit(maxsplit=1)[-1]
    assert main(["enumerate", NAME, "--limit", "5", "--resume-after", token]) == 0
    second = capsys.readouterr()
    assert main(["enumerate", NAME, "--limit", "10"]) == 0
    assert first.out + second.out == capsys.readouterr().out


def ranks_in(folder: Path) -> list[int]:
    return [int(part.stem.removeprefix("part-")) for part in sorted(folder.glob("part-*"))]


def test_a_folder_begins_after_a_token(tmp_path: Path) -> None:
    out, start = tmp_path / "designs.parquet", PART_DESIGNS - 1000
    options = ["--resume-after", PROBLEM.designs().token(start), "--out", str(out), "--quiet"]
    assert main(["enumerate", NAME, "--limit", "3000", *options]) == 0
    assert ranks_in(out) == [start, PART_DESIGNS]
    assert np.array_equal(codes_in(out), PROBLEM.feasible.span(start, start + 3000))
    assert main(["enumerate", NAME, "--limit", "5000", *options, "--resume"]) == 0
    assert np.array_equal(codes_in(out), PROBLEM.feasible.span(start, start + 5000))
    assert main(["enumerate", NAME, "--limit", "5000", "--out", str(out), "--resume", "--quiet"]) == 2


def test_a_smaller_limit_keeps_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "designs.parquet")
    assert main(["enumerate", NAME, "--limit", "1000", "--out", out, "--quiet"]) == 0
    assert main(["enumerate", NAME, "--limit", "10", "--out", out, "--resume", "--quiet"]) == 0
    assert "1,000 designs in" in capsys.readouterr().out.splitlines()[-1]
    assert len(parquet.read_table(out)) == 1000


def test_a_folder_filtered_by_the_step_goes_on_by_designs(tmp_path: Path) -> None:
    """968 designs by structure; those within six seconds are the same in a folder as on stdout."""
    llama, rule = "llama3-405b/h100-16k", ["--require", "step_time <= 6 s", "--with", "step_time", "--quiet"]
    whole, out = tmp_path / "whole.parquet", tmp_path / "steps.parquet"
    assert main(["enumerate", llama, *rule, "--out", str(whole)]) == 0
    expected = parquet.read_table(whole)
    assert 0 < len(expected) < 968
    assert pyarrow.compute.max(expected["step_time_s"]).as_py() <= 6
    for limit in (3, 40, len(expected)):
        assert main(["enumerate", llama, *rule, "--out", str(out), "--limit", str(limit), "--resume"]) == 0
        assert parquet.read_table(out).equals(expected.slice(0, limit))


@pytest.mark.parametrize("foreign", ["part-abc.parquet", "part-1.parquet", "part-00000000000000000000.parquet"])
def test_a_foreign_part_is_refused_and_kept(foreign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "designs.parquet"
    assert main(["enumerate", NAME, "--limit", "10", "--out", str(out), "--quiet"]) == 0
    (out / foreign).write_text("mine")
    assert main(["enumerate", NAME, "--limit", "20", "--out", str(out), "--resume", "--quiet"]) == 2
    assert "hint:" in capsys.readouterr().err
    assert (out / foreign).read_text() == "mine"


def test_foreign_files_beside_the_parts_are_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "designs.parquet"
    assert main(["enumerate", NAME, "--limit", "10", "--out", str(out), "--quiet"]) == 0
    (out / "notes.txt").write_text("mine")
    assert main(["enumerate", NAME, "--limit", "20", "--out", str(out), "--resume", "--quiet"]) == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert np.array_equal(codes_in(out), PROBLEM.feasible.span(0, 20))
