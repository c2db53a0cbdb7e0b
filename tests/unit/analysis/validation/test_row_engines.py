"""Engines and fields of inference rows in other spellings, and rows that leave fields out."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.inference import predict_inference
from cosmic_opt.analysis.validation.inference_rows import read_row
from cosmic_opt.errors import SpecError
from tests.unit.analysis.validation.test_inference import ROW, predicted


@pytest.mark.parametrize(
    ("engine", "expected", "noted"),
    [
        ("TensorRT-LLM v0.7.1", "tensorrt-llm", False),
        ("TensorRT-LLM v0.9", "tensorrt-llm", False),
        ("TensorRT-LLM v0.10.0", "tensorrt-llm", False),
        ("tensorrt_llm 0.12.0.dev2024", "tensorrt-llm", False),
        ("TRT-LLM 0.18", "tensorrt-llm", True),
        ("TensorRT-LLM 0.3", "tensorrt-llm", True),
        ("TensorRT-LLM v1.0.0", "tensorrt-llm-2025", False),
        ("TensorRT-LLM 1.0", "tensorrt-llm-2025", False),
        ("TensorRT-LLM 1", "tensorrt-llm-2025", False),
        ("TensorRT-LLM v1", "tensorrt-llm-2025", False),
        ("TensorRT-LLM 2", "tensorrt-llm-2025", True),
        ("TensorRT-LLM 0", "tensorrt-llm", True),
        ("TensorRT LLM (v1.1)", "tensorrt-llm-2025", True),
        ("tensorrt-llm-2025", "tensorrt-llm-2025", False),
        ("TensorRT-LLM", "tensorrt-llm", False),
        ("vLLM 0.6.3", "vllm", False),
        ("vllm-0.6.3.post1", "vllm", False),
        ("vLLM v0.9.1", "vllm", True),
        ("FasterTransformer/Triton", "tensorrt-llm", False),
        ("DeepSpeed-MII v0.2", "deepspeed-mii", False),
        ("DeepSpeed", "deepspeed-inference", False),
        ("accelerate (layer-sequential)", "accelerate", False),
    ],
)
def test_an_engine_is_known_by_its_name_and_release(engine: str, expected: str, noted: bool) -> None:
    job = read_row(ROW | {"engine": engine})
    assert job.setup.engine.name == expected
    assert any(each.startswith("release ") for each in job.assumed) == noted


def test_a_release_may_stand_in_its_own_field() -> None:
    row = ROW | {"engine": "TensorRT-LLM", "engine_version": "v1.0.0"}
    assert read_row(row).setup.engine.name == "tensorrt-llm-2025"


@pytest.mark.parametrize("release", ["1", 1, 1.0, "v1", "1.0.0"])
def test_a_release_without_its_second_number_has_a_zero_there(release: object) -> None:
    job = read_row(ROW | {"engine": "TensorRT-LLM", "release": release})
    assert (job.setup.engine.name, job.assumed) == ("tensorrt-llm-2025", ())


def test_vllm_on_amd_is_its_own_engine_whatever_the_release() -> None:
    assert read_row(ROW | {"gpu": "MI300X", "engine": "vLLM 0.6.3"}).setup.engine.name == "vllm-rocm"


@pytest.mark.parametrize("engine", ["sglang 0.3", "1.0", "v", "TensorFlow", "x" * 9999, "vLLM" * 99])
def test_an_unknown_engine_is_refused(engine: str) -> None:
    with pytest.raises(SpecError, match="unknown engine"):
        read_row(ROW | {"engine": engine})


def without(*names: str) -> dict[str, Any]:
    return {key: value for key, value in ROW.items() if key not in names}


def test_a_prefill_needs_no_answer_and_other_metrics_do() -> None:
    row = without("output_tokens") | {"metric": "prefill_time_s"}
    report = validate([row, row | {"metric": "batch_latency_s"}])
    assert report.rows[0].predicted == predicted(metric="prefill_time_s")
    assert "the length of the answer is not stated" in str(report.rows[1].note)


def test_gpus_follow_from_the_degrees_and_tp_from_the_gpus() -> None:
    assert predict_inference(without("gpus")).predicted == predicted()
    outcome = predict_inference(without("tp"))
    assert outcome.predicted == predicted()
    assert "tensor parallelism over all GPUs" in str(outcome.note)


def test_a_row_without_a_precision_is_taken_for_16_bits_and_says_so() -> None:
    outcome = predict_inference(without("precision"))
    assert (outcome.predicted, outcome.primary) == (predicted(precision="fp16"), False)


@pytest.mark.parametrize(
    ("metric", "known", "factor"),
    [
        ("ttft_s", "prefill_time_s", 1),
        ("TTFT (ms)", "prefill_time_s", 1e3),
        ("time_to_first_token_s", "prefill_time_s", 1),
        ("batch_latency_ms", "batch_latency_s", 1e3),
        ("End-to-End Latency", "batch_latency_s", 1),
        ("output tokens/s", "output_tokens_per_s_total", 1),
        ("ms_per_token_throughput", "ms_per_token_throughput", 1),
        ("tpot_ms", "output_token_time_s", 1e3),
        ("tpot_s", "output_token_time_s", 1),
    ],
)
def test_metrics_have_other_names_and_units(metric: str, known: str, factor: float) -> None:
    assert predicted(metric=metric) == pytest.approx(factor * predicted(metric=known))


def test_a_batch_takes_its_prefill_and_a_token_time_per_further_token() -> None:
    batch = predicted(metric="prefill_time_s") + 511 * predicted(metric="tpot_s")
    assert predicted() == pytest.approx(batch)


def test_a_saturated_answer_takes_its_prompt_and_a_token_time_per_further_token() -> None:
    own = {"engine": "TensorRT-LLM v1.0"}
    full = own | {"batch": "engine-chosen"}
    answer = predicted(**own, batch=1, metric="prefill_time_s") + 511 * predicted(**full, metric="tpot_s")
    batch = answer * predicted(**full, metric="output_tokens_per_s_total") / 512
    assert batch == pytest.approx(round(batch))


@pytest.mark.parametrize(
    ("spelled", "known"),
    [
        ("nvfp4", "fp4"),
        ("FP8_E4M3", "fp8"),
        ("fp8_kv16", "fp8-kv16"),
        ("Weight=fp8,KV-Cache=fp8", "fp8"),
        ("AWQ", "int4"),
    ],
)
def test_precisions_have_other_spellings(spelled: str, known: str) -> None:
    assert predicted(gpu="B200", precision=spelled) == predicted(gpu="B200", precision=known)
