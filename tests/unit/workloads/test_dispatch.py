"""Where dispatch of experts hides, and what it costs in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.catalog.stacks import load_stack
from cosmic_opt.workloads.dispatch import hides_dispatch
from cosmic_opt.workloads.footprint import footprint, layer_activation_bytes, layer_parameters
from cosmic_opt.workloads.training_designs import Recompute, TrainingDesigns
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, LLAMA_8B, QWEN_30B, setup

STACK = load_stack("megatron-te-2025")
MANY = TrainingDesigns.of(dp=8, pp=2, ep=8, interleave=4)


def test_dispatch_hides_under_an_interleaved_schedule_of_a_mixture_whose_layers_run_once() -> None:
    assert hides_dispatch(QWEN_30B, STACK, MANY).all()
    assert not hides_dispatch(LLAMA_8B, STACK, MANY).any()
    assert not hides_dispatch(QWEN_30B, load_stack("torchtitan-2025"), MANY).any()
    assert not hides_dispatch(replace(QWEN_30B, mtp_layers=2), STACK, MANY).any()
    whole = Recompute.of(np.full(1, 0.5))
    for other in (replace(MANY, ep=np.ones(1)), replace(MANY, interleave=np.ones(1)), MANY.with_recompute(whole)):
        assert not hides_dispatch(QWEN_30B, STACK, other).any()


def test_a_stage_keeps_one_more_virtual_stage_where_dispatch_hides() -> None:
    """24 layers of a stage are four virtual stages of six: six layers more are kept."""
    job = setup(QWEN_30B)
    apart = replace(job, stack=replace(STACK, overlap=replace(STACK.overlap, dispatch_exposed=1.0)))
    hidden, exposed = footprint(job, MANY), footprint(apart, MANY)
    more = hidden.layers_bytes - exposed.layers_bytes
    assert more == pytest.approx(6 * layer_activation_bytes(job, MANY))
    assert hidden.states_bytes == exposed.states_bytes


def test_down_projections_and_routers_are_whole_on_every_tensor_parallel_rank() -> None:
    """DeepSeek-V3: 7,168 x (1,536 + 576) of latent attention and a router of 256 outputs."""
    assert DEEPSEEK.replicated_parameters == 7168 * (1536 + 512 + 64) + 7168 * 256
    assert LLAMA_8B.replicated_parameters == 0
    one, four = (layer_parameters(DEEPSEEK, TrainingDesigns.of(tp=tp))[0] for tp in (1, 4))
    whole = DEEPSEEK.replicated_parameters
    assert four == pytest.approx(whole + (one - whole) / 4)
