"""Collectives beside compute: they take SMs from it while they run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.simulation.calibrated.communication import contention_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.system.hardware import Device
from tests.unit.simulation.calibrated.jobs import QWEN_30B, setup

SHARDED = TrainingDesigns.of(dp=64, zero_stage=3)


def with_sms(device: Device, sms: float) -> Device:
    assert device.fabric is not None
    return replace(device, fabric=replace(device.fabric, collective_sms=sms))


def contention(job: TrainingSetup, designs: TrainingDesigns) -> float:
    return float(step_time(job, designs).terms["contention"][0])


@pytest.mark.parametrize(("name", "share"), [("a100-80", 20 / 108), ("h100-sxm", 20 / 132), ("b200", 20 / 148)])
def test_a_collective_takes_twenty_sms_of_a_gpu(name: str, share: float) -> None:
    assert load_device(name).collective_share == pytest.approx(share)


@pytest.mark.parametrize("name", ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "trn2", "gaudi2"])
def test_engines_of_their_own_take_no_compute(name: str) -> None:
    assert load_device(name).collective_share == 0


def test_a_collective_takes_at_most_all_compute() -> None:
    assert with_sms(load_device("h100-sxm"), 1000).collective_share == 1


def test_compute_loses_its_share_of_the_hidden_time() -> None:
    assert contention_s(setup(), np.array([1.32])) == pytest.approx(0.2)


def test_contention_is_proportional_to_the_sms_taken_and_changes_no_other_term() -> None:
    job = setup(stack="torchtitan-2025")
    none, half, full = (step_time(replace(job, device=with_sms(job.device, n)), SHARDED).terms for n in (0, 10, 20))
    assert none["contention"] == 0
    assert full["contention"] == pytest.approx(2 * half["contention"])
    for name, term in full.items():
        if name not in ("contention", "stragglers"):
            assert term == none[name]


def test_what_is_not_hidden_takes_no_sms() -> None:
    assert contention(setup(stack="megatron-2021"), TrainingDesigns.of(dp=8)) == 0
    assert contention(setup(), TrainingDesigns.of(tp=8)) == 0


def test_gathers_of_context_hide_behind_attention_at_the_cost_of_sms() -> None:
    assert contention(setup(sequence=32768), TrainingDesigns.of(cp=4)) > 0


def test_dispatch_takes_sms_only_where_a_schedule_hides_it() -> None:
    job = setup(QWEN_30B, recipe="mxfp8", global_batch=512)
    apart, beside = (TrainingDesigns.of(pp=2, ep=4, dp=4, interleave=v) for v in (1, 2))
    only_gradients = contention(job, TrainingDesigns.of(pp=2, dp=4, interleave=2))
    assert contention(job, beside) > 10 * max(only_gradients, contention(job, apart))
