"""The score of one design: metrics, where the time goes, memory against capacity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.reporting.cluster_warnings import cluster_warnings
from cosmic_opt.reporting.numbers import percent, rate, shares, table
from cosmic_opt.reporting.serving_scores import memory_keys, origin_lines, serving_text, serving_warnings
from cosmic_opt.reporting.system_scores import system_text
from cosmic_opt.search.report import Report
from cosmic_opt.simulation.calibrated.predict import UNKNOWN_GROUP, Prediction
from cosmic_opt.simulation.calibrated.serving_predict import ServingPrediction
from cosmic_opt.units import Unit, show, show_seconds
from cosmic_opt.workloads.memory import MemoryBreakdown
from cosmic_opt.workloads.quantities import HOST_MEMORY
from cosmic_opt.workloads.serving_quantities import ServingMemory

COSMIC_MEMORY = "memory_per_npu_cosmic"
MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "head", "workspace")


def score_keys(report: Report) -> dict[str, object]:
    """Return `metrics`, `breakdown` and `memory`; `breakdown` adds up to `metrics.step_time_s`.

    Of a server, it adds up to `metrics.output_token_time_s`, and `first_token` to `metrics.first_token_time_s`.
    """
    return {
        "metrics": dict(report.metrics),
        "breakdown": {_key(name): seconds for name, seconds in report.terms_s.items()},
        **(
            {"first_token": {_key(name): part for name, part in report.first_token_s.items()}}
            if report.first_token_s
            else {}
        ),
        "hidden": {_key(name): seconds for name, seconds in report.hidden_s.items()},
        "bottleneck": report.bottleneck,
        "memory": _memory_keys(report.memory),
        "warnings": warnings(report),
        "prediction": None if report.prediction is None else _prediction_keys(report.prediction),
    }


def _memory_keys(memory: MemoryBreakdown | Mapping[str, ServingMemory]) -> dict[str, object]:
    if not isinstance(memory, MemoryBreakdown):
        return memory_keys(memory)
    return {
        **{f"{part}_bytes": int(getattr(memory, f"{part}_bytes")[0]) for part in MEMORY_PARTS},
        "worst_stage": int(memory.worst_stage[0]),
    }


def _prediction_keys(prediction: Prediction | ServingPrediction) -> dict[str, object]:
    low, high = prediction.interval
    return {
        "low_s": low,
        "high_s": high,
        "group": prediction.group,
        "hidden_input": prediction.hidden_input,
        "extrapolates": list(prediction.extrapolates),
        "calibrated": None if prediction.origin is None else asdict(prediction.origin),
    }


def _key(name: str) -> str:
    return re.sub(r"[^a-z]+", "_", name).strip("_") + "_s"


def warnings(report: Report) -> list[str]:
    """Return what a person must know before trusting the design."""
    found = npu_warnings(report)
    if not isinstance(report.memory, MemoryBreakdown):
        return found + serving_warnings(report.memory)
    need, capacity = _metric(report, "memory_bytes"), _metric(report, "memory_capacity_bytes")
    if need <= capacity:
        return found
    return [
        *found,
        f"the faithful footprint, {show(need, Unit.BYTES)}, exceeds the memory of one NPU, "
        f"{show(capacity, Unit.BYTES)}: require 'memory_per_npu <= memory_capacity' to exclude such designs",
    ]


def npu_warnings(report: Report) -> list[str]:
    """Return the warnings about the NPUs that a design uses."""
    serves = not isinstance(report.memory, MemoryBreakdown)
    return cluster_warnings(report.npus_used, report.npus, report.stated_npus, serves=serves)


def score_text(report: Report, instance: BoundInstance) -> str:
    """Return the score on one screen, without the design itself."""
    if not isinstance(report.memory, MemoryBreakdown):
        own = serving_text(report, report.memory, instance)
        return "\n\n".join([own, *(f"warning: {text}" for text in warnings(report))])
    parts = [_rates(report, instance), _breakdown(report), _memory(report, report.memory, instance), _network(report)]
    if report.prediction is not None:
        parts.insert(1, _prediction(report.prediction, instance))
    return "\n\n".join([*parts, *(f"warning: {text}" for text in warnings(report))])


def _metric(report: Report, name: str) -> int:
    return int(report.metrics[name] or 0)


def _rates(report: Report, instance: BoundInstance) -> str:
    metrics = report.metrics
    achieved = show(float(metrics["model_flop_per_s_per_npu"] or 0), Unit.FLOP_PER_S)
    fraction = float(metrics["model_flop_fraction"] or 0)
    peak = show(_peak(instance), Unit.FLOP_PER_S)
    rows = [
        ("step time", show_seconds(float(metrics["step_time_s"] or 0)), f"{metrics['micro_batches']} micro-batches"),
        (
            "throughput",
            f"{rate(metrics['throughput_sequences_per_s'])} sequences/s",
            f"{rate(metrics['throughput_tokens_per_s'])} tokens/s, all NPUs together",
        ),
        (
            "achieved",
            f"{achieved} per NPU",
            f"{percent(fraction)} of the peak, {peak}{_convention(instance)}",
        ),
    ]
    return table((), rows)


def _convention(instance: BoundInstance) -> str:
    """Return how FLOPs of a calibrated step are counted; published TFLOPS count attention in full."""
    return " (attention: causal half)" if isinstance(instance.calibrated, Calibrated) else ""


def _peak(instance: BoundInstance) -> float:
    """Return the peak that achieved FLOP/s are compared with: of the recipe's precision where a stack runs."""
    if not isinstance(instance.calibrated, Calibrated):
        return instance.npu.peak_flop_per_s
    return instance.calibrated.device.peak(instance.calibrated.recipe.precision)


def _prediction(prediction: Prediction | ServingPrediction, instance: BoundInstance) -> str:
    """Return how sure the step is, and what decides it that nobody states."""
    low, high = (show_seconds(seconds) for seconds in prediction.interval)
    data = instance.data
    basis = "from all measured steps, widened" if prediction.group == UNKNOWN_GROUP else prediction.group
    lines = [
        f"  measured steps lie between {low} and {high} nine times in ten ({basis})",
        f"  stack {data['stack']}, precision {data['precision']}; the hidden input that moves it most: "
        f"{prediction.hidden_input}",
        *origin_lines(prediction.origin),
        *(f"  extrapolates: {each}" for each in prediction.extrapolates),
    ]
    return "\n".join(lines)


def _breakdown(report: Report) -> str:
    terms = {name: seconds for name, seconds in report.terms_s.items() if seconds > 0}
    parts = shares(list(terms.values()))
    rows = [(name, show_seconds(seconds), part) for (name, seconds), part in zip(terms.items(), parts, strict=True)]
    rows.append(("step", show_seconds(float(report.metrics["step_time_s"] or 0)), "100.0 %"))
    lines = [table(("where the time goes", "time", "share"), rows, right=(1, 2))]
    hidden = [f"{name} {show_seconds(seconds)}" for name, seconds in report.hidden_s.items() if seconds > 0]
    if hidden:
        lines.append(f"  behind compute, not in the sum: {', '.join(hidden)}")
    return "\n".join([*lines, f"  bottleneck: {report.bottleneck}"])


def _memory(report: Report, memory: MemoryBreakdown, instance: BoundInstance) -> str:
    """Return the faithful footprint part by part; COSMIC's own where a rule speaks of it, and host memory."""
    need, capacity = _metric(report, "memory_bytes"), _metric(report, "memory_capacity_bytes")
    amounts = {part: int(getattr(memory, f"{part}_bytes")[0]) for part in MEMORY_PARTS}
    rows = [(part, show(amount, Unit.BYTES), "") for part, amount in amounts.items() if amount]
    rows.append(("faithful total", show(need, Unit.BYTES), _headroom(need, capacity)))
    own = report.quantities.get(COSMIC_MEMORY)
    if own is not None and any(COSMIC_MEMORY in rule.text for rule in instance.parameter_set.constraints):
        rows.append(("COSMIC's own formula", show(own, Unit.BYTES), _headroom(own, capacity)))
    host = report.quantities.get(HOST_MEMORY)
    if host:
        rows.append(("in host memory", show(host, Unit.BYTES), _headroom(host, int(instance.data["host_capacity"]))))
    stage = int(memory.worst_stage[0])
    return table((f"memory of one NPU, stage {stage}", "bytes", "of its capacity"), rows, right=(1,))


def _headroom(need: int, capacity: int) -> str:
    used = f"{percent(need / capacity)} of {show(capacity, Unit.BYTES)}"
    word, left = ("free", capacity - need) if need <= capacity else ("TOO MUCH", need - capacity)
    return f"{used}, {show(left, Unit.BYTES)} {word}"


def _network(report: Report) -> str:
    """Return the network's bandwidth and cost, and those of the system where its files give them."""
    bandwidth, cost = report.metrics["total_bandwidth_bytes_per_s"], report.metrics["network_cost"]
    shown = "without prices" if cost is None else f"cost {show(cost, Unit.DOLLARS)}"
    total = (
        "" if bandwidth is None else f"{show(bandwidth, Unit.BYTES_PER_S)} per NPU and direction over all dimensions, "
    )
    return "\n".join(filter(None, [f"  network: {total}{shown}", system_text(report, "a step", network_above=True)]))
