"""Kernels that narrow what a product reads: which, how many bytes, and what a block waits for its inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.narrowing import narrowing
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns, ServingSetup
from cosmic_opt.simulation.calibrated.serving_layer import linear_s
from cosmic_opt.workloads.language_model import LanguageModel
from tests.unit.simulation.calibrated.servers import LLAMA_70B, MIXTRAL, server

TP = ServingDesigns.of(tp=[1, 4])


def narrow(precision: str, model: LanguageModel = LLAMA_70B) -> ServingSetup:
    return server(model, "b200", "tensorrt-llm-2025", precision)


def dense(setup: ServingSetup) -> tuple[object, ...]:
    model = setup.model
    return (*model.attention_matmuls, *model.mlp_matmuls(model.ffn))


@pytest.mark.parametrize(("precision", "width"), [("fp8", 1), ("fp4", 0.5)])
def test_one_rank_narrows_after_both_norms_and_the_gate_and_several_after_the_gate_only(
    precision: str, width: float
) -> None:
    """Attention writes its own output narrow; with tensor parallelism so do the reductions, norms included."""
    found = narrowing(narrow(precision), TP, dense(narrow(precision)))  # type: ignore[arg-type]
    assert found.kernels.tolist() == [3, 1]
    assert found.token_bytes.tolist() == [(2 + width) * (8192 + 8192 + 28672), (2 + width) * 28672 / 4]


def test_nothing_is_narrowed_in_16_bits_nor_by_an_engine_that_does_it_in_other_kernels() -> None:
    wide = narrow("bf16")
    fused = replace(narrow("fp8"), engine=replace(wide.engine, quantises_apart=False))
    for setup in (wide, fused):
        found = narrowing(setup, TP, dense(setup))  # type: ignore[arg-type]
        assert found.kernels.tolist() == found.token_bytes.tolist() == [0, 0]


def test_experts_share_one_narrowed_token() -> None:
    setup = narrow("fp8", MIXTRAL)
    found = narrowing(setup, TP, setup.model.attention_matmuls)
    assert found.kernels.tolist() == [2, 1]
    assert found.token_bytes.tolist() == [3 * 2 * MIXTRAL.hidden, 3 * MIXTRAL.hidden]


def test_each_input_of_an_fp4_product_adds_its_time_and_of_an_fp8_one_none() -> None:
    one = np.array([1.0])
    for precision, waits_s in (("fp4", 0.75e-9), ("fp8", 0.0)):
        setup = narrow(precision)
        hidden = replace(setup, engine=replace(setup.engine, product_depth_s={}))
        with_wait, without = (linear_s(each, one, 7168 * one, 4608 * one) for each in (setup, hidden))
        assert with_wait - without == pytest.approx(4608 * waits_s, abs=1e-15)


@pytest.mark.parametrize(
    ("rows", "outputs", "inputs", "measured_us"),
    [
        (1, 896, 1024, 4.72),
        (1, 1792, 5120, 8.42),
        (1, 1280, 8192, 10.45),
        (1, 2560, 8192, 11.44),
        (4, 7168, 256, 4.54),
        (4, 7168, 2304, 7.49),
        (4, 7168, 4608, 9.82),
        (4, 4608, 7168, 11.41),
        (4, 9216, 7168, 13.73),
    ],
)
def test_narrow_products_take_what_was_published_within_15_percent(
    rows: int, outputs: int, inputs: int, measured_us: float
) -> None:
    """Source: flashinfer-ai/flashinfer, pull request 2540, column cutlass."""
    time = linear_s(narrow("fp4"), *(np.array([float(each)]) for each in (rows, outputs, inputs)))
    assert 1e6 * float(time[0]) == pytest.approx(measured_us, rel=0.15)
