"""The job a training run does with its workload, and every default it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.workloads.transformer import Transformer

RECOMPUTE = ("none", "selective", "full")
ATTENTION_KERNELS = ("flash", "unfused")
OFFLOADS = ("weight_offload", "activation_offload", "optimizer_offload")
"""Flags of what lies in host memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What one optimizer step processes and how it stores it.

    The precision defaults are mixed-precision Adam (18 bytes per parameter: Narayanan 2021, section 3.5).

    Attributes:
        global_batch: Sequences of one step over all NPUs.
        sequence: Tokens of a sequence.
        micro_batch: Sequences one pipeline pass processes.
        recompute: What backward runs again instead of keeping it: "none", "selective" (attention core), "full".
        zero_stage: What is sharded over dp * sp: 1 optimizer states, 2 and gradients, 3 and weights. Gradients
            stay whole while micro-batches accumulate, and so do weights under a pipeline: traffic then runs once
            a step, which is how frameworks combine them.
        sequence_parallel: 1 if norms and residuals are split over tp too (Korthikanti 2022), else 0.
        interleave: Pieces that every pipeline stage is cut in, each with a share of its layers (Narayanan 2021, 2.2).
        weight_offload, activation_offload, optimizer_offload: 1 if the layers' weights, kept activations or optimizer
            states lie in host memory, but for two layers' (Isaev 2023), else 0.
        attention_kernel: "flash" keeps no attention scores; "unfused" keeps them.
        cosmic_layers: Layers COSMIC's own footprint counts (its `num_stacks`); nothing else uses it.
    """

    global_batch: int
    sequence: int
    micro_batch: int = 1
    recompute: str = "none"
    zero_stage: int = 0
    sequence_parallel: int = 0
    interleave: int = 1
    weight_offload: int = 0
    activation_offload: int = 0
    optimizer_offload: int = 0
    attention_kernel: str = "flash"
    bytes_per_weight: int = 2
    bytes_per_gradient: int = 4
    bytes_per_optimizer_state: int = 12
    bytes_per_activation: int = 2
    cosmic_layers: int = 4

    def __post_init__(self) -> None:
        for name in ("global_batch", "sequence", "micro_batch", "interleave", "cosmic_layers", "bytes_per_activation"):
            _require(getattr(self, name) >= 1, self, name, "it must be at least 1")
        for name in ("bytes_per_weight", "bytes_per_gradient", "bytes_per_optimizer_state"):
            _require(getattr(self, name) >= 0, self, name, "it must not be negative")
        _require(self.zero_stage in range(4), self, "zero_stage", "allowed: 0, 1, 2, 3")
        for name in ("sequence_parallel", *OFFLOADS):
            _require(getattr(self, name) in (0, 1), self, name, "allowed: 0, 1")
        _require(self.recompute in RECOMPUTE, self, "recompute", nearest(self.recompute, RECOMPUTE))
        kernel = nearest(self.attention_kernel, ATTENTION_KERNELS)
        _require(self.attention_kernel in ATTENTION_KERNELS, self, "attention_kernel", kernel)


def training_job(workload: Transformer, data: Mapping[str, int | str]) -> TrainingJob:
    """Return the job that instance data describe; names that are not a job's are ignored.

    `sequence` falls back to the workload's own, and COSMIC's `weight_sharded` (0 or 1) means ZeRO stage 0 or 3
    where no `zero_stage` is given.

    Raises:
        SpecError: `global_batch` is missing, or a value is of the wrong type or out of range.
    """
    values: dict[str, int | str] = {"sequence": workload.sequence}
    if "weight_sharded" in data:
        values["zero_stage"] = 3 * _whole_number("weight_sharded", data["weight_sharded"])
    known = {field.name: field.type for field in fields(TrainingJob)}
    for name, value in data.items():
        if name in known:
            values[name] = _text(name, value) if known[name] == "str" else _whole_number(name, value)
    if "global_batch" not in values:
        raise SpecError(
            "a training job needs its global batch",
            where=Where(key="global_batch"),
            hint="give global_batch, in sequences, for example 2048",
        )
    return TrainingJob(**values)  # type: ignore[arg-type]  # narrowed field by field above


def _whole_number(name: str, value: int | str) -> int:
    if isinstance(value, str):
        raise SpecError(f"{name} is {value!r}, a whole number is meant", where=Where(key=name), hint="for example 1")
    return int(value)


def _text(name: str, value: int | str) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{name} is {value!r}, a name is meant", where=Where(key=name), hint="write it as text")
    return value


def _require(fact: bool, job: TrainingJob, name: str, hint: str | None) -> None:
    if not fact:
        raise SpecError(f"{name} is {getattr(job, name)!r}", where=Where(key=name), hint=hint)
