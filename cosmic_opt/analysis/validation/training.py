"""Measured training steps, in the unit each row has: step time, tokens per second, TFLOPS per GPU."""

from __future__ import annotations

from cosmic_opt.analysis.validation.confidence import Confidence
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, text, whole
from cosmic_opt.analysis.validation.measured import metric_of, plain_metric
from cosmic_opt.analysis.validation.memory import in_gib
from cosmic_opt.analysis.validation.row_boards import stated_boards
from cosmic_opt.analysis.validation.row_keys import TRAINING_KEYS
from cosmic_opt.analysis.validation.training_rows import TrainingRow, read_row
from cosmic_opt.catalog.stacks import load_accuracy
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.predict import Prediction, predict
from cosmic_opt.workloads.language_model import training_flops

METRICS = (
    *("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "samples_per_s_per_gpu"),
    *("tflops_per_gpu", "tflops_per_gpu_with_recompute"),
)
ALIASES = {
    **dict.fromkeys(("step_time", "iteration_time", "iter_time", "time_per_step", "time_per_iteration"), "step_time_s"),
    **dict.fromkeys(("iteration_time_s", "iter_time_s", "time_per_step_s", "time_per_iteration_s"), "step_time_s"),
    **dict.fromkeys(("step_latency_s", "s_per_step", "s_per_iteration", "elapsed_time_per_iteration"), "step_time_s"),
    **dict.fromkeys(("throughput_tokens_per_s", "tps"), "tokens_per_s"),
    **dict.fromkeys(("tokens_per_gpu_per_s", "tps_per_gpu", "throughput_tokens_per_s_per_gpu"), "tokens_per_s_per_gpu"),
    **dict.fromkeys(("sequences_per_s", "samples_per_s_total"), "samples_per_s"),
    **dict.fromkeys(("sequences_per_s_per_gpu", "samples_per_gpu_per_s"), "samples_per_s_per_gpu"),
    **dict.fromkeys(("tflops", "tflops_per_s_per_gpu", "tflop_per_s_per_gpu", "tflop_s_per_gpu"), "tflops_per_gpu"),
    **dict.fromkeys(("model_tflops_per_gpu", "tflops_gpu", "model_tflops"), "tflops_per_gpu"),
    **dict.fromkeys(("hardware_tflops_per_gpu", "hfu_tflops_per_gpu"), "tflops_per_gpu_with_recompute"),
}
"""Other names in use, spelled as `plain_metric` spells them."""
PASSES = {"tflops_per_gpu": 3, "tflops_per_gpu_with_recompute": 4}
"""Forward passes a step counts as: backward is worth two, full recompute one more."""
COUNTED = {
    "tflops_per_gpu": "attention in full, nothing run again",
    "tflops_per_gpu_with_recompute": "attention in full, layers run again",
}
"""What is counted (Narayanan 2021, eq. 3): frameworks and papers count the whole square of scores."""
JOB_FIELDS = ("gbs", "mbs", "dp", "stack")
OTHER_KINDS = ("kernel", "collective", "engine", "input_tokens", "output_tokens", "new_tokens", "cycles_ns")
"""Fields that a row of this kind alone has, and fields that only others have."""
NO_STEPS = "the time to train needs the number of steps, which is not an input"


def predict_training(row: Row) -> Outcome:
    """Return the row's metric: seconds of a step, tokens or samples per second (of a job or GPU), TFLOPS of a GPU.

    Raises:
        SpecError: the row lacks an input, names an unknown device, stack or precision, or its metric is not a step's.
    """
    row = stated_boards(row)
    metric, units = step_metric(row)
    job = read_row(row)
    gpus = whole(row, "gpus")
    prediction = predict(job.setup, job.designs, load_accuracy(), recompute_stated=job.recompute_stated)
    counted = [f"FLOPs: {COUNTED[metric]}"] if metric in PASSES else []
    return Outcome(
        predicted=units * _in_metric(metric, job, prediction.step_s, gpus),
        note="; ".join([_note(job, prediction), *counted]),
        group=_group(job),
        gpu=job.setup.device.name,
        gpus=gpus,
        primary=not job.assumed,
        confidence=_confidence(metric, job, prediction, units, gpus),
        choice=_choice(row, job) if metric == "step_time_s" else None,
    )


def _confidence(metric: str, job: TrainingRow, prediction: Prediction, units: float, gpus: int) -> Confidence:
    """Return how sure the row is, its interval in the row's own unit."""
    ends = [units * _in_metric(metric, job, each, gpus) for each in prediction.interval]
    return Confidence(prediction.hidden_input, (min(ends), max(ends)), prediction.extrapolates)


def step_metric(row: Row) -> tuple[str, float]:
    """Return the metric of a row, and how many of the row's units one of its units is.

    Raises:
        SpecError: an unknown metric, or one that needs the number of steps.
    """
    name = text(row, "metric")
    if plain_metric(name).startswith("time_to_train"):
        raise SpecError(NO_STEPS, hint="give the time of one step")
    return metric_of(name, METRICS, ALIASES)


def _choice(row: Row, job: TrainingRow) -> str:
    """Return the job a row is a split of."""
    device = job.setup.device
    parts = (row.get("model"), device.name, device.power_w, job.setup.stack.name, job.setup.recipe.name)
    sizes = (row.get("gpus"), job.setup.global_batch, job.setup.sequence)
    return " ".join(str(part) for part in (*parts, *sizes))


def _in_metric(metric: str, job: TrainingRow, step_s: float, gpus: int) -> float:
    setup = job.setup
    if metric == "step_time_s":
        return step_s
    if metric in PASSES:
        flops = training_flops(setup.model, setup.global_batch, setup.sequence, PASSES[metric])
        return flops / (step_s * gpus) / 1e12
    rate = setup.global_batch / step_s * (setup.sequence if metric.startswith("tokens") else 1)
    return rate / gpus if metric.endswith("per_gpu") else rate


def _group(job: TrainingRow) -> str:
    if job.setup.model.experts is not None:
        return "training, experts"
    if job.setup.recipe.cast_bytes:
        return f"training, dense {job.setup.recipe.precision}"
    return "training, dense 16 bit"


def _note(job: TrainingRow, prediction: Prediction) -> str:
    low, high = prediction.interval
    parts = [f"hidden input: {prediction.hidden_input}; step {low:.4g} to {high:.4g} s"]
    parts += [f"assumed: {each}" for each in job.assumed]
    parts += [f"extrapolates: {each}" for each in prediction.extrapolates]
    return "; ".join(parts)


def _is_training(row: Row) -> bool:
    """Tell whether a row is a training step, also one that lacks a size: it is refused by that size's name."""
    if "gbs" in row and "seq" in row:
        return True
    return any(key in row for key in JOB_FIELDS) and not (any(key in row for key in OTHER_KINDS) or in_gib(row))


ROW_KINDS.register("training")(RowKind(_is_training, predict_training, TRAINING_KEYS))
