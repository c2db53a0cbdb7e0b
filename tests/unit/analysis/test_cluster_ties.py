"""Which rules tie designs to the NPUs there are: what the bound relation says, however it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.analysis.change import Drop, Renumber
from cosmic_opt.analysis.cluster_ties import reads_npus, ties_of
from cosmic_opt.analysis.explain import Explanation
from cosmic_opt.api import Problem
from tests.unit.cli.running import run

LLAMA = Problem.load("llama3-70b/h100-64")
COSMIC = Problem.load("cosmic/gpt3-175b-system2")
SERVED = Problem.load("llama3-70b/h100-8-serving")
POOLS = Problem.load("llama3-70b/h200-16-pools-serving")
HOUSE = """\
schema: cosmic-opt/instance@1
name: mine
model: megatron
workload: llama3-70b
system: dgx-h100-1024
stack: megatron-te-2025
precision: fp8
job: {{kind: training, global_batch: 128}}
data: {{npus: 64}}
scope: framework
design: {{dp: 2, tp: 4, pp: 8, cp: 1, ep: 1, interleave: 5, micro_batch: 1, recompute: none, zero_stage: 1,
  sequence_parallel: 1}}
constraints:
  {rule}
objective: step_time
"""


def house(folder: Path, rule: str) -> str:
    """Write Llama 3 70B on 64 GPUs with one more rule, and return its path."""
    (folder / "mine.yaml").write_text(HOUSE.format(rule=rule), encoding="utf-8")
    return str(folder / "mine.yaml")


def tied(problem: Problem, rule: str) -> tuple[int, ...]:
    asked = problem.require(rule)
    return ties_of(asked.parameter_set.constraints[-1], asked.instance, asked.parameter_set)


@pytest.mark.parametrize(
    ("problem", "rule"),
    [
        (LLAMA, "dp * cp * tp * pp == npus"),
        (LLAMA, "npus == tp * pp * dp * cp"),
        (LLAMA, "2 * tp * pp * (dp * cp) - 2 * npus == 0"),
        (LLAMA, "npus - dp * cp * tp * pp == 0"),
        (LLAMA, "dp * cp * tp * pp == 64"),
        (LLAMA, "dp * cp * tp * pp * ep == npus"),  # a dense model has no experts to split: ep is 1
        (LLAMA.fix(cp=1), "dp * tp * pp == npus"),
        (COSMIC, "dp * sp * tp * pp == npus"),
        (COSMIC, "product(npus_per_dim) == npus"),
        (SERVED, "dp * tp * pp * ep == npus"),
        (SERVED, "npus_used == npus"),
        (POOLS, "npus_used == npus"),
    ],
)
def test_what_equates_all_degrees_and_the_npus_ties(problem: Problem, rule: str) -> None:
    assert tied(problem, rule) == (0,)


@pytest.mark.parametrize(
    ("problem", "rule"),
    [
        (LLAMA, "pp == 3 or npus > 256"),
        (LLAMA, "pp == npus"),
        (LLAMA, "dp * tp * pp == npus"),
        (LLAMA, "dp * cp * tp * pp == 32"),
        (LLAMA, "2 * dp * cp * tp * pp == npus"),
        (LLAMA, "dp * cp * tp * pp <= npus"),
        (LLAMA, "dp * cp * tp * pp != npus"),
        (LLAMA, "dp * cp * tp * pp == npus or tp == 1"),
        (LLAMA, "tp == 4 and pp * 8 == npus"),
        (LLAMA, "dp + cp + tp + pp == npus"),
        (LLAMA, "recompute == full and tp == npus"),
        (SERVED, "dp * tp * pp * ep <= npus"),
    ],
)
def test_another_rule_that_says_npus_does_not(problem: Problem, rule: str) -> None:
    assert tied(problem, rule) == ()


def test_only_the_conjuncts_that_tie_are_named() -> None:
    assert tied(LLAMA, "pp == 3 and dp * cp * tp * pp == npus and tp <= 4") == (1,)
    assert tied(LLAMA, "npus <= dp * cp * tp * pp and pp == 3 and dp * cp * tp * pp <= npus") == (0, 2)


def test_every_rule_of_the_models_that_ties_is_found() -> None:
    for problem, expected in ((LLAMA, {"world_size"}), (COSMIC, {"world_size", "shape"}), (SERVED, set())):
        rules = problem.parameter_set.constraints
        assert {r.name for r in rules if ties_of(r, problem.instance, problem.parameter_set)} == expected


def test_npus_as_part_of_another_name_is_not_read() -> None:
    (rule,) = (rule for rule in COSMIC.parameter_set.constraints if rule.name == "shape")
    assert reads_npus(rule)
    assert not reads_npus(COSMIC.require("product(npus_per_dim) <= 8").parameter_set.constraints[-1])


def first(explanation: Explanation) -> list[object]:
    return [type(change) for change in explanation.repairs[0].relaxation.changes]


@pytest.mark.parametrize("rule", ["pp == 3 or npus > 256", "pp <= 3 and pp >= 3 or npus > 256"])
def test_a_rule_with_npus_in_it_is_dropped_and_leaves_the_same_cluster(rule: str, tmp_path: Path) -> None:
    path = house(tmp_path, f"stages_of_small_clusters: {{rule: {rule}}}")
    out = run("explain", path).out
    assert f"cost 10, then 2,759 designs\n    drop stages_of_small_clusters ({rule})\n" in out
    assert "another number of NPUs\n" not in out


def test_a_number_beside_a_tie_changes_and_the_tie_stands(tmp_path: Path) -> None:
    path = house(tmp_path, "both: {rule: dp * cp * tp * pp == 64 and pp == 3}")
    explanation = Problem.load(path).without("world_size").explain()
    (change,) = explanation.repairs[0].relaxation.changes
    assert isinstance(change, Renumber)
    assert (change.number.value, change.new) == (3, 4)
    assert not any(isinstance(c, Drop) for repair in explanation.repairs for c in repair.relaxation.changes)


def test_a_tie_of_the_command_line_stands_like_one_of_a_file() -> None:
    explanation = LLAMA.without("world_size").require("dp * cp * tp * pp == npus", "tp == 3").explain()
    assert first(explanation) == [Renumber]
    assert all("dp * cp * tp * pp == npus" in repair.edits.require for repair in explanation.repairs)
