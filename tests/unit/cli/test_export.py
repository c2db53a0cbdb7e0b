"""`export` and `import` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_opt.simulation.replay import replay
from tests.unit.cli.running import run
from tests.unit.interop.exporting import problem, read_back


def instance(folder: Path) -> str:
    return problem(folder).source


def test_a_design_is_exported_and_reported(tmp_path: Path) -> None:
    done = run("export", instance(tmp_path), "--to", str(tmp_path / "run"), "--format", "astra-sim", "--json")
    assert done.code == 0, done.err
    assert done.keys["time_ns"] == replay(*read_back(tmp_path / "run")).time_ns
    assert (done.keys["npus"], done.keys["groups"], done.keys["violations"]) == (16, 0, [])
    assert done.keys["folder"] == str(tmp_path / "run")


def test_the_text_says_where_and_what_to_run(tmp_path: Path) -> None:
    done = run("export", instance(tmp_path), "--to", str(tmp_path / "run"), "--fix", "tp=2", "--fix", "dp=8")
    assert done.code == 0, done.err
    assert f"wrote {tmp_path / 'run'}: 16 traces" in done.out
    assert "--workload-configuration=workload/trace" in done.out
    assert "flat rings" in done.out


def test_a_design_from_a_file_is_exported(tmp_path: Path) -> None:
    (tmp_path / "design.json").write_text(json.dumps({"dp": 2, "tp": 2, "pp": 4}))
    chosen = ("--design", str(tmp_path / "design.json"))
    done = run("export", instance(tmp_path), *chosen, "--to", str(tmp_path / "run"), "--json")
    assert done.keys["design"]["pp"] == 4


def test_a_design_that_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    done = run("export", instance(tmp_path), "--fix", "tp=8", "--to", str(tmp_path / "run"), "--json")
    assert done.code == 3
    assert done.keys["folder"] is None
    assert "world_size" in {rule["constraint"] for rule in done.keys["violations"]}
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [("--format", "astrasim", "--to", "run"), ("--set", "npus=0", "--to", "run"), ()])
def test_options_that_mean_nothing_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run("export", instance(tmp_path), *arguments)
    assert done.code == 2
    assert "hint" in done.err


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    done = run("export", instance(tmp_path), "--to", str(tmp_path))
    assert done.code == 2
    assert "something here already" in done.err


def test_an_exported_system_is_imported(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run("export", instance(tmp_path), "--to", str(folder))
    files = ("--astra-sim-network", str(folder / "network.yml"), "--astra-sim-system", str(folder / "system.json"))
    out = ("--out", str(tmp_path / "back.yaml"))
    done = run("import", *files, *out, "--memory-capacity", "80 GB", "--json")
    assert done.code == 0, done.err
    assert done.keys == {
        "schema": "cosmic-opt/import@1",
        "file": str(tmp_path / "back.yaml"),
        "dimensions": 2,
        "npus": 16,
        "notes": [],
    }
    assert run("import", *files, *out).code == 2
    again = run("import", *files, *out, "--force")
    assert again.code == 0
    assert "never full" in again.err


@pytest.mark.parametrize(
    ("option", "value"), [("--peak", "0"), ("--memory-bandwidth", "5 GB"), ("--memory-capacity", "-1 GB")]
)
def test_numbers_that_no_npu_has_are_refused(tmp_path: Path, option: str, value: str) -> None:
    run("export", instance(tmp_path), "--to", str(tmp_path / "run"))
    files = (
        *("--astra-sim-network", str(tmp_path / "run" / "network.yml")),
        *("--astra-sim-system", str(tmp_path / "run" / "system.json")),
    )
    done = run("import", *files, "--out", str(tmp_path / "back.yaml"), option, value)
    assert done.code == 2
    assert option in done.err


@pytest.mark.parametrize("name", ["nowhere.yml", "."], ids=["missing", "folder"])
def test_files_that_are_not_there_are_refused(tmp_path: Path, name: str) -> None:
    done = run(
        *("import", "--astra-sim-network", str(tmp_path / name)),
        *("--astra-sim-system", "s.json", "--out", str(tmp_path / "o.yaml")),
    )
    assert done.code == 2


def test_a_device_is_no_regular_file() -> None:
    done = run("import", "--astra-sim-network", "/dev/null", "--astra-sim-system", "s.json", "--out", "o.yaml")
    assert (done.code, done.out) == (2, "")
    assert "'/dev/null' is not a regular file" in done.err
    assert "did you mean" not in done.err


@pytest.mark.parametrize("out", [".", "..", "/"])
def test_a_folder_as_a_target_is_called_one(tmp_path: Path, out: str) -> None:
    run("export", instance(tmp_path), "--to", str(tmp_path / "run"))
    files = (
        *("--astra-sim-network", str(tmp_path / "run" / "network.yml")),
        *("--astra-sim-system", str(tmp_path / "run" / "system.json")),
    )
    done = run("import", *files, "--out", out)
    assert done.code == 2
    assert "is a folder" in done.err
