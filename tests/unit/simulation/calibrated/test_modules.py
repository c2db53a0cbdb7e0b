"""Modules of a layer that run again: their time and launches, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.host import layer_host_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import matmul_pass
from cosmic_opt.simulation.calibrated.modules import modules_s
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.language_model import LanguageModel, Matmul
from cosmic_opt.workloads.training_designs import Recompute, named_recompute
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, DEEPSEEK_MTP, LLAMA_8B, QWEN_30B, setup

AGAIN = Recompute.of(0.0, modules=1)


def moved_s(job: TrainingSetup, bytes_per_token: float) -> float:
    return job.sequence * bytes_per_token / (job.device.memory_bytes_per_s * job.stack.elementwise_fraction)


def taken_s(job: TrainingSetup, **columns: float) -> float:
    return float(modules_s(job, TrainingDesigns.of(**columns, recompute=AGAIN))[0])


def test_a_norm_moves_4_bytes_an_element_again_and_a_gated_activation_6() -> None:
    job = setup(QWEN_30B)
    assert taken_s(job) == pytest.approx(moved_s(job, 4 * 2048 + 6 * 8 * 768))
    assert taken_s(job, capacity=2) == pytest.approx(moved_s(job, 4 * 2048 + 2 * 6 * 8 * 768))


def test_a_dense_model_has_no_modules_to_run_again() -> None:
    assert taken_s(setup(LLAMA_8B)) == 0


def test_nothing_runs_again_unless_chosen() -> None:
    assert float(modules_s(setup(DEEPSEEK), TrainingDesigns.of())[0]) == 0


def test_latent_attention_multiplies_again_and_rotates_again() -> None:
    """Queries from 1,536 and keys and values from 512; rotary moves 4 bytes an element of queries and of keys."""
    job = setup(DEEPSEEK)
    up = (Matmul("query_up", 1536, 24576, "outputs"), Matmul("kv_up", 512, 128 * 256, "outputs"))
    products = float(matmul_pass(job, TrainingDesigns.of(), up).forward_s[0])
    elementwise = 4 * (2 * 7168 + 24576 + 40960 / 2) + 6 * 8 * 2048
    assert taken_s(job) == pytest.approx(products + moved_s(job, elementwise))
    assert products > 0


@pytest.mark.parametrize(("stack", "casts"), [("megatron-te-2025", 2048 + 8 * 768), ("megatron-te-2026", 2048)])
def test_dropped_operands_are_cast_again_unless_a_fused_product_casts_them(stack: str, casts: int) -> None:
    narrow = setup(QWEN_30B, stack=stack, device="gb200", recipe="mxfp8")
    wide = replace(narrow, recipe=setup().recipe)
    assert taken_s(narrow) - taken_s(wide) == pytest.approx(moved_s(narrow, 7 * casts))


@pytest.mark.parametrize(("model", "kernels"), [(LLAMA_8B, 0), (QWEN_30B, 1 + 1), (DEEPSEEK, 2 + 1 + 2 + 2)])
def test_each_kernel_of_a_module_is_launched_again(model: LanguageModel, kernels: int) -> None:
    job = setup(model)
    none, modules = (layer_host_s(job, TrainingDesigns.of(recompute=each)) for each in (Recompute.of(0.0), AGAIN))
    each = job.stack.host.forward_launches / 24 * job.stack.host.launch_s
    assert float((modules - none)[0]) == pytest.approx(kernels * each)


def test_of_the_layers_that_do_not_run_again_whole_the_modules_do() -> None:
    job = setup(QWEN_30B)
    half = TrainingDesigns.of(recompute=Recompute.of(0.5, modules=1))
    assert float(modules_s(job, half)[0]) == pytest.approx(taken_s(job) / 2)


def test_dispatch_stays_beside_compute_where_only_modules_run_again() -> None:
    job = setup(DEEPSEEK_MTP, device="gb200")
    columns = {"dp": 64, "pp": 4, "ep": 64, "interleave": 4}
    none, modules, full = (
        float(step_time(job, TrainingDesigns.of(**columns, recompute=again)).terms["dispatch"][0])
        for again in (named_recompute(np.array(name), "attention") for name in ("none", "modules", "full"))
    )
    assert none == modules < full
