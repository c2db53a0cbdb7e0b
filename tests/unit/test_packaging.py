"""The wheel, installed in an empty environment outside the checkout, works and lists the same instances."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.unit.cli.running import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_models_and_instances_under_data_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {
        path.relative_to(ROOT).as_posix() for top in ("models", "instances") for path in (ROOT / top).rglob("*.yaml")
    }
    assert shipped
    assert {f"cosmic_opt/_data/{name}" for name in shipped} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"cosmic_opt"}


def test_the_wheel_outside_the_checkout_lists_and_counts_the_same_instances(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)

    def installed(*arguments: str) -> dict[str, object]:
        environment = {**os.environ, "PYTHONPATH": str(target)}
        command = [sys.executable, "-m", "cosmic_opt.cli", *arguments, "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return dict(json.loads(done.stdout))

    where = [sys.executable, "-c", "import cosmic_opt; print(cosmic_opt.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(target)}
    found = subprocess.run(where, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
    assert found.startswith(str(target))
    assert installed("list") == run("list", "--json").keys
    count = installed("count", "cosmic/table1-1024", "--fix", "weight_sharded=1")
    assert count["value"] == 6_082_560_000_000


def test_the_readme_s_test_command_is_the_last_line_of_ci() -> None:
    (ours,) = re.findall(r"\.venv/bin/(pytest .*)", (ROOT / "README.md").read_text())
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == ours
