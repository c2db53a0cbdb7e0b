from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from tests.unit.cli.running import run

LLAMA, MIXTRAL = "llama3-70b/h100-64", "mixtral-8x7b/h100-64"


@pytest.mark.parametrize("name", [LLAMA, MIXTRAL])
def test_the_nearest_numbers_with_a_design_are_those_of_counting_each(name: str) -> None:
    clusters = Problem.load(name).set(npus=7).explain().clusters
    assert clusters is not None
    counted: dict[int, int] = {}
    while not counted.get(larger := len(counted)):
        counted[larger + 1] = Problem.load(name).set(npus=larger + 1).count().value
    assert clusters.below is None
    assert larger > 7
    assert clusters.above is not None
    assert (clusters.above.npus, clusters.above.feasible_designs) == (larger, counted[larger])


def test_both_directions_are_named_with_the_options_that_ask_for_them() -> None:
    out = run("explain", LLAMA, "--set", "npus=65").out
    assert "64 NPUs, then 2,759 designs\n    --set npus=64" in out
    keys = run("explain", LLAMA, "--set", "npus=65", "--json").keys["clusters"]
    assert keys["below"] == {"npus": 64, "edits": ["--set", "npus=64"], "feasible_designs": 2759}
    assert keys["above"] is not None
    assert keys["looked_at"] == [1, 129]
    assert Problem.load(LLAMA).count().value == 2759


def test_a_conflict_that_is_not_about_npus_looks_at_no_other_number() -> None:
    assert Problem.load(LLAMA).set(npus=65).require("tp == 3").explain().clusters is None


def test_a_network_played_dimension_by_dimension_fixes_its_npus() -> None:
    assert Problem.load("cosmic/gpt3-175b-system2").set(memory_capacity="4 GB").explain().clusters is None


def test_where_no_number_in_reach_helps_the_answer_says_how_far_it_looked() -> None:
    out = run("explain", LLAMA, "--set", "npus=7").out
    assert "the nearest other numbers of NPUs with a design:\n  none from 1 to 6\n" in out
