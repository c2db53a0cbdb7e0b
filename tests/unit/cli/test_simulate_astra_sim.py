"""`simulate --engine astra-sim`: our steps beside the one that a stand-in for ASTRA-sim reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.interop.astra_sim_binary import VARIABLE
from tests.unit.cli.running import Done, run
from tests.unit.interop.exporting import problem
from tests.unit.interop.test_astra_sim_binary import finishing, program


def simulate(folder: Path, *options: str) -> Done:
    return run("simulate", problem(folder).source, "--engine", "astra-sim", *options)


def test_all_four_steps_are_reported(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--astra-sim", str(program(tmp_path, *finishing(16))), "--json")
    assert done.code == 0, done.err
    keys = done.keys
    found = keys["astra_sim"]
    assert (keys["engine"], found["time_ns"], keys["violations"]) == ("astra-sim", 115, [])
    assert found["events_ns"] == pytest.approx(1e9 * keys["metrics"]["step_time_s"])
    assert 0 < found["analytical_ns"] == pytest.approx(1e9 * keys["analytical_step_time_s"])
    exported = run("export", problem(tmp_path).source, "--to", str(tmp_path / "run"), "--json").keys
    assert (found["expected_ns"], found["notes"]) == (exported["time_ns"], exported["notes"])


def test_the_text_has_a_line_of_each_and_no_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    out = simulate(tmp_path, "--astra-sim", str(program(tmp_path, *finishing(16)))).out
    for words in ("analytical lower bound", "ASTRA-sim, expected", "ASTRA-sim, reported", "115"):
        assert words in out
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_time_that_the_replay_does_not_expect_is_warned_of(tmp_path: Path) -> None:
    expected = run("export", problem(tmp_path).source, "--to", str(tmp_path / "run"), "--json").keys["time_ns"]
    for reported in (expected, expected + 1):
        lines = [line.replace("115", str(reported)) for line in finishing(16)]
        options = ("--astra-sim", str(program(tmp_path, *lines)))
        assert ("warning: ASTRA-sim reports" in simulate(tmp_path, *options).out) == (reported != expected)
        assert simulate(tmp_path, *options, "--json").keys["astra_sim"]["agrees"] == (reported == expected)


def test_an_error_names_no_file_that_is_gone(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--astra-sim", str(program(tmp_path, "exit 3")))
    assert "export --to" in done.err
    assert "cosmic-opt-" not in done.err


def test_the_environment_names_the_program_where_no_option_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(program(tmp_path, *finishing(16))))
    assert simulate(tmp_path, "--json").keys["astra_sim"]["time_ns"] == 115


def test_it_runs_on_the_files_of_the_design(tmp_path: Path) -> None:
    binary = program(tmp_path, f'cp network.yml system.json "{tmp_path}"', *finishing(16))
    assert simulate(tmp_path, "--astra-sim", str(binary)).code == 0
    assert "npus_count" in (tmp_path / "network.yml").read_text()
    assert "preferred-dataset-splits" in (tmp_path / "system.json").read_text()


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        (["echo boom", "exit 3"], 2, "0 of 16 NPUs finished (exit code 3): boom"),
        (finishing(15), 2, "15 of 16 NPUs finished (exit code 0)"),
        (["echo 'sys[0] finished, many cycles'"], 2, "0 of 16 NPUs finished"),
        (["tail -f /dev/null"], 4, "longer than 0.2 s"),
    ],
)
def test_a_run_without_a_result_is_an_error(tmp_path: Path, lines: list[str], code: int, words: str) -> None:
    done = simulate(tmp_path, "--astra-sim", str(program(tmp_path, *lines)), "--time-limit", "0.2 s")
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert "hint:" in done.err


def test_without_a_program_both_ways_to_name_one_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    done = simulate(tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "--astra-sim" in done.err
    assert VARIABLE in done.err


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_a_path_that_is_no_program_is_refused(tmp_path: Path, path: str) -> None:
    done = simulate(tmp_path, "--astra-sim", str(tmp_path / path))
    assert done.code == 2
    assert "is no program" in done.err


@pytest.mark.parametrize("option", [("--astra-sim", "x"), ("--time-limit", "5 min")])
def test_options_of_the_engine_are_refused_on_another(tmp_path: Path, option: tuple[str, str]) -> None:
    done = run("simulate", problem(tmp_path).source, "--engine", "events", *option)
    assert done.code == 2
    assert "--engine astra-sim" in done.err


@pytest.mark.parametrize("limit", ["0", "-1 s", "nan", "3 GB"])
def test_a_time_limit_that_is_none_is_refused(tmp_path: Path, limit: str) -> None:
    done = simulate(tmp_path, "--astra-sim", str(program(tmp_path, *finishing(16))), "--time-limit", limit)
    assert done.code == 2


def test_a_timeline_is_the_event_engines(tmp_path: Path) -> None:
    assert simulate(tmp_path, "--timeline", str(tmp_path / "t.json")).code == 2


def test_a_design_that_breaks_a_rule_is_refused_and_not_run(tmp_path: Path) -> None:
    binary = program(tmp_path, f'touch "{tmp_path}/ran"', *finishing(16))
    done = simulate(tmp_path, "--astra-sim", str(binary), "--require", "dp == 3", "--json")
    assert (done.code, done.keys["engine"]) == (3, "astra-sim")
    assert not (tmp_path / "ran").exists()


def test_an_instance_with_a_software_stack_is_refused(tmp_path: Path) -> None:
    binary = str(program(tmp_path, *finishing(64)))
    done = run("simulate", "llama3-70b/h100-64", "--engine", "astra-sim", "--astra-sim", binary)
    assert done.code == 2
    assert "hint:" in done.err
