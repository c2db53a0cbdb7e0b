"""TPU training: published steps that no constant was fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.simulation.calibrated.host import layer_host_s
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.language_model import LanguageModel, training_flops


def job(model: LanguageModel, device: str, chips: int, sequence: int, global_batch: int) -> TrainingSetup:
    return TrainingSetup(
        model=model,
        device=load_device(device),
        stack=load_stack("maxtext-2025"),
        recipe=load_recipe("bf16"),
        sequence=sequence,
        global_batch=global_batch,
        gpus_per_node=chips,
        nic_bytes_per_s=6.25e9,
        sequence_parallel=True,
    )


def llama(layers: int, hidden: int, heads: int, ffn: int) -> LanguageModel:
    return LanguageModel(
        name="llama", layers=layers, hidden=hidden, heads=heads, kv_heads=8, head_dim=128, ffn=ffn, vocabulary=128256
    )


def test_64_billion_parameters_on_64_tpu_v5p_run_at_the_published_rate() -> None:
    """AI-Hypercomputer/maxtext, configs/v5p/64b.sh: fsdp 16, tp 4, 3 sequences a chip, products kept: 323 TFLOPS."""
    model = LanguageModel(
        name="64b",
        layers=64,
        hidden=8192,
        heads=64,
        kv_heads=64,
        head_dim=256,
        ffn=28672,
        vocabulary=32000,
        gated_mlp=False,
        tied_embeddings=True,
    )
    assert model.trained_parameters() == pytest.approx(64e9, rel=0.02)
    setup = job(model, "tpu-v5p", 64, 2048, 192)
    kept = Recompute.of(0.0, attention=1, elementwise=1)
    designs = TrainingDesigns.of(dp=16, tp=4, micro_batch=12, zero_stage=3, recompute=kept)
    rate = training_flops(model, 192, 2048, 3, causal=True) / 64 / step_time(setup, designs).step_s / 1e12
    assert rate == pytest.approx(323, rel=0.05)


@pytest.mark.parametrize(
    ("model", "batch", "published"),
    [(llama(80, 8192, 64, 28672), 5, 960), (llama(32, 4096, 32, 14336), 4, 7207)],
)
def test_llama_on_256_tpu_v6e_runs_near_the_published_rate(model: LanguageModel, batch: int, published: int) -> None:
    """MaxText's model tiers, Trillium, bf16, 8,192 tokens; layers run again but for offloaded inputs, q, k and v."""
    setup = job(model, "tpu-v6e", 256, 8192, 256 * batch)
    designs = TrainingDesigns.of(dp=256, micro_batch=batch, zero_stage=3, recompute=Recompute.of(1.0))
    found = 8192 * batch / step_time(setup, designs).step_s
    assert found == pytest.approx(published, rel=0.12)


def test_no_host_waits_and_no_collective_takes_compute() -> None:
    setup = job(llama(32, 4096, 32, 14336), "tpu-v5p", 64, 8192, 512)
    designs = TrainingDesigns.of(dp=64, zero_stage=3)
    assert np.all(layer_host_s(setup, designs) == 0)
    terms = step_time(setup, designs).terms
    assert terms["host"] == 0
    assert terms["contention"] == 0


def test_the_tpu_instance_runs_googles_stack() -> None:
    assert Problem.load("llama3-70b/tpu-v5p-512-fsdp").instance.data["stack"] == "maxtext-2025"
