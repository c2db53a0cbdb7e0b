"""Time of one training step by events, beside ASTRA-sim's, and how far events lie above the analytical bound.

The first table is GPT-3 175B (all 96 layers) on COSMIC's System 2: tp 16, dp 16, pp 4, one-forward-one-backward with
128 micro-batches of one sequence, 16 chunks. The second holds pp and the micro-batches and grows data parallelism
from 64 to 65,536 NPUs. The third (`gaps`) samples feasible designs of shipped instances.

    python benchmarks/event_rate.py [gaps [designs]]

ASTRA-sim's CPU seconds are measured with its congestion-unaware backend on a smaller step: 8 layers, one micro-batch,
4 chunks, single thread, median of three.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from cosmic_opt.api import Problem
from cosmic_opt.errors import CosmicError
from cosmic_opt.search.events import event_simulator_of
from cosmic_opt.search.score import simulator_of
from cosmic_opt.simulation.analytical import AnalyticalSimulator
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.workloads.training import OFFLOADS

COSMIC = "cosmic/gpt3-175b-system2"
DESIGN = {"tp": 16, "dp": 16, "pp": 4, "sp": 1, "chunks": 16}
ASTRA_SIM_CPU_S = {8: 0.07, 64: 1.72, 256: 14.12, 512: 66.89, 1024: 224.74}
INSTANCES = (
    *("cosmic/gpt3-175b-system1", "cosmic/gpt3-175b-system2", "cosmic/gpt3-175b-system3"),
    *("cosmic/gpt3-13b-system2", "cosmic/vit-large-system2", "llama3-405b/h100-16k"),
    "calculon/gpt3-175b-h100-1024",
)
RUNS = 21


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return the first time and the median of the next ones, in milliseconds."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return times[0], statistics.median(times[1:])


def system_2(weight_sharded: int) -> None:
    problem = Problem.load(COSMIC).fix({**DESIGN, "weight_sharded": weight_sharded})
    analytical = simulator_of(problem.instance)
    events = event_simulator_of(problem.instance, analytical)
    names = {column.name for column in problem.parameter_set.columns if len(column.values) > 1}
    design = {name: value for name, value in next(problem.baseline().points()).items() if name in names}
    first, median = timed(lambda: events.simulate(design))
    step = events.simulate(design)
    print(
        f"weight_sharded {weight_sharded}: median {median:6.2f} ms, first (compiles, or loads the compiled) "
        f"{first:8.1f} ms; step {step.step_ticks / 1e12:.6f} s, {step.micro_batches} micro-batches"
    )


def grown(edge: int) -> tuple[int, float]:
    """Return the NPUs and the median of a network of 4, edge, edge and 4 NPUs: tp, dp twice, pp."""
    problem = Problem.load(COSMIC)
    instance = problem.instance
    shape, blocks = (4, edge, edge, 4), ("ring", "fully_connected", "ring", "switch")
    rates = (375, 175, 150, 100)
    values: dict[str, int | str] = {"tp": 4, "dp": edge * edge, "pp": 4, "sp": 1, "chunks": 16}
    values |= {"weight_sharded": 1, "global_batch": 128 * edge * edge, "scheduling_policy": "lifo"}
    for dim in range(4):
        values[f"npus_per_dim[{dim}]"], values[f"topology[{dim}]"] = shape[dim], blocks[dim]
        values[f"algorithm[{dim}]"], values[f"bandwidth[{dim}]"] = "ring", rates[dim] * 10**9
        values[f"latency[{dim}]"] = 700_000
    job = {**instance.job, "global_batch": 128 * edge * edge}
    analytical = AnalyticalSimulator(instance.workload, job, instance.npu, 4, values, {})
    events = EventSimulator(analytical, values)
    return 16 * edge * edge, timed(lambda: events.simulate({}))[1]


def gaps(name: str, number: int) -> None:
    """Print how far events lie above the analytical bound over random feasible designs, nothing offloaded."""
    problem = Problem.load(name)
    knobs = {column.name for column in problem.parameter_set.columns}
    problem = problem.fix(dict.fromkeys(sorted(knobs & set(OFFLOADS)), 0))
    analytical = simulator_of(problem.instance)
    events = event_simulator_of(problem.instance, analytical)
    names = {column.name for column in problem.parameter_set.columns if len(column.values) > 1}
    above, refused = [], 0
    for point in problem.sample(number).points():
        design = {key: value for key, value in point.items() if key in names}
        try:
            ticks = events.simulate(design).step_ticks
        except CosmicError:
            refused += 1
            continue
        bound = analytical.evaluate({key: np.array([value]) for key, value in design.items()}).step_ticks[0]
        above.append(ticks / int(bound) - 1)
    quantiles = " ".join(f"{100 * value:8.3f}" for value in np.quantile(above, (0.5, 0.9, 0.99, 1)))
    equal, below = sum(gap == 0 for gap in above), sum(gap < 0 for gap in above)
    print(f"{name:<28}{len(above):>7}{equal:>7}{below:>7}   {quantiles}{refused:>9}")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["gaps"]:
        titles = "".join(f"{title:>9}" for title in ("median", "90 %", "99 %", "worst", "refused"))
        print(f"{'instance':<28}{'designs':>7}{'equal':>7}{'below':>7}  {titles}")
        for name in INSTANCES:
            gaps(name, int(arguments[1]) if len(arguments) > 1 else 1000)
        return
    for weight_sharded in (0, 1):
        system_2(weight_sharded)
    print(f"\n{'NPUs':>8}{'events, ms':>12}{'ASTRA-sim, CPU s':>20}")
    measured = dict(grown(edge) for edge in (2, 4, 8, 16, 32, 64))
    for npus in sorted({*measured, *ASTRA_SIM_CPU_S}):
        own = f"{measured[npus]:.2f}" if npus in measured else ""
        print(f"{npus:>8}{own:>12}{ASTRA_SIM_CPU_S.get(npus, ''):>20}")


if __name__ == "__main__":
    main(sys.argv[1:])
