"""Shapes and bytes that training and serving share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.serving_layer import layer_terms
from cosmic_opt.simulation.calibrated.shapes import CLAMPED_GATE_KERNELS, gate_bytes, inputs_outputs
from cosmic_opt.workloads.language_model import LanguageModel, Matmul
from cosmic_opt.workloads.serving_designs import ServingDesigns
from tests.unit.simulation.calibrated.jobs import GPT_175B, LLAMA_8B
from tests.unit.simulation.calibrated.servers import server

CLAMPED = replace(LLAMA_8B, clamped_gate=True)
ONE = np.ones(1)


def test_tp_splits_columns_of_one_map_and_rows_of_the_next() -> None:
    two = np.array([2.0])
    shapes = {"outputs": (8, 16), "inputs": (4, 32), "none": (8, 32)}
    for split, expected in shapes.items():
        inputs, outputs = inputs_outputs(Matmul("map", 8, 32, split), two)
        assert (float(inputs[0]), float(outputs[0])) == expected


@pytest.mark.parametrize(
    ("model", "fused", "moved"),
    [(GPT_175B, False, 4), (LLAMA_8B, False, 6), (LLAMA_8B, True, 6), (CLAMPED, False, 52), (CLAMPED, True, 6)],
)
def test_an_activation_moves_what_its_kernels_read_and_write(model: LanguageModel, fused: bool, moved: int) -> None:
    assert gate_bytes(model, fused=fused) == moved


def kernels_s(model: LanguageModel, engine: str, tokens: float) -> float:
    return float(layer_terms(server(model, engine=engine), ServingDesigns.of(), tokens * ONE, ONE)["kernels"][0])


def test_a_served_clamped_gate_is_seven_more_kernels_and_46_more_bytes_per_element() -> None:
    job = server(LLAMA_8B, engine="vllm")
    gaps = (CLAMPED_GATE_KERNELS - 1) * job.engine.kernel_s
    moved = 46 * 1000 * LLAMA_8B.ffn / (job.engine.elementwise_fraction * job.device.memory_bytes_per_s)
    more = kernels_s(CLAMPED, "vllm", 1000) - kernels_s(LLAMA_8B, "vllm", 1000)
    assert more == pytest.approx(gaps + moved)


def test_an_engine_with_a_fused_kernel_serves_a_clamped_gate_like_a_plain_one() -> None:
    assert kernels_s(CLAMPED, "tensorrt-llm-2025", 1000) == kernels_s(LLAMA_8B, "tensorrt-llm-2025", 1000)
