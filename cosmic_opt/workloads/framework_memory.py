"""`memory_per_npu` of a calibrated instance: the framework's footprint in whole bytes, as a structural quantity."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, Values
from cosmic_opt.units import Unit
from cosmic_opt.workloads.footprint import WORKSPACE_BYTES, footprint
from cosmic_opt.workloads.knobs import DEFAULTS, designs_of, knob_names
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.memory import MemoryBreakdown
from cosmic_opt.workloads.stack import Stack
from cosmic_opt.workloads.stage_load import lighter_stages
from cosmic_opt.workloads.training_designs import FloatArray

MOST_BYTES = 2.0**62
TOGETHER = 1 << 12
"""Designs whose footprints are computed at once: as many stages are looked at of each as of the one that needs most."""


@dataclass(frozen=True, slots=True)
class FrameworkJob:
    """A job as its footprint sees it: `sequence_parallel` is one flag per design."""

    model: LanguageModel
    stack: Stack
    sequence: int
    global_batch: int
    operand_bytes: float = 2.0
    cast_bytes: tuple[float, float] = (0.0, 0.0)
    sequence_parallel: bool | NDArray[np.bool_] = False


def framework_memory(job: FrameworkJob, knobs: Mapping[str, Values]) -> MemoryBreakdown:
    """Return the footprint of the fullest stage in whole bytes, part by part; `knobs` hold every knob of a design.

    Raises:
        LimitError: a part is beyond 2^62 bytes.
    """
    designs, split = designs_of(knobs, job.stack.selective, job.model.layers)
    parts = footprint(replace(job, sequence_parallel=split), designs, job.operand_bytes, job.cast_bytes)
    zeros = np.zeros(designs.tp.shape, dtype=np.int64)
    return MemoryBreakdown(
        weights_bytes=_whole(parts.weights_bytes),
        gradients_bytes=_whole(parts.gradients_bytes),
        optimizer_bytes=_whole(parts.optimizer_bytes),
        activations_bytes=_whole(parts.layers_bytes),
        head_bytes=_whole(parts.logits_bytes),
        workspace_bytes=zeros + int(WORKSPACE_BYTES),
        worst_stage=parts.stage.astype(np.int64),
    )


def _total_bytes(job: FrameworkJob, knobs: Mapping[str, Values]) -> IntArray:
    """Return the footprint of each design; many are computed in parts, those that need as many stages together."""
    designs, _ = designs_of(knobs, job.stack.selective, job.model.layers)
    order = np.argsort(lighter_stages(job.model, designs), kind="stable")
    total = np.zeros(len(order), dtype=np.int64)
    for start in range(0, len(order), TOGETHER):
        rows = order[start : start + TOGETHER]
        own = {knob: each[rows] if each.shape == order.shape else each for knob, each in knobs.items()}
        total[rows] = framework_memory(job, own).total_bytes
    return total


def _whole(amount: FloatArray) -> IntArray:
    if np.any(amount >= MOST_BYTES / 8):
        raise LimitError("a design needs more bytes than are counted here (2^59 in one part)", hint="check the job")
    return np.ceil(amount).astype(np.int64)


def framework_memory_quantity(
    job: FrameworkJob, job_data: Mapping[str, int | str], columns: Collection[str]
) -> Quantity:
    """Return `memory_per_npu`; a knob that is no column has the job's value, or its default."""
    named = knob_names(set(columns))
    fixed = {name: np.array([job_data.get(name, value)]) for name, value in DEFAULTS.items() if name not in named}

    def evaluate(values: Mapping[str, Values]) -> IntArray:
        own = {knob: np.asarray(values[name]) for knob, name in named.items()}
        return _total_bytes(job, {**fixed, **own})

    term = QuantityTerm(tuple(named.values()), evaluate)
    return Quantity("memory_per_npu", Unit.BYTES, (term,), "memory one NPU needs, fullest pipeline stage")
