"""Rows of kernels and collectives in other spellings and units."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.collectives import predict_collective_row
from cosmic_opt.analysis.validation.kernels import predict_kernel
from cosmic_opt.errors import SpecError

REDUCE: dict[str, Any] = {"collective": "all_reduce", "gpu": "H100", "gpus": 8, "size_bytes": 2**20}
GEMM: dict[str, Any] = {"kernel": "gemm", "gpu": "H100", "precision": "bf16", "m": 4096, "n": 4096, "k": 4096}
LAYER: dict[str, Any] = {
    **{"gpu": "A100", "precision": "fp16", "batch": 8, "seq": 512, "context": 512, "tp": 4},
    "dims": {"hidden": 12288, "heads": 96, "ffn": 49152},
}


def collective(**change: Any) -> float:
    found = predict_collective_row(REDUCE | change).predicted
    assert found is not None
    return found


def kernel(row: dict[str, Any], **change: Any) -> float:
    found = predict_kernel(row | change).predicted
    assert found is not None
    return found


@pytest.mark.parametrize("spelled", ["AllReduce", "all-reduce", "ALLREDUCE", "all reduce", "ncclAllReduce"[4:]])
def test_a_collective_has_any_spelling(spelled: str) -> None:
    assert collective(collective=spelled) == collective()


def test_a_collective_has_any_unit_of_time_and_both_bandwidths_of_nccl_tests() -> None:
    time = collective()
    assert collective(metric="time_us") == pytest.approx(1e6 * time)
    assert collective(metric="Latency (ms)") == pytest.approx(1e3 * time)
    assert collective(metric="busbw") == pytest.approx(2 * 7 / 8 * 2**20 / time / 1e9)
    assert collective(metric="algbw_GB/s") == pytest.approx(2**20 / time / 1e9)


def test_kernels_have_other_names_units_and_precisions() -> None:
    time = kernel(GEMM)
    assert kernel(GEMM, kernel="MatMul") == time
    assert kernel(GEMM, precision="BFloat16") == time
    assert kernel(GEMM, metric="time_us") == pytest.approx(1e6 * time)
    with pytest.raises(SpecError, match="the metric of a 'gemm' row is 'joules'"):
        predict_kernel(GEMM | {"metric": "joules"})


OPERATORS = ["qkv_proj", "out_proj", "mlp_up", "mlp_down", "q_mul_k", "a_mul_v", "softmax", "gelu"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("tp", [7, 10**12])
def test_a_degree_that_does_not_divide_an_operator_is_refused(operator: str, tp: int) -> None:
    assert kernel(LAYER, kernel=operator) > 0
    (row,) = validate([LAYER | {"kernel": operator, "tp": tp, "value": 1e-3}]).rows
    assert row.predicted is None
    assert f"tp {tp} does not divide" in str(row.note)
