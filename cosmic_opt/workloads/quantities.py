"""Structural quantities of a workload: what a rule such as `memory_per_npu <= memory_capacity` refers to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from cosmic_opt._registry import Registry
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, Values
from cosmic_opt.units import Unit
from cosmic_opt.workloads.memory import Designs, check_range, host_memory_per_npu, memory_per_npu
from cosmic_opt.workloads.memory_cosmic import memory_per_npu_cosmic
from cosmic_opt.workloads.training import OFFLOADS, TrainingJob, training_job
from cosmic_opt.workloads.transformer import Transformer

QuantityBuilder = Callable[[Transformer, Mapping[str, int | str], Collection[str]], Quantity]
"""Builds a quantity from the workload, the instance's job data and the names that are design columns.

A name that is not a column is read from the job data once, here; so the quantity depends on columns alone.
"""

HOST_MEMORY = "host_memory_per_npu"

QUANTITIES: Registry[QuantityBuilder] = Registry("workload quantity")


@QUANTITIES.register("memory_per_npu")
def build_memory(workload: Transformer, job_data: Mapping[str, int | str], columns: Collection[str]) -> Quantity:
    """Bytes of the worst pipeline stage; see `workloads.memory`.

    Raises:
        SpecError: the job data are not a training job, or both `zero_stage` and `weight_sharded` are columns.
        LimitError: the job is too large to count in 63 bits.
    """
    if "zero_stage" in columns and "weight_sharded" in columns:
        raise SpecError(
            "zero_stage and weight_sharded both say what is sharded",
            hint="keep one of the two parameters; weight_sharded = 1 means zero_stage = 3",
        )
    job = training_job(workload, job_data)
    check_range(workload, job)
    term = _term(job, job_data, columns, lambda designs: memory_per_npu(workload, job, designs).total_bytes)
    return Quantity("memory_per_npu", Unit.BYTES, (term,), "memory one NPU needs, worst pipeline stage")


def build_host_memory(workload: Transformer, job_data: Mapping[str, int | str], columns: Collection[str]) -> Quantity:
    """Bytes in host memory of the worst pipeline stage; see `workloads.memory`. For models with offloading knobs.

    Raises:
        SpecError: the job data are not a training job.
        LimitError: the job is too large to count in 63 bits.
    """
    job = training_job(workload, job_data)
    check_range(workload, job)
    term = _term(job, job_data, columns, lambda designs: host_memory_per_npu(workload, job, designs))
    return Quantity(HOST_MEMORY, Unit.BYTES, (term,), "host memory that one NPU's layers need, worst pipeline stage")


def _term(
    job: TrainingJob,
    job_data: Mapping[str, int | str],
    columns: Collection[str],
    footprint: Callable[[Designs], IntArray],
) -> QuantityTerm:
    """Return a footprint as a function of the columns among those it depends on."""
    degrees = ("dp", "tp", "pp", "sp")
    others = ("zero_stage", "weight_sharded", "micro_batch", "recompute", "sequence_parallel", "interleave", *OFFLOADS)
    names = tuple(name for name in (*degrees, *others) if name in columns)
    fixed = _fixed_degrees(job_data, names)

    def evaluate(values: Mapping[str, Values]) -> IntArray:
        designs = {**fixed, **values}
        if "weight_sharded" in designs:
            designs["zero_stage"] = 3 * designs.pop("weight_sharded")
        return footprint(Designs.of(job, designs))

    return QuantityTerm(names, evaluate)


@QUANTITIES.register("memory_per_npu_cosmic")
def build_memory_cosmic(workload: Transformer, job_data: Mapping[str, int | str], columns: Collection[str]) -> Quantity:
    """Bytes by COSMIC's simplified model; see `workloads.memory_cosmic`.

    Raises:
        SpecError: the job data are not a training job.
    """
    job = training_job(workload, job_data)
    depends_on = ("dp", "sp", "tp", "pp", "weight_sharded")
    names = tuple(name for name in depends_on if name in columns)
    fixed = _fixed_degrees(job_data, names)
    if "weight_sharded" not in names:
        fixed["weight_sharded"] = np.array([int(job_data.get("weight_sharded", 0))])

    def evaluate(values: Mapping[str, Values]) -> IntArray:
        columns_and_fixed = {**fixed, **values}
        arrays = np.broadcast_arrays(*(columns_and_fixed[name] for name in depends_on))
        return memory_per_npu_cosmic(workload, job, dict(zip(depends_on, arrays, strict=True)))

    term = QuantityTerm(names, evaluate)
    return Quantity("memory_per_npu_cosmic", Unit.BYTES, (term,), "memory one NPU needs by COSMIC's own formula")


def _fixed_degrees(job_data: Mapping[str, int | str], names: Collection[str]) -> dict[str, Values]:
    """The parallel degrees that are not columns: the job's, or 1."""
    missing = [name for name in ("dp", "tp", "pp", "sp") if name not in names]
    return {name: np.array([int(job_data.get(name, 1))]) for name in missing}
