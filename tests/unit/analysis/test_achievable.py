"""The best of what rules on simulated quantities limit, and what is known where nothing runs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from tests.unit.cli.running import run
from tests.unit.search.six import NOTHING_RUNS, written

LLAMA = "llama3-70b/h100-64"
SERVED = "llama3-70b/h100-8-serving"


def test_of_a_rule_on_energy_the_best_energy_is_reported() -> None:
    """64 boards of 700 W draw 44.8 kW, so the energy of the shortest step is 44,800 J for each of its seconds."""
    step_s = Fraction(Problem.load(LLAMA).solve().value or 0, 10**12)
    asked = (LLAMA, "--require", "energy <= 400 kJ")
    assert run("explain", *asked, "--json").keys["achievable"] == {"energy": pytest.approx(float(44_800 * step_s))}
    assert "\nbest achievable energy without rules on it: 431.532 kJ, proved\n" in run("explain", *asked).out


def test_each_quantity_with_a_rule_on_it_has_its_best() -> None:
    keys = run("explain", LLAMA, "--require", "energy <= 400 kJ and throughput >= 1", "--json").keys
    step_s = keys["best_step"]["ticks"] / 1e12
    assert keys["achievable"] == {"energy": pytest.approx(44_800 * step_s), "throughput": pytest.approx(128 / step_s)}


def test_a_served_model_reports_energy_as_well() -> None:
    best = Problem.load(SERVED).objective("energy").solve()
    keys = run("explain", SERVED, "--require", "energy <= 1 mJ", "--json").keys
    assert keys["achievable"] == {"energy": best.objective.show(best.value or 0)}


def test_where_it_is_proved_that_nothing_runs_a_rule_on_the_step_leaves_no_doubt(tmp_path: Path) -> None:
    path = written(tmp_path)
    fixed = tuple(each for each in NOTHING_RUNS if each != "--quiet")
    alone = run("solve", path, *NOTHING_RUNS, "--json").keys
    done = run("explain", path, *fixed, "--require", "step_time <= 5 s", "--json").keys
    assert (alone["status"], done["feasible"], done["conflicts"]) == ("infeasible", False, [])
    assert done["achievable"] == {"step_time": None}
    assert "halving_doubling needs groups of a power of two" in done["cannot_run"]["reason"]
    out = run("explain", path, *fixed, "--require", "step_time <= 5 s").out
    assert "no feasible design\nbest achievable step_time without rules on it: none, proved\n" in out
    assert "designs that obey the rules can run: halving_doubling needs groups of a power of two" in out
