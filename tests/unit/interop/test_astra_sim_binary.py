"""A configured ASTRA-sim is run on an export, and only what every NPU reports counts."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.interop.astra_sim_binary import VARIABLE, astra_sim_time_ns, configured_binary
from tests.unit.cli.running import run
from tests.unit.interop.exporting import problem


def program(folder: Path, *lines: str) -> Path:
    """Write a program that stands in for ASTRA-sim."""
    path = folder / "astra"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def finishing(npus: int) -> list[str]:
    return [f"echo '[workload] [info] sys[{npu}] finished, {100 + npu} cycles, exposed 1'" for npu in range(npus)]


def test_the_last_npu_counts_whatever_the_exit_code(tmp_path: Path) -> None:
    assert astra_sim_time_ns(program(tmp_path, *finishing(4), "exit 139"), tmp_path, 4) == 103


def test_it_runs_in_the_folder_of_the_run_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    binary = program(tmp_path, 'echo "$@" > asked', *finishing(1))
    astra_sim_time_ns(binary, tmp_path / "run", 1)
    asked = (tmp_path / "run" / "asked").read_text()
    assert "--system-configuration=system.json" in asked


def test_an_npu_that_does_not_finish_is_an_error_even_with_exit_code_0(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="2 of 4 NPUs finished") as caught:
        astra_sim_time_ns(program(tmp_path, *finishing(2), "echo deadlock"), tmp_path, 4)
    assert "deadlock" in str(caught.value)


def test_a_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"\x7fELF")
    (tmp_path / "broken").chmod(0o755)
    with pytest.raises(SpecError, match="cannot be started"):
        astra_sim_time_ns(tmp_path / "broken", tmp_path, 1)


def test_a_program_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    binary = program(tmp_path, f'exec 3> "{tmp_path}/held"', "tail -f /dev/null &", "wait")
    with pytest.raises(LimitError, match=r"longer than 0\.3 s"):
        astra_sim_time_ns(binary, tmp_path, 1, limit_s=0.3)
    select.select([held], [], [], 5)
    assert os.read(held, 1) == b""  # its end: nobody holds the pipe any more; otherwise BlockingIOError
    os.close(held)


def test_a_program_that_a_signal_ends_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"0 of 1 NPUs finished .ended by signal 11.: it printed nothing"):
        astra_sim_time_ns(program(tmp_path, "kill -SEGV $$"), tmp_path, 1)


def test_output_that_is_no_text_or_very_long_does_no_harm(tmp_path: Path) -> None:
    binary = program(tmp_path, "head -c 3000000 /dev/zero", "printf '\\377\\n'", *finishing(1))
    assert astra_sim_time_ns(binary, tmp_path, 1) == 100


def failure(folder: Path, *lines: str, is_kept: bool = True) -> SpecError:
    with pytest.raises(SpecError) as caught:
        astra_sim_time_ns(program(folder, *lines), folder, 1, is_kept=is_kept)
    return caught.value


def test_characters_that_act_on_a_terminal_are_escaped_and_runs_of_them_counted(tmp_path: Path) -> None:
    assert failure(tmp_path, "head -c 100 /dev/zero").message.endswith(r": \x00 (100 times)")
    message = failure(tmp_path, "head -c 3000000 /dev/zero", r"printf '\033[31mred\377\007\n'", "kill -9 $$").message
    assert all(each.isprintable() for each in message)
    assert r"\x1b[31mred\xff\x07" in message
    assert "ended by signal 9" in message
    assert len(message) < 500


def test_the_end_of_the_output_begins_with_a_line(tmp_path: Path) -> None:
    lines = [f"echo 'line {number} of many'" for number in range(100)]
    message = failure(tmp_path, *lines).message
    assert message.split("): ")[1].startswith("line ")
    assert message.endswith("line 99 of many")
    assert "): ...x (300 times)" in failure(tmp_path, "printf 'x%.0s' $(seq 2000)").message


def test_a_report_that_crosses_what_is_read_at_a_time_counts(tmp_path: Path) -> None:
    assert astra_sim_time_ns(program(tmp_path, "head -c 65520 /dev/zero", *finishing(1)), tmp_path, 1) == 100


def test_a_run_that_is_not_kept_is_not_named(tmp_path: Path) -> None:
    kept, gone = failure(tmp_path, "true"), failure(tmp_path, "true", is_kept=False)
    assert (str(kept.where), str(gone.where)) == (str(tmp_path), str(tmp_path / "astra"))
    assert "README" in str(kept.hint)
    assert "export --to" in str(gone.hint)


@pytest.mark.parametrize("named", ["", "nowhere", ".", "x" * 5000])
def test_without_a_program_the_variable_is_named(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, named)
    with pytest.raises(SpecError, match=VARIABLE):
        configured_binary()


def test_export_reports_both_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(program(tmp_path, *finishing(16))))
    done = run("export", problem(tmp_path).source, "--to", str(tmp_path / "run"), "--run", "--json")
    assert done.code == 0, done.err
    assert (done.keys["astra_sim_time_ns"], done.keys["agrees"]) == (115, False)
    assert done.keys["time_ns"] > 0


def test_export_warns_where_both_times_differ(tmp_path: Path) -> None:
    plain = run("export", problem(tmp_path).source, "--to", str(tmp_path / "plain"), "--json").keys
    assert plain["agrees"] is None
    for reported in (plain["time_ns"], plain["time_ns"] + 1):
        lines = [line.replace("115", str(reported)) for line in finishing(16)]
        binary = str(program(tmp_path, *lines))
        done = run("export", problem(tmp_path).source, "--to", str(tmp_path / str(reported)), "--astra-sim", binary)
        assert ("they should" in done.out) == (reported != plain["time_ns"])


def test_export_asks_for_the_program_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    done = run("export", problem(tmp_path).source, "--to", str(tmp_path / "run"), "--run")
    assert done.code == 2
    assert VARIABLE in done.err
    assert not (tmp_path / "run").exists()


def test_export_takes_the_path_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    binary = str(program(tmp_path, *finishing(16)))
    done = run("export", problem(tmp_path).source, "--to", str(tmp_path / "run"), "--astra-sim", binary, "--json")
    assert done.keys["astra_sim_time_ns"] == 115
