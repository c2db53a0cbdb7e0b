"""Designs of a model with a time among its parameters: what one command prints another reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from tests.unit.catalog.files import write
from tests.unit.cli.running import run

LATENCY = "  latency: {stack: network, per: dim, unit: time, domain: [20 ns, 1 us]}\n  chunks:"


@pytest.fixture
def own(tmp_path: Path) -> str:
    return str(write(tmp_path, "parts/model.yaml", "  chunks:", LATENCY))


def test_a_design_with_a_time_is_simulated_as_it_stands_in_its_file(own: str) -> None:
    assert run("simulate", own, "--json").keys["design"]["latency"] == [20_000, 1_000_000]


def test_a_line_of_sample_and_an_answer_of_solve_are_designs(own: str, tmp_path: Path) -> None:
    for number, command in enumerate((("sample", own, "-n", "1"), ("solve", own, "--json"))):
        file = tmp_path / f"{number}.json"
        file.write_text(run(*command, "--free", "latency").out, encoding="utf-8")
        found = json.loads(file.read_text(encoding="utf-8"))
        design = found.get("design", found)
        read = run("simulate", own, "--design", str(file), "--json").keys["design"]
        assert {name: read[name] for name in design} == design


def test_numbers_in_python_are_in_base_units(own: str) -> None:
    problem = Problem.load(own).free("latency")
    assert problem.fix({"latency[0]": 1_000_000}).count() == problem.fix({"latency[0]": "1 us"}).count()
    assert Problem.load("llama3-405b/h100-16k").set(latency=5_000).instance.data["latency[0]"] == 5_000


def test_a_bare_time_that_a_person_types_is_still_refused(own: str) -> None:
    assert "needs a unit of time" in run("count", own, "--fix", "latency=20000").err
