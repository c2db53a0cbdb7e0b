"""Stages and schedules, against sums worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.calibrated.host import paced_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns
from cosmic_opt.simulation.calibrated.layer import Pass
from cosmic_opt.simulation.calibrated.pipeline import schedule
from cosmic_opt.simulation.calibrated.work import Work
from cosmic_opt.workloads.stage_load import end_layers, first_layers, most_layers
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, GPT_175B, LLAMA_405B, QWEN_30B, setup

ZERO = np.zeros(1)


def work(layer_s: float, head_s: float = 0.0) -> Work:
    layer = Pass(np.array([layer_s / 3]), np.array([2 * layer_s / 3]))
    head = Pass(np.array([head_s]), ZERO)
    return Work({"matmul": layer}, layer, ZERO, ZERO, ZERO, layer.both_s, head, Pass(ZERO, ZERO), ZERO, ZERO)


def mixture(layer_s: float, first_s: float, head_s: float = 0.0) -> Work:
    return replace(work(layer_s, head_s), first=work(first_s))


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


def launched(launch_s: float, layer_s: float) -> Work:
    waits_s = paced_s(np.array([layer_s]), np.array([launch_s])) - layer_s
    return replace(work(layer_s), launch_s=np.array([launch_s]), host_s=waits_s)


def test_messages_add_their_time_to_a_busy_device_and_nothing_to_one_that_waits_for_its_host() -> None:
    job, designs, sent_s = setup(GPT_175B), TrainingDesigns.of(pp=8), np.array([0.6])
    busy, waiting = (schedule(job, designs, launched(each, 1.0), sent_s) for each in (0.0, 10.0))
    assert busy.exchange_s == pytest.approx(0.6)
    assert busy.longest_s == pytest.approx(12.6)
    assert busy.bubble_s == pytest.approx(7 * 12.6)
    assert 0 < waiting.exchange_s < 1e-4


def test_messages_share_the_time_of_a_host_that_is_as_fast_as_its_device() -> None:
    stages = schedule(setup(GPT_175B), TrainingDesigns.of(pp=8), launched(1.0, 1.0), np.array([12.0]))
    assert stages.exchange_s == pytest.approx((24**5 + 12**5) ** 0.2 - 12 * 2**0.2)


def test_the_longest_stage_is_the_longest_with_its_messages() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        layer_s, launch_s, near, sent_s = rng.uniform([0.1, 0.1, 0.5, 0], [4, 4, 1.2, 60])
        made = launched(launch_s, layer_s)
        head_s = near * made.layer_s  # the layer that the last stage lacks, or a little more or less
        made = replace(made, head=Pass(head_s, ZERO))
        stages = schedule(setup(LLAMA_405B), TrainingDesigns.of(pp=16, interleave=8), made, np.array([sent_s]))
        ends = [
            end_s + paced_s(layers * made.device_s + sent_s, layers * made.launch_s)
            for layers, end_s in ((7, 0.0), (8, 0.0), (7, head_s))
        ]
        assert stages.longest_s == pytest.approx(np.max(ends))


def test_one_stage_sends_nothing() -> None:
    assert schedule(setup(GPT_175B), TrainingDesigns.of(), work(1.0), np.ones(1)).exchange_s == 0


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


# --- mixtures that begin with dense layers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pp", "interleave", "held"),
    [
        (1, 1, [3]),
        (2, 1, [3, 0]),
        (16, 1, [3, 0, 0]),  # 64 slots: one empty before the first layer
        (16, 4, [0, 1, 1, 1, 0]),  # one layer a virtual stage, the first slot is the embedding's
        (64, 1, [0, 1, 1, 1, 0]),
        (8, 8, [0, 1, 1, 1, 0]),
    ],
)
def test_the_first_layers_of_deepseek_lie_on_the_first_stages(pp: int, interleave: int, held: list[int]) -> None:
    designs = TrainingDesigns.of(pp=pp, interleave=interleave)
    assert [int(first_layers(DEEPSEEK, designs, np.array([float(stage)]))[0]) for stage in range(len(held))] == held


@given(pp=st.integers(1, 16), interleave=st.integers(1, 5), layers=st.integers(1, 70), dense=st.integers(0, 70))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_every_first_layer_lies_on_one_stage(pp: int, interleave: int, layers: int, dense: int) -> None:
    assert DEEPSEEK.experts is not None
    experts = replace(DEEPSEEK.experts, dense_layers=dense)
    model = replace(DEEPSEEK, layers=layers, experts=experts)
    designs = TrainingDesigns.of(pp=pp, interleave=interleave)
    held = [float(first_layers(model, designs, np.array([float(stage)]))[0]) for stage in range(pp)]
    full = most_layers(layers, designs)
    assert all(0 <= each <= full for each in held)
    assert sum(held) == min(dense, layers)


def test_a_model_without_first_layers_has_none_on_any_stage() -> None:
    assert first_layers(QWEN_30B, TrainingDesigns.of(pp=4), ZERO) == 0


def test_multi_token_prediction_is_part_of_the_last_stage() -> None:
    """8 layers of 1 s on four stages: 2 + 3 s at the end set the pace, the others fill and drain 6 s."""
    ahead = replace(work(1.0), mtp_s=np.array([3.0]))
    stages = schedule(setup(replace(LLAMA_405B, layers=8)), TrainingDesigns.of(pp=4), ahead, ZERO)
    assert (stages.longest_s[0], stages.has_head[0], stages.bubble_s[0]) == (5.0, 1.0, 6.0)


def test_one_stage_is_as_long_as_both_kinds_of_layers() -> None:
    stages = schedule(setup(DEEPSEEK), TrainingDesigns.of(), mixture(2.0, 1.0), ZERO)
    assert stages.longest_s == pytest.approx(58 * 2 + 3 * 1)
    assert stages.first_layers == 3
    assert stages.bubble_s == 0


def test_a_stage_of_experts_alone_sets_the_pace_and_dense_layers_shorten_the_bubble() -> None:
    stages = schedule(setup(DEEPSEEK), TrainingDesigns.of(pp=16), mixture(2.0, 1.0), ZERO)
    assert (stages.layers, stages.first_layers) == (4, 0)
    assert stages.longest_s == pytest.approx(8)
    assert stages.bubble_s == pytest.approx(58 * 2 + 3 * 1 - 8)


def test_dense_layers_that_are_longer_make_the_first_stage_the_slowest() -> None:
    stages = schedule(setup(DEEPSEEK), TrainingDesigns.of(pp=16), mixture(2.0, 9.0), ZERO)
    assert stages.first_layers == 3
    assert stages.longest_s == pytest.approx(3 * 9)
