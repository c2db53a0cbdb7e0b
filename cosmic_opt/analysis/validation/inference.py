"""Measured inference, in the unit each row has: latency of a batch, of a prefill, tokens per second."""

from __future__ import annotations

from dataclasses import replace

from cosmic_opt.analysis.validation.confidence import Confidence
from cosmic_opt.analysis.validation.inference_rows import InferenceRow, read_row
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, text
from cosmic_opt.analysis.validation.measured import SECONDS, metric_of
from cosmic_opt.analysis.validation.row_boards import stated_boards
from cosmic_opt.analysis.validation.row_keys import INFERENCE_KEYS
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.serving_predict import (
    ServingPrediction,
    predict_batch,
    predict_first_token_saturated,
    predict_prefill,
    predict_saturated,
    predict_token,
    predict_token_saturated,
)

LATENCY, PREFILL, POWER = "batch_latency_s", "prefill_time_s", "average_power_w"
TOTAL_RATE, GPU_RATE, TOKEN_TIME = "output_tokens_per_s_total", "output_tokens_per_s_per_gpu", "ms_per_token_throughput"
BETWEEN = "output_token_time_s"
RATE_UNITS = {TOTAL_RATE: "tokens/s", GPU_RATE: "tokens/s per GPU", TOKEN_TIME: "ms per token"}
METRICS = (LATENCY, PREFILL, BETWEEN, POWER, TOTAL_RATE, GPU_RATE, TOKEN_TIME)
ALIASES = {
    **dict.fromkeys(("latency", "e2e_latency", "end_to_end_latency", "batch_latency", "batch_time", "time_s"), LATENCY),
    **dict.fromkeys(("latency_s", "e2e_latency_s", "end_to_end_latency_s", "batch_time_s"), LATENCY),
    **dict.fromkeys(("ttft", "ttft_s", "time_to_first_token", "time_to_first_tokens_s", "prefill_time"), PREFILL),
    **dict.fromkeys(("prefill_latency_s", "prefill_latency", "time_to_first_tokens"), PREFILL),
    **dict.fromkeys(("tpot", "tpot_s", "itl", "itl_s", "inter_tokens_latency", "inter_tokens_latency_s"), BETWEEN),
    **dict.fromkeys(("time_per_output_tokens", "time_per_output_tokens_s", "output_tokens_time"), BETWEEN),
    **dict.fromkeys(("output_tokens_time_s", "time_between_tokens_s", "tbt", "tbt_s"), BETWEEN),
    **dict.fromkeys(("output_tokens_per_s", "output_throughput_tokens_per_s", "output_tps"), TOTAL_RATE),
    **dict.fromkeys(("output_throughput", "generated_tokens_per_s"), TOTAL_RATE),
    **dict.fromkeys(("output_tokens_per_gpu_per_s", "output_tps_per_gpu"), GPU_RATE),
    "ms_per_tokens_throughput": TOKEN_TIME,
    "average_power": POWER,
}
"""Other names in use, spelled as `plain_metric` spells them."""
JOB_FIELDS, OTHER_KINDS = ("engine", "input_tokens", "output_tokens", "new_tokens"), ("gbs", "kernel", "collective")
QUEUE = "the time to a first token counts from admission: waiting in a queue is not stated"
NO_ANSWERS = "the length of the answer is not stated"
NO_POWER = "the power of a board depends on clocks and cooling, which are not inputs"


def predict_inference(row: Row) -> Outcome:
    """Return the row's metric: seconds of a batch or of its prefill, output tokens/s, milliseconds per token.

    A batch that the engine chooses is the saturated one; milliseconds per token count all sequences of the batch. The
    first token of a saturated server comes after a step that is under way and the own prompt, and its row is secondary:
    it may have waited before.

    Raises:
        SpecError: the row lacks an input, names an unknown device, engine or precision, or is not predicted.
    """
    metric, units = metric_of(text(row, "metric"), METRICS, ALIASES)
    if metric == POWER:
        raise SpecError(NO_POWER, hint="give the latency of the batch")
    if metric != PREFILL and not _states_answers(row):
        raise SpecError(NO_ANSWERS, hint="give output_tokens")
    stated = stated_boards(row)
    job, accuracy = read_row(stated), load_accuracy("inference")
    gpus, full = int(job.designs.gpus[0]), job.saturated
    predict = predict_prefill if metric == PREFILL else predict_saturated if full else predict_batch
    if metric == BETWEEN:
        predict = predict_token_saturated if full else predict_token
    if metric == PREFILL and full:
        predict, job = predict_first_token_saturated, _queued(row, job)
    prediction = predict(job.setup, job.designs, job.requests, accuracy)
    confidence = _confidence(metric, job, prediction, units)
    return Outcome(
        predicted=units * _in_metric(metric, job, prediction, gpus),
        note=_note(job, confidence, _unit(metric, units)),
        group=f"inference, {job.setup.engine.name}" + (", saturated" if full else ""),
        gpu=job.setup.device.name,
        gpus=gpus,
        primary=not job.assumed,
        confidence=confidence,
    )


def _states_answers(row: Row) -> bool:
    return bool(row.get("output_tokens") or row.get("new_tokens"))


def _queued(row: Row, job: InferenceRow) -> InferenceRow:
    """Return the job of a first token from a full server, whose steps depend on the answers and which may queue."""
    if not _states_answers(row):
        raise SpecError(NO_ANSWERS, hint="give output_tokens: a full server decodes meanwhile")
    return replace(job, assumed=(*job.assumed, QUEUE))


def _in_metric(metric: str, job: InferenceRow, prediction: ServingPrediction, gpus: int) -> float:
    if metric in (LATENCY, PREFILL, BETWEEN):
        return prediction.seconds
    tokens = prediction.batch * job.requests.output
    if metric == TOKEN_TIME:
        return 1e3 * prediction.seconds / tokens
    return tokens / prediction.seconds / (gpus if metric == GPU_RATE else 1)


def _confidence(metric: str, job: InferenceRow, prediction: ServingPrediction, units: float) -> Confidence:
    """Return how sure the row is, its interval in the row's own unit."""
    gpus = int(job.designs.gpus[0])
    ends = [units * _in_metric(metric, job, replace(prediction, seconds=each), gpus) for each in prediction.interval]
    return Confidence(prediction.hidden_input, (min(ends), max(ends)), prediction.extrapolates)


def _unit(metric: str, units: float) -> str:
    """Return the unit of a row's value; of times, `units` make one second."""
    return RATE_UNITS.get(metric) or next(name for name, number in SECONDS.items() if number == units)


def _note(job: InferenceRow, confidence: Confidence, unit: str) -> str:
    low, high = confidence.interval
    parts = [f"hidden input: {confidence.hidden_input}; {low:.4g} to {high:.4g} {unit}"]
    parts += [f"assumed: {each}" for each in job.assumed]
    parts += [f"extrapolates: {each}" for each in confidence.extrapolates]
    return "; ".join(parts)


def _is_inference(row: Row) -> bool:
    return any(key in row for key in JOB_FIELDS) and not any(key in row for key in OTHER_KINDS)


ROW_KINDS.register("inference")(RowKind(_is_inference, predict_inference, INFERENCE_KEYS))
