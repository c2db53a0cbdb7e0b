from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cosmic_opt
from cosmic_opt.errors import CosmicError, LimitError, SpecError, Where
from cosmic_opt.search import study_identity
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.study import Study, open_study, read_study
from cosmic_opt.search.study_store import TABLES, open_to_read
from tests.unit.search.spaces import scorer_of
from tests.unit.search.studies import PROBLEM, facts, held, identity, in_child, solve

HERE = Where("--study")


def test_a_study_changes_nothing_of_the_answer(tmp_path: Path) -> None:
    assert facts(solve(tmp_path / "a.study")) == facts(solve())


def test_a_finished_search_is_told_again_without_any_work(tmp_path: Path) -> None:
    first = solve(tmp_path / "a.study")
    before = held(tmp_path / "a.study")
    again = solve(tmp_path / "a.study")
    assert facts(again) == facts(first)
    assert held(tmp_path / "a.study") == before
    assert first.study is not None
    assert again.study is not None
    assert (first.study.resumed, again.study.resumed) == (False, True)
    assert again.study.recalled["blocks"] == first.study.blocks > 0
    assert again.study.recalled["solved"] == first.study.solved > 0
    assert again.study.recalled["evaluations"] >= first.study.evaluations > 0


def test_every_recorded_score_is_that_of_the_simulator(tmp_path: Path) -> None:
    solve(tmp_path / "a.study")
    rows = held(tmp_path / "a.study")["evaluations"]
    codes = np.array([np.frombuffer(design, dtype="<i4") for _, design, _, _ in rows])
    scores = scorer_of(PROBLEM).score(PROBLEM.parameter_set.batch(codes), strict=False)
    assert [(ticks, amount) for _, _, ticks, amount in rows] == list(
        zip(scores.evaluation.step_ticks.tolist(), scores.amounts.tolist(), strict=True)
    )


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", range(0, 14, 2))
@pytest.mark.parametrize("lost", [True, False])
def test_a_search_that_ends_around_any_record_goes_on_to_the_same_answer(
    moment: int, lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends just before (lost) or just after the record numbered `moment`."""
    path, record, number = tmp_path / "a.study", Study.record, 0

    def ending(study: Study, task: object, result: object) -> None:
        nonlocal number
        number += 1
        if number > moment and lost:
            raise Killed
        record(study, task, result)  # type: ignore[arg-type]
        if number > moment:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Study, "record", ending)
        with contextlib.suppress(Killed):
            solve(path)
    before = held(path)
    assert facts(solve(path)) == facts(solve())
    after = held(path)
    for table, rows in before.items():
        assert after[table][: len(rows)] == rows, table
    designs = [design for _, design, _, _ in after["evaluations"]]
    assert len(designs) == len(set(designs))
    assert [number for number, *_ in after["evaluations"]] == list(range(1, len(designs) + 1))


def test_a_search_killed_inside_a_transaction_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.study"

    def die() -> None:
        with open_study(path, identity()) as study:
            study.connection.execute("BEGIN IMMEDIATE")
            study.connection.execute("INSERT INTO evaluations (design, ticks, amount) VALUES (x'00', 1, 1)")
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.WTERMSIG(in_child(die)) == signal.SIGKILL
    assert held(path)["evaluations"] == []
    assert facts(solve(path)) == facts(solve())


@pytest.mark.parametrize("evaluations", [1, 100, 700])
def test_a_search_that_spent_a_budget_goes_on_with_a_larger_one(evaluations: int, tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    solve(path, budget=Budget(evaluations=evaluations))
    outcome, whole = solve(path), solve()
    assert (outcome.status, outcome.value) == (whole.status, whole.value)
    assert outcome.design.codes.tolist() == whole.design.codes.tolist()


def test_an_agent_alone_goes_on_with_the_designs_it_had_scored(tmp_path: Path) -> None:
    path, options = tmp_path / "a.study", {"agent": "genetic", "budget": Budget(evaluations=1000)}
    first, again = solve(path, **options), solve(path, **options)
    assert facts(first) == facts(again)
    more = solve(path, agent="genetic", budget=Budget(evaluations=2000))
    assert more.study is not None
    assert first.study is not None
    assert more.study.evaluations > first.study.evaluations
    assert more.value == solve(agent="genetic", budget=Budget(evaluations=2000)).value


def test_the_states_of_agents_and_every_incumbent_are_kept(tmp_path: Path) -> None:
    outcome = solve(tmp_path / "a.study")
    rows = held(tmp_path / "a.study")
    assert [asked for _, asked, _ in rows["agents"]][-1] == outcome.evaluations
    assert all("PCG64" in state for _, _, state in rows["agents"])
    values = [int(value) for _, value, _, _ in rows["incumbents"]]
    assert values == sorted(values, reverse=True)
    assert values[-1] == outcome.value


# --- what a study refuses -------------------------------------------------------------------------------------


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(CosmicError) as caught:
        solve(path, **options)
    assert caught.value.hint
    return str(caught.value)


def test_another_problem_is_refused_with_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    solve(path)
    before = path.read_bytes()
    with pytest.raises(SpecError) as caught:
        PROBLEM.set(memory_capacity="80 GB").require("tp <= 2").solve(study=path)
    text = str(caught.value)
    assert "data.memory_capacity: 24000000000 there, 80000000000 here" in text
    assert "nothing there, tp <= 2 here" in text
    assert path.read_bytes() == before


def test_another_seed_search_or_program_is_refused_with_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.study"
    solve(path, budget=Budget(evaluations=1))
    assert "seed: 0 there, 1 here" in refusal(path, seed=1)
    agent = {"agent": "genetic", "budget": Budget(evaluations=1)}
    assert "search: hybrid there, agent genetic here" in refusal(path, **agent)
    assert "agent genetic native here" in refusal(path, native=True, **agent)
    monkeypatch.setattr(study_identity, "program_digest", lambda: "f" * 64)
    monkeypatch.setattr(study_identity, "version", lambda name: "9.9.9")
    assert "version 9.9.9, source ffffffffffff here" in refusal(path)


def test_a_study_in_use_is_refused_and_says_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with open_study(path, identity()):
        assert f"in use by process {os.getpid()} on {socket.gethostname()}" in refusal(path)
        with read_study(path, HERE) as (found, _):
            assert found == identity()
    assert facts(solve(path)) == facts(solve())


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a.study"

    def die() -> None:
        with open_study(path, identity()):
            os.kill(os.getpid(), signal.SIGKILL)

    in_child(die)
    assert (tmp_path / "a.study.lock").exists()
    outcome = solve(path)
    assert outcome.study is not None
    assert str(outcome.study.taken_over).startswith("process ")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.study"]


def cut(path: Path) -> None:
    solve(path)
    os.truncate(path, path.stat().st_size // 2)


def renumber(path: Path, version: int) -> None:
    with open_study(path, identity()) as study:
        study.connection.execute(f"PRAGMA user_version = {version}")


def other(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (row)")
    connection.close()


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (lambda path: path.mkdir(), "is a folder"),
    "garbage": (lambda path: path.write_bytes(bytes(range(256)) * 20), "no study, or damaged"),
    "text": (lambda path: path.write_text("schema: 1\n"), "no study, or damaged"),
    "a study cut short": (cut, "damaged"),
    "a newer version": (lambda path: renumber(path, 3), "schema version 3, this program reads 2"),
    "another database": (other, "a database, but no study"),
    "a device": (os.mkfifo, "is not a file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_study_is_refused_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    make, message = HOSTILE[name]
    path = tmp_path / "a.study"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    assert message in refusal(path)
    with pytest.raises(SpecError):
        open_to_read(path, HERE)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.study"]


@pytest.mark.parametrize("name", ["nowhere/a.study", "a" * 300, "a\0b"])
def test_a_path_that_cannot_be_a_file_is_refused(name: str, tmp_path: Path) -> None:
    refusal(tmp_path / name)


def test_an_empty_file_becomes_a_study(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    path.touch()
    with pytest.raises(SpecError, match="holds nothing"):
        open_to_read(path, HERE)
    assert facts(solve(path)) == facts(solve())


def others_may_read(path: Path) -> bool:
    """Whether any user may enter every folder on the way to a path."""
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (path, *path.parents))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.skipif(
    not (others_may_read(Path(cosmic_opt.__file__).parent) and others_may_read(Path(sys.prefix))),
    reason="another user cannot read this program or its environment",
)
def test_a_folder_without_rights_is_refused_and_a_study_in_it_still_readable(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    solve(folder / "a.study")

    def as_nobody() -> None:
        for parent in (tmp_path, *tmp_path.parents[:3]):
            assert os.access(parent, os.R_OK)
        os.setegid(65534)
        os.seteuid(65534)
        with pytest.raises(SpecError, match="Permission denied"):
            solve(folder / "b.study")
        with pytest.raises(SpecError, match="Permission denied"):
            solve(folder / "a.study")
        with read_study(folder / "a.study", HERE) as (found, _):
            assert found == identity()

    opened = [path for path in (tmp_path, *tmp_path.parents[:3]) if path != Path("/tmp")]
    modes = {path: path.stat().st_mode for path in opened}
    try:
        for path in opened:
            path.chmod(0o755)
        assert in_child(as_nobody) == 0
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


# --- a full disk ----------------------------------------------------------------------------------------------


def test_a_full_disk_ends_the_search_cleanly_and_keeps_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, prepare = tmp_path / "a.study", Study.__post_init__

    def limited(study: Study) -> None:
        prepare(study)
        (pages,) = study.connection.execute("PRAGMA page_count").fetchone()
        study.connection.execute(f"PRAGMA max_page_count = {pages + 20}")

    with monkeypatch.context() as patch:
        patch.setattr(Study, "__post_init__", limited)
        with pytest.raises(LimitError, match="the disk is full"):
            solve(path)
    assert held(path)["evaluations"]
    assert facts(solve(path)) == facts(solve())


def test_a_file_size_limit_of_the_system_ends_the_command_with_exit_code_4(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    command = ["solve", "cosmic/gpt3-13b-system1", "--quiet"]
    program = (
        "import contextlib, io, resource, sys\nfrom cosmic_opt.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    main({command})\n"  # what it compiles is on disk now
        "resource.setrlimit(resource.RLIMIT_FSIZE, (160_000, 160_000))\n"
        f"sys.exit(main([*{command}, '--study', {str(path)!r}]))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert "Traceback" not in done.stderr
    assert "the disk is full or fails" in done.stderr
    with read_study(path, HERE) as (_, connection):
        (count,) = connection.execute("SELECT count(*) FROM evaluations").fetchone()
    assert count > 0


def test_rows_of_a_study_are_only_ever_added(tmp_path: Path) -> None:
    solve(tmp_path / "a.study")
    connection = sqlite3.connect(tmp_path / "a.study")
    connection.execute("INSERT INTO simulations (design, ticks, amount) VALUES (x'00', 1, 1)")
    for table, column in {name: text.split()[0] for name, text in TABLES.items()}.items():
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"):
            with pytest.raises(sqlite3.IntegrityError, match="only added"):
                connection.execute(statement)
    connection.close()
