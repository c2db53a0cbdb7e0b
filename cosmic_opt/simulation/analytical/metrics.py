"""What people ask about a scored step: throughput and achieved FLOP/s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.analytical.tables import FloatArray, IntArray
from cosmic_opt.system.npu import Npu
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.operators import attended_context
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Metrics:
    """Rates of n steps.

    Attributes:
        step_time_s: float64 [n].
        sequences_per_s, tokens_per_s: float64 [n], over all NPUs.
        model_flop_per_s: float64 [n], per NPU: FLOPs of the model, without recomputation, by step time.
        model_flop_fraction: float64 [n], of the NPU's peak (MFU: Chowdhery 2022, appendix B).
    """

    step_time_s: FloatArray
    sequences_per_s: FloatArray
    tokens_per_s: FloatArray
    model_flop_per_s: FloatArray
    model_flop_fraction: FloatArray


def measure(
    workload: Transformer,
    job: TrainingJob,
    npu: Npu,
    npus: int | IntArray,
    step_ticks: IntArray,
    *,
    causal_half: bool = False,
) -> Metrics:
    """Return the metrics of steps of `step_ticks` [n] on `npus` NPUs each, those that the designs use.

    `causal_half` counts half of a causal model's attention, as the simulator built with it does.

    Raises:
        SpecError: a step takes no time.
    """
    if np.any(step_ticks < 1):
        raise SpecError("a step of no time has no throughput", hint="score the design first")
    seconds = step_ticks / TICKS_PER_SECOND
    per_npu = model_flops(workload, job, causal_half=causal_half) / npus / seconds
    fraction = per_npu / npu.peak_flop_per_s
    sequences = job.global_batch / seconds
    return Metrics(seconds, sequences, sequences * job.sequence, per_npu, fraction)


def model_flops(workload: Transformer, job: TrainingJob, *, causal_half: bool = False) -> int:
    """Return the FLOPs of one step by shape algebra: backward twice forward, nothing run again."""
    full = workload.training_flops(job.global_batch, job.sequence)
    skipped = job.sequence - attended_context(workload, job.sequence, causal_half=causal_half)
    tokens = job.global_batch * job.sequence
    return full - 3 * workload.layers * tokens * skipped * workload.attention_flops_per_key
