"""What a serving prediction says about itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_opt.catalog.engines import load_engine
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.serving import batch_terms as terms_of
from cosmic_opt.simulation.calibrated.serving import total_s
from cosmic_opt.simulation.calibrated.serving_coverage import LOADS, accuracy_group, measured_format
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns
from cosmic_opt.simulation.calibrated.serving_predict import (
    RULED,
    ServingPrediction,
    predict_batch,
    predict_prefill,
    predict_saturated,
    predict_token,
)
from cosmic_opt.workloads.requests import Requests
from tests.unit.simulation.calibrated.servers import LLAMA_70B, MIXTRAL, server

ACCURACY = load_accuracy("inference")
REQUESTS = Requests(prompt=1024, output=256)


def batch(setup=None, **degrees: int) -> ServingPrediction:  # type: ignore[no-untyped-def]
    return predict_batch(setup or server(), ServingDesigns.of(**degrees), REQUESTS, ACCURACY)


@pytest.mark.parametrize("predict", [predict_batch, predict_prefill, predict_saturated])
@pytest.mark.parametrize("model", [LLAMA_70B, MIXTRAL])
def test_terms_sum_to_the_time_exactly(predict, model) -> None:  # type: ignore[no-untyped-def]
    prediction = predict(server(model), ServingDesigns.of(tp=4, batch=16), REQUESTS, ACCURACY)
    assert sum(prediction.terms.values()) == prediction.seconds
    low, high = prediction.interval
    assert low < prediction.seconds < high


def test_the_prediction_of_a_batch_is_its_terms() -> None:
    assert batch(batch=4).seconds == total_s(terms_of(server(), ServingDesigns.of(batch=4), REQUESTS))[0]


def test_the_interval_is_the_groups_p90() -> None:
    prediction = batch()
    p90 = ACCURACY.p90["vllm h100-sxm"]
    assert prediction.group == "vllm h100-sxm"
    assert prediction.interval == (prediction.seconds / (1 + p90), prediction.seconds / (1 - p90))


def test_an_unmeasured_group_has_the_widest_interval() -> None:
    assert batch(server(gpu="b300")).interval[0] == pytest.approx(
        batch(server(gpu="b300")).seconds / (1 + ACCURACY.p90["other"])
    )


def test_the_dominant_hidden_input_follows_the_terms() -> None:
    short = predict_batch(server(), ServingDesigns.of(batch=64), Requests(128, 128), ACCURACY)
    assert short.hidden_input == "engine release"
    long = predict_batch(server(), ServingDesigns.of(batch=16), Requests(8000, 2000), ACCURACY)
    assert long.hidden_input == "attention generation"
    prompt = predict_prefill(server(), ServingDesigns.of(batch=16), Requests(1024, 1), ACCURACY)
    assert prompt.hidden_input == "kernel library"


def test_every_term_is_ruled_by_some_hidden_input() -> None:
    ruled = {term for terms in RULED.values() for term in terms}
    assert ruled == set(batch(server(MIXTRAL), tp=2).terms)


@pytest.mark.parametrize(
    ("gpu", "degrees", "requests", "reason"),
    [
        ("gh200", {}, REQUESTS, "gemm constants of gh200 are another device's"),
        ("b300", {}, REQUESTS, "no measured inference on b300"),
        ("h100-sxm", {"tp": 8, "dp": 2}, REQUESTS, "more than 8 GPUs"),
        ("h100-sxm", {}, Requests(100_000, 1), "contexts longer than 22,000 tokens"),
        ("h100-sxm", {"batch": 4096}, REQUESTS, "runs in waves"),
    ],
)
def test_what_lies_outside_the_measured_range_is_said(
    gpu: str, degrees: dict[str, int], requests: Requests, reason: str
) -> None:
    found = predict_batch(server(gpu=gpu), ServingDesigns.of(**degrees), requests, ACCURACY).extrapolates
    assert any(reason in each for each in found)


def test_a_small_job_on_a_measured_device_extrapolates_nothing() -> None:
    assert batch(batch=8).extrapolates == ()


def test_weights_beyond_the_memory_are_said() -> None:
    found = batch(server(LLAMA_70B)).extrapolates
    assert "the weights exceed the device's memory" in found


def test_a_saturated_server_of_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SpecError, match="no sequence fits"):
        predict_saturated(server(LLAMA_70B), ServingDesigns.of(), REQUESTS, ACCURACY)


def test_a_prediction_is_of_one_design() -> None:
    with pytest.raises(SpecError, match="2 designs"):
        predict_batch(server(), ServingDesigns.of(tp=[1, 2]), REQUESTS, ACCURACY)


@pytest.mark.parametrize(
    ("engine", "gpu", "numbers", "predict", "reasons"),
    [
        ("tensorrt-llm-2025", "h200-sxm", "fp8", predict_saturated, ()),
        ("tensorrt-llm-2025", "h200-sxm", "bf16", predict_saturated, ("no measured bf16",)),
        ("tensorrt-llm-2025", "h200-sxm", "fp8", predict_batch, ("no measured latency",)),
        ("tensorrt-llm-2025", "h200-sxm", "bf16", predict_batch, ("no measured bf16", "no measured latency")),
        ("tensorrt-llm-2025", "h200-sxm", "fp8", predict_token, ("no measured latency",)),
        ("tensorrt-llm-2025", "h200-sxm", "fp8", predict_prefill, ("no measured latency",)),
        ("vllm", "h100-sxm", "bf16", predict_batch, ()),
        ("vllm", "h100-sxm", "int4", predict_batch, ("no measured int4",)),
        ("vllm", "h100-sxm", "fp8", predict_saturated, ("no measured saturated server",)),
        ("vllm", "b200", "fp8", predict_batch, ("no measured inference with vllm on b200",)),
    ],
)
def test_a_precision_or_load_no_row_of_its_group_has_is_said(  # type: ignore[no-untyped-def]
    engine: str, gpu: str, numbers: str, predict, reasons: tuple[str, ...]
) -> None:
    setup = server(gpu=gpu, engine=engine, numbers=numbers)
    prediction = predict(setup, ServingDesigns.of(), REQUESTS, ACCURACY)
    found = [each for each in prediction.extrapolates if each.startswith("no measured")]
    assert len(found) == len(reasons)
    for each, reason in zip(found, reasons, strict=True):
        assert reason in each
    own, unknown = ACCURACY.p90.get(prediction.group, 0.0), ACCURACY.p90["other"]
    p90 = max(2 * own, unknown) if reasons else own
    assert prediction.interval[0] == pytest.approx(prediction.seconds / (1 + p90))


def test_an_engine_of_one_s_own_has_no_known_accuracy_whatever_its_name(tmp_path: Path) -> None:
    shipped = data_root() / "instances" / "_engines" / "vllm.yaml"
    own = tmp_path / "mine.yaml"
    own.write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    setup = replace(server(engine="vllm"), engine=load_engine(str(own)))
    found = batch(setup)
    assert setup.engine.name == "vllm"
    assert any("a file of one's own" in each for each in found.extrapolates)
    assert found.interval[0] == pytest.approx(found.seconds / (1 + ACCURACY.p90["other"]))


def test_every_group_covers_known_formats_and_loads() -> None:
    assert set(ACCURACY.p90) - {"other"} <= set(ACCURACY.covers)
    for group, covered in ACCURACY.covers.items():
        engine, gpu = group.split()
        assert covered.loads <= set(LOADS)
        for numbers in covered.precisions:
            setup = server(gpu=gpu, engine=engine, numbers=numbers)
            assert (accuracy_group(setup), measured_format(setup)) == (group, numbers)


def test_a_job_beyond_the_measured_sizes_has_an_unknown_groups_interval() -> None:
    prediction = batch(tp=8, dp=2)
    assert prediction.interval[0] == pytest.approx(prediction.seconds / (1 + ACCURACY.p90["other"]))
