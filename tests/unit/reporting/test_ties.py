"""Equals of the best design: how many there are, and options that order them."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.reporting.ties import ties_text
from tests.unit.cli.running import run

NAME = "llama3-70b/h100-8-serving"
POOLS = "llama3-70b/h200-16-pools-serving"


@pytest.mark.parametrize(
    ("name", "objective"),
    [(NAME, "throughput_per_npu"), (POOLS, "throughput"), (POOLS, "output_token_time"), (POOLS, "first_token_time")],
)
def test_the_options_that_order_equals_keep_the_best_value(name: str, objective: str) -> None:
    before = run("solve", name, "--objective", objective, "--quiet", "--json").keys
    text = run("solve", name, "--objective", objective, "--quiet").out
    assert f"{before['tied_designs']:,} designs tie; this one is of least code" in text
    (found,) = re.findall(r"to order .*, add (--require '.*' --objective \w+)", text)
    after = run("solve", name, *shlex.split(found), "--quiet", "--json").keys
    names = {"throughput": "throughput_tokens_per_s", "throughput_per_npu": "throughput_tokens_per_s_per_npu"}
    metric, other = (names.get(each, f"{each}_s") for each in (objective, shlex.split(found)[-1]))
    assert after["metrics"][metric] == pytest.approx(before["metrics"][metric], rel=2e-3)
    worse, better = (keys["metrics"][other] for keys in (before, after))
    assert better <= worse if other.endswith("token_time_s") else better >= worse


def test_where_one_design_is_best_nothing_is_said_of_ties() -> None:
    problem = Problem.load(NAME)
    outcome = problem.solve()
    assert outcome.tied == 1
    assert ties_text(outcome) == ties_text(replace(outcome, tied=None)) == ""


def test_a_rate_below_one_names_no_rule() -> None:
    outcome = replace(Problem.load(NAME).solve(), tied=3, value=10**16)
    assert ties_text(outcome) == "3 designs tie; this one is of least code"


def test_equal_training_steps_are_counted_without_a_server_s_metrics() -> None:
    outcome = replace(Problem.load("llama3-70b/h100-64").objective("throughput").solve(), tied=2)
    assert ties_text(outcome) == "2 designs tie; this one is of least code"
