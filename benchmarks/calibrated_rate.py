"""Predictions per second of the calibrated step model: Llama-3.1 405B on 16,384 H100, one core, every term.

python benchmarks/calibrated_rate.py [designs]
"""

from __future__ import annotations

import time

import numpy as np
from arguments import number_given

from cosmic_opt.api import Problem
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.search.score import kernel_columns, simulator_of
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.footprint import footprint
from cosmic_opt.workloads.language_model import LanguageModel

LLAMA_405B = LanguageModel(
    name="llama3-405b", layers=126, hidden=16384, heads=128, kv_heads=8, head_dim=128, ffn=53248, vocabulary=128256
)
GPUS = 16384


def designs(count: int, rng: np.random.Generator) -> TrainingDesigns:
    tp, cp = 2 ** rng.integers(0, 5, count), 2 ** rng.integers(0, 5, count)
    pp = 2 ** rng.integers(0, 6, count)
    return TrainingDesigns.of(
        dp=GPUS // (tp * cp * pp),
        tp=tp,
        pp=pp,
        cp=cp,
        interleave=np.minimum(2 ** rng.integers(0, 4, count), 128 // pp),  # a layer on each virtual stage but two
        micro_batch=2 ** rng.integers(0, 4, count),
        zero_stage=rng.integers(0, 4, count),
        recompute=Recompute.of(rng.integers(0, 2, count).astype(float)),
    )


def main(count: int) -> None:
    setup = TrainingSetup(
        model=LLAMA_405B,
        device=load_device("h100-sxm"),
        stack=load_stack("megatron-te-2025"),
        recipe=load_recipe("bf16"),
        sequence=8192,
        global_batch=2048,
        gpus_per_node=8,
        nic_bytes_per_s=50e9,
        sequence_parallel=True,
    )
    batch = designs(count, np.random.default_rng(0))
    step_time(setup, batch)
    start = time.process_time()
    step = step_time(setup, batch).step_s
    stepped = time.process_time() - start
    footprint(setup, batch)
    total = time.process_time() - start
    print(f"{count:,} designs: {count / stepped:,.0f} steps/s, {count / total:,.0f} steps and footprints/s")
    print(f"fastest step {step.min():.2f} s, median {np.median(step):.2f} s")


def instance_rate(count: int) -> None:
    """The same through an instance: codes to columns to ticks, sequence parallelism and overlap mode varying."""
    problem = Problem.load("llama3-405b/h100-1024").without("fits").free("tensor_overlap")
    batch = problem.sample(count, seed=0)
    simulator = simulator_of(problem.instance)
    simulator.evaluate(kernel_columns(batch))
    start = time.process_time()
    simulator.evaluate(kernel_columns(batch))
    print(f"{count:,} designs of {problem.instance.name}: {count / (time.process_time() - start):,.0f} scores/s")


if __name__ == "__main__":
    instance_rate(number_given(__doc__, 200_000))
    main(number_given(__doc__, 200_000))
