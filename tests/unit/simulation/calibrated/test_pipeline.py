"""Stages and schedules, against sums worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.job import TrainingDesigns
from cosmic_opt.simulation.calibrated.layer import Pass
from cosmic_opt.simulation.calibrated.pipeline import schedule
from cosmic_opt.simulation.calibrated.work import Work
from cosmic_opt.workloads.stage_load import end_layers, most_layers
from tests.unit.simulation.calibrated.jobs import GPT_175B, LLAMA_405B, setup

ZERO = np.zeros(1)


def work(layer_s: float, head_s: float = 0.0) -> Work:
    layer = Pass(np.array([layer_s / 3]), np.array([2 * layer_s / 3]))
    head = Pass(np.array([head_s]), ZERO)
    return Work({"matmul": layer}, layer, ZERO, ZERO, head, Pass(ZERO, ZERO), ZERO)


def test_405b_leaves_one_slot_to_the_embedding_and_one_to_the_loss() -> None:
    designs = TrainingDesigns.of(pp=16, interleave=8)
    first, last = end_layers(126, designs)
    assert most_layers(126, designs) == 8
    assert (first, last) == (7, 7)


def test_layers_that_divide_give_equal_stages() -> None:
    designs = TrainingDesigns.of(pp=8)
    assert end_layers(96, designs) == (12, 12)
    assert most_layers(96, designs) == 12


def test_bubble_of_equal_stages_is_p_minus_1_stages() -> None:
    stages = schedule(setup(GPT_175B), TrainingDesigns.of(pp=8), work(1.0), ZERO)
    assert stages.longest_s == pytest.approx(12)
    assert stages.bubble_s == pytest.approx(7 * 12)


def test_interleaving_divides_the_bubble() -> None:
    plain = schedule(setup(GPT_175B), TrainingDesigns.of(pp=8), work(1.0), ZERO)
    many = schedule(setup(GPT_175B), TrainingDesigns.of(pp=8, interleave=4), work(1.0), ZERO)
    assert many.bubble_s == pytest.approx(plain.bubble_s / 4)


def test_zero_bubble_leaves_a_third() -> None:
    plain = schedule(setup(GPT_175B), TrainingDesigns.of(pp=8), work(1.0), ZERO)
    zero = schedule(setup(GPT_175B), TrainingDesigns.of(pp=8, schedule=2), work(1.0), ZERO)
    assert zero.bubble_s == pytest.approx(plain.bubble_s / 3)


def test_one_stage_has_both_ends_and_no_bubble() -> None:
    stages = schedule(setup(GPT_175B), TrainingDesigns.of(pp=1), work(1.0, head_s=5.0), ZERO)
    assert (stages.has_head, stages.has_embedding, stages.layers) == (1, 1, 96)
    assert stages.bubble_s == 0
    assert stages.longest_s == pytest.approx(101)


def test_a_heavy_head_makes_the_last_stage_the_slowest() -> None:
    designs = TrainingDesigns.of(pp=16, interleave=8)
    heavy = schedule(setup(LLAMA_405B), designs, work(1.0, head_s=3.0), ZERO)
    light = schedule(setup(LLAMA_405B), designs, work(1.0, head_s=0.5), ZERO)
    assert (heavy.has_head, heavy.layers) == (1, 7)
    assert (light.has_head, light.layers) == (0, 8)
