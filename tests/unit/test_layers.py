"""The import contracts hold, and each fails on a planted violation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    "Layers": ("psa/domain.py", "import cosmic_opt.search.budget"),
    "Simulation never sees a solver": ("simulation/analytical/layout.py", "import cosmic_opt.solvers.base"),
    "A solver never sees a workload": ("solvers/base.py", "import cosmic_opt.workloads.transformer"),
    "One file owns CP-SAT": ("solvers/exhaustive.py", "import ortools"),
    "One file owns pyomo and HiGHS": ("solvers/cp_sat.py", "import highspy"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "cosmic_opt", tmp_path / "cosmic_opt", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_violation_breaks_its_contract(contract: str, copy: Path) -> None:
    file, statement = PLANTED[contract]
    path = copy / "cosmic_opt" / file
    path.write_text(f"{path.read_text()}\n{statement}\n")
    done = lint(copy)
    assert done.returncode != 0
    broken = [line for line in done.stdout.splitlines() if line.endswith("BROKEN")]
    assert any(line.startswith(contract) for line in broken), done.stdout
