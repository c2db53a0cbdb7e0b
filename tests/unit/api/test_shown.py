"""Values in the objective's own unit are those that the commands print."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.units import TICKS_PER_SECOND, Unit, show
from tests.unit.cli.running import run

TRAINING, SERVING = "llama3-8b/h200-32-fsdp", "llama3-8b/h200-8-serving"


@pytest.mark.parametrize(
    ("name", "objective", "unit"),
    [
        (TRAINING, "step_time", "s"),
        (TRAINING, "throughput", "sequences/s"),
        (TRAINING, "energy", "J"),
        (TRAINING, "step_time * system_cost", "s $"),
        (TRAINING, "step_time * total_bandwidth", "s GB/s"),
        (SERVING, "throughput", "tokens/s"),
        (SERVING, "energy", "J/token"),
    ],
)
def test_the_value_of_a_search_is_shown_as_solve_prints_it(name: str, objective: str, unit: str) -> None:
    outcome = Problem.load(name).objective(objective).solve()
    printed = run("solve", name, "--objective", objective, "--json", "--quiet").keys["objective"]
    assert (printed["value"], printed["unit"]) == (outcome.shown, outcome.objective.unit)
    assert outcome.objective.unit == unit


def test_the_value_of_a_search_is_shown_in_units_by_hand() -> None:
    problem = Problem.load(TRAINING)
    outcome, data = problem.solve(), problem.instance.data
    assert outcome.value is not None
    seconds = outcome.value / TICKS_PER_SECOND
    assert outcome.shown == seconds
    rate, energy = (problem.objective(name).solve() for name in ("throughput", "energy"))
    assert rate.shown == pytest.approx(int(data["global_batch"]) / seconds, rel=1e-12)
    assert energy.shown == pytest.approx(seconds * 32 * 700, rel=1e-12)
    assert problem.require("tp >= 10000").solve().shown is None


@pytest.mark.parametrize(
    ("expression", "unit"), [("step_time", Unit.TIME), ("energy", Unit.ENERGY), ("memory_per_npu", Unit.BYTES)]
)
def test_the_value_of_an_expression_is_shown_as_optimise_prints_it(expression: str, unit: Unit) -> None:
    optimum = Problem.load(TRAINING).optimise(expression)
    assert optimum.shown is not None
    base = {Unit.TIME: 10**12, Unit.ENERGY: 10**6}.get(unit, 1)
    printed = run("optimise", TRAINING, "--minimise", expression).out
    assert f"{expression}: {show(round(optimum.shown * base), unit)}" in printed


def test_the_rate_of_an_expression_is_shown_as_optimise_prints_it() -> None:
    optimum = Problem.load(TRAINING).optimise("throughput", maximise=True)
    printed = run("optimise", TRAINING, "--maximise", "throughput")
    assert f"throughput: {optimum.shown:.6g} sequences/s" in printed.out
