"""The line on what a system costs and draws, from numbers worked by hand."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.reporting.differences import shown
from cosmic_opt.reporting.fronts import front_keys, front_text
from cosmic_opt.reporting.scores import score_text
from cosmic_opt.units import Unit

COSMIC = Problem.load("cosmic/gpt3-13b-system2").scope("network")


def text_of(problem: Problem) -> str:
    design = problem.parameter_set.design(problem.instance.baseline)
    return score_text(problem.simulate(design), problem.instance)


def system_line(problem: Problem) -> str:
    return next((line.strip() for line in text_of(problem).splitlines() if line.startswith("  system:")), "")


def test_cost_has_its_parts_and_power_its_energy() -> None:
    line = system_line(COSMIC.set(device_price="5000 $", device_power="300 W"))
    assert line.startswith(
        "system: cost $ 13,895,680 (devices $ 5,120,000, network $ 8,775,680); boards 307.2 kW, at most"
    )
    assert line.endswith("MJ a step")


def test_only_what_is_known_is_said() -> None:
    assert system_line(COSMIC) == ""
    assert system_line(COSMIC.set(device_price="5000 $")) == (
        "system: cost $ 13,895,680 (devices $ 5,120,000, network $ 8,775,680)"
    )
    assert system_line(COSMIC.set(device_power="300 W")).startswith("system: boards 307.2 kW, at most ")


def test_a_server_of_devices_without_a_price_has_its_network_s_cost() -> None:
    problem = Problem.load("deepseek-v3/gb200-32-serving")
    cost = problem.simulate(problem.baseline()).metrics["network_cost"]
    assert isinstance(cost, int)
    assert system_line(problem).startswith(f"system: network $ {cost:,}, devices unpriced; boards ")
    assert "unpriced" not in system_line(problem.set(device_price="5000 $"))


def test_a_served_model_has_the_energy_of_a_token() -> None:
    assert system_line(Problem.load("llama3-70b/h100-8-serving")).endswith("an output token")


@pytest.mark.parametrize(("joules", "text"), [(0.25, "250 mJ"), (3e6, "3 MJ")])
def test_an_energy_among_metrics_is_in_joules(joules: float, text: str) -> None:
    assert shown(joules, Unit.ENERGY) == text


def test_a_front_of_energy_is_in_joules() -> None:
    front = Problem.load("llama3-70b/h100-8-serving").pareto("energy", "output_token_time")
    points = front_keys(front)["points"]
    assert isinstance(points, list)
    assert points[0]["energy"] == front.scored.show(int(front.step_ticks[0]))
    assert 0.1 < points[0]["energy"] < 10
    assert "percentages are against the first" in front_text("title", front)
