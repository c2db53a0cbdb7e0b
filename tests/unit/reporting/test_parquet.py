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
from cosmic_opt.reporting.parquet import PART_DESIGNS, PartFolder, arrow_table, digest_of, parts

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
    cut = list(parts(5, 2 * PART_DESIGNS + 3))
    assert cut == [(5, PART_DESIGNS), (PART_DESIGNS, 2 * PART_DESIGNS), (2 * PART_DESIGNS, 2 * PART_DESIGNS + 3)]
    assert list(parts(7, 7)) == []


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
    folder = PartFolder(tmp_path / "x.parquet", PROBLEM.parameter_set, PROBLEM.feasible.size)
    folder.open(resume=False)
    folder.write(PART_DESIGNS, PROBLEM.sample(5))
    with pytest.raises(SpecError, match="missing"):
        folder.open(resume=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "{there}"], "exists"),
        (["--out", "{file}", "--resume"], "cannot use"),
        (["--out", "/nowhere/at/all/x.parquet"], "cannot use"),
        (["--resume"], "goes on with a .parquet folder"),
        (["--out", "x.csv", "--resume"], "goes on with a .parquet folder"),
        (["--out", "x.parquet", "--require", "step_time <= 1 s"], "simulation"),
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
    names = {"there": "there.parquet", "file": "file.parquet", "digest": digest_of(PROBLEM.parameter_set)}
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
