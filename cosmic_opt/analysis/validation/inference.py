"""Measured inference, in the unit each row has: latency of a batch, of a prefill, tokens per second."""

from __future__ import annotations

from cosmic_opt.analysis.validation.inference_rows import InferenceRow, read_row
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, text, whole
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.calibrated.serving_predict import (
    ServingPrediction,
    predict_batch,
    predict_prefill,
    predict_saturated,
)

LATENCY, PREFILL, POWER = "batch_latency_s", "prefill_time_s", "average_power_w"
TOTAL_RATE, GPU_RATE, TOKEN_TIME = "output_tokens_per_s_total", "output_tokens_per_s_per_gpu", "ms_per_token_throughput"
METRICS = (LATENCY, PREFILL, POWER, TOTAL_RATE, GPU_RATE, TOKEN_TIME)
NO_POWER = "the power of a board depends on clocks and cooling, which are not inputs"


def predict_inference(row: Row) -> Outcome:
    """Return the row's metric: seconds of a batch or of its prefill, output tokens/s, milliseconds per token.

    A batch that the engine chooses is the saturated one; milliseconds per token count all sequences of the batch.

    Raises:
        SpecError: the row lacks an input, names an unknown device, engine or precision, or is not predicted.
    """
    metric = text(row, "metric")
    if metric == POWER:
        raise SpecError(NO_POWER, hint="give the latency of the batch")
    if metric not in METRICS:
        raise SpecError(f"unknown metric {metric!r}", hint=nearest(metric, METRICS))
    job, gpus, accuracy = read_row(row), whole(row, "gpus"), load_accuracy("inference")
    full = isinstance(row.get("batch"), str)
    predict = predict_prefill if metric == PREFILL else predict_saturated if full else predict_batch
    prediction = predict(job.setup, job.designs, job.requests, accuracy)
    return Outcome(
        predicted=_in_metric(metric, job, prediction, gpus),
        note=_note(job, prediction),
        group=f"inference, {job.setup.engine.name}" + (", saturated" if full else ""),
        gpu=job.setup.device.name,
        gpus=gpus,
        primary=not job.assumed,
    )


def _in_metric(metric: str, job: InferenceRow, prediction: ServingPrediction, gpus: int) -> float:
    if metric in (LATENCY, PREFILL):
        return prediction.seconds
    tokens = prediction.batch * job.requests.output
    if metric == TOKEN_TIME:
        return 1e3 * prediction.seconds / tokens
    return tokens / prediction.seconds / (gpus if metric == GPU_RATE else 1)


def _note(job: InferenceRow, prediction: ServingPrediction) -> str:
    low, high = prediction.interval
    parts = [f"hidden input: {prediction.hidden_input}; {low:.4g} to {high:.4g} s"]
    parts += [f"assumed: {each}" for each in job.assumed]
    parts += [f"extrapolates: {each}" for each in prediction.extrapolates]
    return "; ".join(parts)


def _is_inference(row: Row) -> bool:
    return "engine" in row and ("output_tokens" in row or "new_tokens" in row)


ROW_KINDS.register("inference")(RowKind(_is_inference, predict_inference))
