"""docs/cost-model.md counts a step by hand: its expressions are worked out and compared with the simulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.pages import COST_MODEL, prepare
from tests.integration.test_docs import rows
from tests.unit.cli.running import run

COUNTS = rows(COST_MODEL, "| part | count")
BYTES = rows(COST_MODEL, "| memory of the first stage | count")


def simulated(folder: Path, *arguments: str) -> dict[str, dict[str, float]]:
    prepare(COST_MODEL, folder)
    return run("simulate", str(folder / "by-hand.yaml"), *arguments, "--json").keys


def worked(count: str) -> float:
    return float(eval(count.strip("`")))


def key_of(part: str) -> str:
    return part.replace("(", "").replace(")", "").replace(" ", "_").replace("-", "_") + "_s"


@pytest.mark.parametrize("engine", ["analytical", "events"])
def test_the_step_is_the_sum_of_the_parts_counted_by_hand(tmp_path: Path, engine: str) -> None:
    step = simulated(tmp_path, "--engine", engine)["metrics"]["step_time_s"]
    assert step == pytest.approx(sum(worked(count) for _, count in COUNTS), rel=1e-6)


@pytest.mark.parametrize(("part", "count"), COUNTS)
def test_each_part_of_the_step_is_what_the_page_counts(tmp_path: Path, part: str, count: str) -> None:
    assert simulated(tmp_path)["breakdown"][key_of(part)] == pytest.approx(worked(count), rel=1e-6)


def test_the_page_counts_every_part_but_the_optimizer(tmp_path: Path) -> None:
    parts = {name for name, seconds in simulated(tmp_path)["breakdown"].items() if seconds > 0}
    assert parts - {"optimizer_s"} == {key_of(part) for part, _ in COUNTS}


@pytest.mark.parametrize(("part", "count"), BYTES)
def test_the_memory_of_the_first_stage_is_what_the_page_counts(tmp_path: Path, part: str, count: str) -> None:
    assert simulated(tmp_path)["memory"][f"{part}_bytes"] == worked(count)


@pytest.mark.parametrize("interleave", [1, 2])
def test_the_bubble_of_equal_stages_is_that_of_the_page(tmp_path: Path, interleave: int) -> None:
    prepare(COST_MODEL, tmp_path)
    path = tmp_path / "by-hand.yaml"
    path.write_text(
        re.sub(r"bandwidth: \d+ GB/s", "bandwidth: 1 EB/s", path.read_text(encoding="utf-8")), encoding="utf-8"
    )
    equal = ("--fix", "dp=1", "--fix", "pp=4", "--set", "vocabulary=2", "--set", "latency=0 s")
    parts = run("simulate", str(path), *equal, "--set", f"interleave={interleave}", "--json").keys["breakdown"]
    once = (parts["forward_compute_s"] + parts["backward_compute_s"]) / 16
    assert parts["pipeline_bubble_s"] == pytest.approx(3 * once / interleave, rel=1e-4)
