"""Launches of one layer, counted."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.host import layer_host_s
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns
from tests.unit.simulation.calibrated.jobs import GPT_175B, LLAMA_8B, QWEN_30B, setup

OLD = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", sequence=2048)
LAUNCH_S = 33.5e-6


def launches(job_designs: TrainingDesigns) -> float:
    return float(layer_host_s(OLD, job_designs)[0] / LAUNCH_S)


def test_a_layer_launches_24_kernels_forward_and_46_backward() -> None:
    assert launches(TrainingDesigns.of()) == pytest.approx(24 + 46)
    assert launches(TrainingDesigns.of(recompute=Recompute.of(1.0))) == pytest.approx(2 * 24 + 46)


def test_collectives_of_tensor_parallelism_are_two_launches_a_pass() -> None:
    full = Recompute.of(1.0)
    assert launches(TrainingDesigns.of(tp=2, recompute=full)) == pytest.approx(2 * (24 + 2) + 46 + 2)


def test_a_softmax_of_separate_kernels_is_four_launches_more_forward_and_five_backward() -> None:
    one_row = TrainingDesigns.of(tp=96)  # one head: no multiple of four rows
    assert launches(one_row) == pytest.approx(1.25 * (24 + 2 + 4 + 46 + 2 + 5))


def test_operators_that_run_again_are_launched_again() -> None:
    """Four of 24 kernels are unfused attention, four products; the others are elementwise."""
    attention, operators = Recompute.of(0.0, attention=1), Recompute.of(0.0, elementwise=1, matmul=0.5, collectives=0.5)
    assert launches(TrainingDesigns.of(recompute=attention)) == pytest.approx(24 + 46 + 4)
    assert launches(TrainingDesigns.of(recompute=operators)) == pytest.approx(24 + 46 + 16 + 2)
    assert launches(TrainingDesigns.of(tp=2, recompute=operators)) == pytest.approx(26 + 48 + 16 + 2 + 1)
    apart = TrainingDesigns.of(tp=96, recompute=attention)
    assert launches(apart) == pytest.approx(1.25 * (24 + 2 + 4 + 46 + 2 + 5 + 4 + 4))


def test_some_whole_layers_and_operators_of_the_others_are_launched_again() -> None:
    half = Recompute.of(0.5, attention=1)
    assert launches(TrainingDesigns.of(recompute=half)) == pytest.approx(1.5 * 24 + 46 + 0.5 * 4)


def test_a_program_compiled_whole_launches_nothing_whatever_runs_again() -> None:
    job = setup(LLAMA_8B, stack="maxtext-2025")
    again = Recompute.of(0.0, elementwise=1, matmul=0.5, collectives=0.5)
    assert layer_host_s(job, TrainingDesigns.of(recompute=again)) == 0


def test_a_group_that_fills_the_node_launches_slower() -> None:
    part, whole = (launches(TrainingDesigns.of(tp=tp)) for tp in (4, 8))
    assert whole == pytest.approx(1.25 * part)


def test_reading_token_counts_stops_the_host_unless_experts_are_fused() -> None:
    plain, fused = (
        layer_host_s(setup(QWEN_30B, stack=stack, recipe="mxfp8"), TrainingDesigns.of())
        for stack in ("megatron-te-2025", "megatron-te-2026")
    )
    assert np.all(plain - fused == pytest.approx(2.8e-3 + 5.0e-3))
