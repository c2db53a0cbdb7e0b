"""Measured inference rows: how fields become jobs, what is assumed, and how far predictions are off."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from cosmic_opt.analysis.validation import ValidationReport, ValidationRow, validate, validate_file
from cosmic_opt.analysis.validation.inference import NO_POWER, predict_inference
from cosmic_opt.analysis.validation.inference_rows import SATURATED, SHORT_PROMPT, read_row, stated_batch
from cosmic_opt.analysis.validation.report import errors_of
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.serving import saturated

ROW: dict[str, Any] = {
    "id": "own",
    "source": "own",
    "model": "llama3-8b",
    "dims": {
        "hidden": 4096,
        "layers": 32,
        "heads": 32,
        "kv_heads": 8,
        "ffn": 14336,
        "gated_mlp": True,
        "vocab": 128256,
    },
    "batch": 16,
    "input_tokens": 512,
    "output_tokens": 512,
    "tp": 2,
    "pp": 1,
    "precision": "fp16/bf16",
    "gpu": "H100-80GB",
    "gpus": 2,
    "engine": "vLLM",
    "metric": "batch_latency_s",
    "value": 4.0,
}
EXPERTS = {**ROW["dims"], "experts": 8, "top_k": 2}


@cache
def shipped() -> ValidationReport:
    return validate_file(data_root() / "benchmarks" / "data" / "inference.json")


def rows(kind: str, folds: tuple[int, ...], gpus: tuple[str, ...] = (), *, primary: bool = True) -> list[ValidationRow]:
    return [
        row
        for row in shipped().rows
        if row.facts is not None and row.error is not None and row.facts.fold in folds
        if kind in row.facts.kind and (row.facts.primary or not primary)
        if not gpus or row.facts.gpu in gpus
    ]


def predicted(**change: Any) -> float:
    value = predict_inference(ROW | change).predicted
    assert value is not None
    return value


def test_a_row_is_predicted_in_its_own_metric() -> None:
    latency = predicted()
    assert predicted(metric="output_tokens_per_s_total") == pytest.approx(16 * 512 / latency)
    assert predicted(metric="output_tokens_per_s_per_gpu") == pytest.approx(16 * 512 / latency / 2)
    assert predicted(metric="ms_per_token_throughput") == pytest.approx(1e3 * latency / (16 * 512))
    assert predicted(metric="prefill_time_s") < latency


def test_a_batch_the_engine_chooses_is_the_saturated_one() -> None:
    outcome = predict_inference(ROW | {"batch": "engine-chosen", "metric": "output_tokens_per_s_total"})
    assert outcome.group == "inference, vllm, saturated"
    assert outcome.predicted is not None
    assert outcome.predicted > predicted(metric="output_tokens_per_s_total")


@pytest.mark.parametrize("said", SATURATED)
def test_listed_words_say_that_a_batch_is_saturated(said: str) -> None:
    for spelled in (said, said.upper().replace(" ", "-"), f"Engine-chosen, {said} (vLLM)"):
        assert stated_batch({"batch": spelled}) is None


@pytest.mark.parametrize("batch", ["16", " 16", "16 ", "0016"])
def test_a_batch_of_digits_in_text_is_the_number(batch: str) -> None:
    assert predict_inference(ROW | {"batch": batch}) == predict_inference(ROW)


@pytest.mark.parametrize(
    "batch",
    ["ü", "", " ", "0", "-1", "1.5", "16 sequences", "max 32", "not saturated", "١٦", "1" * 5000, "1e3", "nan", "null"],
)
def test_a_batch_in_other_words_is_refused(batch: str) -> None:
    with pytest.raises(SpecError, match="'batch' is"):
        predict_inference(ROW | {"batch": batch})


def test_the_power_of_a_board_is_not_predicted_and_the_row_says_why() -> None:
    report = validate([ROW | {"metric": "average_power_w"}])
    assert report.rows[0].predicted is None
    assert NO_POWER in str(report.rows[0].note)


@pytest.mark.parametrize(
    ("gpu", "engine", "expected"),
    [
        ("H100-80GB", "vLLM", "vllm"),
        ("MI300X", "vLLM", "vllm-rocm"),
        ("H100-80GB", "TensorRT-LLM", "tensorrt-llm"),
        ("H100-80GB", "TensorRT-LLM v1.0", "tensorrt-llm-2025"),
        ("Gaudi2", "Deepspeed", "deepspeed-gaudi"),
    ],
)
def test_engine_and_device_name_the_software(gpu: str, engine: str, expected: str) -> None:
    assert read_row(ROW | {"gpu": gpu, "engine": engine}).setup.engine.name == expected


def test_the_stated_links_replace_the_devices() -> None:
    fabric = read_row(ROW | {"network": {"scale_up_bytes_per_s": 1e11}}).setup.device.fabric
    assert fabric is not None
    assert fabric.link_bytes_per_s == 1e11


def test_an_experts_width_is_the_rows_ffn() -> None:
    experts = read_row(ROW | {"dims": EXPERTS}).setup.model.experts
    assert experts is not None
    assert (experts.count, experts.top_k, experts.ffn) == (8, 2, 14336)


def test_a_short_prompt_without_a_length_is_assumed() -> None:
    row = {key: value for key, value in ROW.items() if key not in ("input_tokens", "output_tokens")}
    job = read_row(row | {"new_tokens": 100, "prompt": "short"})
    assert (job.requests.prompt, job.requests.output) == (SHORT_PROMPT, 100)
    assert any("only called short" in each for each in job.assumed)


@pytest.mark.parametrize(
    ("change", "assumption"),
    [
        ({"batch": 4096, "input_tokens": 4096}, "exceed the stated memory"),
        ({"tp": 1, "pp": 2}, "a pipeline with a batch"),
        ({"gpu": "A100-80GB", "precision": "Weight = fp16, KV Cache = fp8"}, "converted in software"),
        ({"engine": "Deepspeed-MII"}, "only ranks count"),
        ({"gpu": "MI300X"}, "only ranks count"),
        ({"notes": "output length 1024 assumed for the end latency"}, "output length is assumed"),
    ],
)
def test_a_row_that_leaves_something_open_is_secondary(change: dict[str, Any], assumption: str) -> None:
    outcome = predict_inference(ROW | change)
    assert not outcome.primary
    assert assumption in str(outcome.note)


def test_heads_that_tp_does_not_divide_are_noted() -> None:
    odd = predict_inference(ROW | {"tp": 3, "gpus": 3})
    assert not odd.primary
    assert "tp does not divide the heads" in str(odd.note)


@pytest.mark.parametrize(
    ("dims", "named"),
    [
        ({"heads": 24, "kv_heads": 12, "head_dim": 128}, "kv_heads"),
        ({"ffn": 28673}, "ffn columns"),
        ({"experts": 8, "top_k": 2, "ffn": 14337}, "columns of an expert"),
    ],
)
def test_key_heads_and_columns_that_tp_does_not_divide_are_noted(dims: dict[str, int], named: str) -> None:
    odd = predict_inference(ROW | {"tp": 8, "gpus": 8, "dims": ROW["dims"] | dims})
    assert not odd.primary
    assert f"tp does not divide the {named}: every rank" in str(odd.note)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pp": 100, "gpus": 100}, "pp 100 of 32 layers leaves stages empty"),
        ({"ep": 2, "gpus": 2}, "ep 2, but the model has no experts"),
        ({"dims": EXPERTS, "ep": 3, "gpus": 3}, "ep 3 does not divide the 8 experts"),
        ({"dims": EXPERTS | {"dense_layers": 32, "dense_ffn": 1}}, "dense_layers 32 of 32"),
    ],
)
def test_a_deployment_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        predict_inference(ROW | {"tp": 1} | change)


def test_a_row_that_states_everything_is_primary() -> None:
    assert predict_inference(ROW).primary


def test_a_rule_reads_fields_and_never_the_value() -> None:
    for value in (1e-9, 1e9, None):
        assert predict_inference(ROW | {"value": value, "source": "other"}) == predict_inference(ROW)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpu": "H900"}, "unknown device"),
        ({"engine": "vLMM"}, "unknown engine"),
        ({"engine": "deepspeed-zero"}, "not modelled"),
        ({"precision": "fp9"}, "unknown precision"),
        ({"metric": "joules"}, "unknown metric"),
        ({"dims": None}, "dimensions are missing"),
        ({"gpus": 3}, "make 2 GPUs, not 3"),
        ({"batch": 0}, "'batch' is 0"),
        ({"batch": None}, "'batch' is None"),
        ({"input_tokens": -5}, "'input_tokens' is -5"),
        ({"output_tokens": 1.5}, "'output_tokens' is 1.5"),
        ({"network": {"scale_up_bytes_per_s": "fast"}}, "'scale_up_bytes_per_s' is 'fast'"),
        ({"network": {"scale_up_bytes_per_s": True}}, "'scale_up_bytes_per_s' is True"),
        ({"gpu": "A100-80GB", "precision": "fp8"}, "no matrix peak"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        predict_inference(ROW | change)


def test_no_shipped_row_is_silently_skipped() -> None:
    assert len(shipped().rows) == 872
    missing = [row for row in shipped().rows if row.predicted is None]
    assert len(missing) == 33
    assert all(row.note for row in missing)


NVIDIA = ("a100-40", "a100-80", "h100-sxm", "gh200")


def test_latencies_on_nvidia_are_as_close_as_documented() -> None:
    found = rows("vllm", (2,), NVIDIA) + rows("tensorrt-llm", (2,), NVIDIA)
    errors = errors_of([row for row in found if row.facts is not None and row.facts.metric.endswith("_s")])
    assert errors is not None
    assert errors.rows > 140
    assert errors.absolute < 0.05
    assert errors.p90 < 0.14


def test_saturated_throughput_is_as_close_as_documented() -> None:
    for folds, absolute, p90 in (((0,), 0.04, 0.11), ((1,), 0.06, 0.13), ((2,), 0.06, 0.11)):
        errors = errors_of(rows("saturated", folds))
        assert errors is not None
        assert errors.absolute < absolute
        assert errors.p90 < p90


def test_rows_on_mi300x_are_ranked_right() -> None:
    for folds in ((0, 1), (2,)):
        found = rows("vllm-rocm", folds, ("mi300x",), primary=False)
        errors = errors_of(found)
        assert errors is not None
        assert errors.rank is not None
        assert errors.rank >= 0.95


def test_predictions_lie_in_their_interval_about_nine_times_in_ten() -> None:
    inside = []
    for row in rows("vllm", (2,), ("h100-sxm", "a100-40")):
        low, high = (float(part) for part in str(row.note).split("; ")[1].removesuffix(" s").split(" to "))
        assert row.measured is not None
        inside.append(low <= row.measured <= high)
    assert 0.85 < np.mean(inside) <= 1


def test_no_shipped_row_that_was_fitted_lies_outside_what_was_measured() -> None:
    outside = [
        row.id
        for row in shipped().rows
        if row.facts is not None and row.facts.fold in (0, 1) and row.confidence is not None
        if any(each.startswith(("no measured", "more than", "contexts")) for each in row.confidence.extrapolates)
    ]
    assert outside == []


def test_intervals_are_not_smaller_than_the_errors_they_were_made_from() -> None:
    """The 90th percentile of 9 saturated rows on H100 is 8.5 %, which is not 8 %."""
    errors = [abs(row.error or 0) for row in rows("saturated", (0, 1), ("h100-sxm",))]
    assert len(errors) == 9
    p90 = load_accuracy("inference").p90["tensorrt-llm-2025 h100-sxm"]
    assert np.quantile(errors, 0.9) <= p90 < np.quantile(errors, 0.9) + 0.01


def test_the_first_token_of_a_full_server_waits_for_a_step_and_is_no_lone_prompt() -> None:
    full = ROW | {"batch": "engine-chosen", "engine": "TensorRT-LLM v1.0", "metric": "ttft_s"}
    outcome, job = predict_inference(full), read_row(full)
    state = saturated(job.setup, job.designs, job.requests)
    assert outcome.predicted == pytest.approx(float(state.first_token_s[0]))
    assert outcome.predicted > predict_inference(full | {"batch": 1}).predicted * 1.5  # type: ignore[operator]
    assert not outcome.primary
    assert "waiting in a queue" in str(outcome.note)


def test_the_first_token_of_a_full_server_needs_the_length_of_answers() -> None:
    row = {key: value for key, value in ROW.items() if key != "output_tokens"}
    with pytest.raises(SpecError, match="the length of the answer is not stated"):
        predict_inference(row | {"batch": "engine-chosen", "metric": "ttft_s"})


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("batch_latency_s", "s"),
        ("batch_latency_ms", "ms"),
        ("ttft_us", "us"),
        ("tpot_ms", "ms"),
        ("output_tokens_per_s_total", "tokens/s"),
        ("output_tokens_per_s_per_gpu", "tokens/s per GPU"),
        ("ms_per_token_throughput", "ms per token"),
    ],
)
def test_a_note_gives_its_interval_in_the_unit_of_the_row(metric: str, unit: str) -> None:
    outcome = predict_inference(ROW | {"metric": metric})
    assert outcome.confidence is not None
    low, high = outcome.confidence.interval
    assert f"; {low:.4g} to {high:.4g} {unit}" in f"{outcome.note};"


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"scale_up_bytes_per_s": "900 GB/s"}, "'scale_up_bytes_per_s' is '900 GB/s'"),
        ({"scale_up_bytes_per_s": float("nan")}, "'scale_up_bytes_per_s' is nan"),
        ({"scale_up_bytes_per_s": -1}, "'scale_up_bytes_per_s' is -1"),
        ({"scale_up_bytes_per_s": 10**400}, "a number out of range"),
        (1e9, "'network' is 1000000000.0"),
        ("NVLink", "'network' is 'NVLink'"),
    ],
)
def test_a_network_that_says_nothing_is_no_default(network: object, message: str) -> None:
    with pytest.raises(SpecError, match=message) as refusal:
        predict_inference(ROW | {"network": network})
    assert refusal.value.hint


def test_a_slow_link_and_a_note_are_a_network() -> None:
    slow = {"scale_up_bytes_per_s": 50e9, "note": "PCIe"}
    assert predicted(network=slow) > predicted(network=None) == predicted(network={})
