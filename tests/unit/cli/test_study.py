from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from cosmic_opt.search.study_store import SCHEMA
from tests.unit.cli.running import run
from tests.unit.search.studies import solve as solve_small

NAME = "llama3-405b/h100-16k"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("studies") / "llama.study"
    done = run("solve", NAME, "--json", "--study", str(path))
    assert done.code == 0, done.err
    assert done.keys["study"]["file"] == str(path)
    assert (done.keys["study"]["resumed"], done.keys["study"]["taken_over"]) == (False, None)
    assert f"study {path}: " in done.err
    return path


def test_the_same_command_again_says_what_was_not_worked_out_again(study: Path) -> None:
    first, again = run("solve", NAME, "--json"), run("solve", NAME, "--json", "--study", str(study))
    assert "resumed: " in again.err
    for key in ("design", "objective", "evaluations", "nodes", "regions", "status"):
        assert again.keys[key] == first.keys[key]
    assert again.keys["study"]["recalled"]["blocks"] == again.keys["study"]["blocks"] > 0


def test_show_says_what_a_study_is_of_and_how_it_ended(study: Path) -> None:
    keys = run("study", "show", str(study), "--json").keys
    assert keys["schema"] == "cosmic-opt/study-show@1"
    assert keys["instance"].startswith(NAME)
    assert (keys["seed"], keys["search"], keys["objective"]) == (0, "hybrid", "step_time")
    assert keys["regions_bounded"] == 968
    (answer,) = keys["answers"]
    assert (answer["status"], answer["value"]) == ("optimal", keys["best"])
    text = run("study", "show", str(study)).out
    assert NAME in text
    assert "optimal (proved)" in text


def test_every_key_of_show_is_documented(study: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.split("\n## study\n")[1].split("\n## ")[0]
    for key in run("study", "show", str(study), "--json").keys.keys() - {"schema"}:
        assert f"`{key}`" in section, key


def test_list_shows_studies_and_says_which_cannot_be_read(study: Path) -> None:
    newer = study.with_name("newer.study")
    content = bytearray(study.read_bytes())
    content[60:64] = (SCHEMA + 1).to_bytes(4, "big")
    newer.write_bytes(content)
    study.with_name("notes.txt").write_text("no study")
    done = run("study", "list", str(study.parent), "--json")
    found = {entry["file"]: entry for entry in done.keys["studies"]}
    assert set(found) == {"llama.study", "newer.study"}
    assert "schema version 3" in found["newer.study"]["error"]
    assert "llama.study" in run("study", "list", str(study.parent)).out


def test_a_folder_without_studies_is_an_answer(tmp_path: Path) -> None:
    assert run("study", "list", str(tmp_path)).out == "no studies\n"


def test_the_three_formats_of_export_hold_the_same_evaluations(study: Path, tmp_path: Path) -> None:
    for suffix in ("csv", "json", "parquet"):
        done = run("study", "export", str(study), "--out", str(tmp_path / f"a.{suffix}"), "--json")
        assert done.code == 0, done.err
        count = done.keys["evaluations"]
    rows = json.loads((tmp_path / "a.json").read_text())
    assert len(rows) == count == run("study", "show", str(study), "--json").keys["evaluations"]
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == rows
    with (tmp_path / "a.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["number"] for row in table] == [str(row["number"]) for row in rows]
    assert [row["tp"] for row in table] == [str(row["tp"]) for row in rows]
    best = min(row["step_time_s"] for row in rows if row["step_time_s"] is not None)
    assert best == run("solve", NAME, "--json").keys["objective"]["value"]


def test_a_study_without_evaluations_exports_an_empty_table(tmp_path: Path) -> None:
    from cosmic_opt.search.study import open_study
    from tests.unit.search.studies import identity

    with open_study(tmp_path / "a.study", identity()):
        pass
    for suffix in ("csv", "json", "parquet"):
        assert run("study", "export", str(tmp_path / "a.study"), "--out", str(tmp_path / f"a.{suffix}")).code == 0
    assert json.loads((tmp_path / "a.json").read_text()) == []


def test_an_export_never_replaces_a_file_unasked(study: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("mine")
    assert run("study", "export", str(study), "--out", str(target)).code == 2
    assert target.read_text() == "mine"
    assert run("study", "export", str(study), "--out", str(target), "--force").code == 0
    assert run("study", "export", str(study), "--out", str(tmp_path / "a.xlsx")).code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("study", "show", "nowhere.study"), "there is no file"),
        (("study", "show", "."), "is a folder"),
        (("study", "list", "nowhere"), "cannot read the folder"),
        (("study", "list", "a\0b"), "embedded null byte"),
        (("study",), "Missing command"),
        (("solve", NAME, "--workers", "0"), "greater than or equal to 1"),
        (("solve", NAME, "--workers", "-1"), "greater than or equal to 1"),
        (("solve", NAME, "--workers", "two"), "--workers"),
        (("solve", NAME, "--engine-pool", "dask"), "which cluster?"),
        (("solve", NAME, "--engine-pool", "dask", "--scheduler", ""), "which cluster?"),
        (("solve", NAME, "--scheduler", "tcp://127.0.0.1:9"), "a scheduler is of a Dask cluster"),
        (("solve", NAME, "--engine-pool", "dask", "--scheduler", "tcp://a:1", "--workers", "2"), "its own workers"),
        (("solve", NAME, "--engine-pool", "ray"), "--engine-pool"),
        (("solve", NAME, "--study", "."), "is a folder"),
        (("solve", NAME, "--study", "nowhere/a.study"), "there is no folder"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "hint" in done.err


def test_a_study_of_another_problem_is_refused_by_the_command(tmp_path: Path) -> None:
    solve_small(tmp_path / "a.study")
    done = run("solve", NAME, "--study", str(tmp_path / "a.study"))
    assert done.code == 2
    assert "instance: " in done.err
    assert "there, " in done.err
