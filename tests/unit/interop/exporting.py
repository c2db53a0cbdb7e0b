"""Small designs that tests of the export share."""

from __future__ import annotations

from pathlib import Path

from cosmic_opt.api import Problem
from cosmic_opt.interop import read_machine, read_workload
from cosmic_opt.interop.export import AstraSimRun, astra_sim_run
from cosmic_opt.simulation.replay import ReplayMachine, TraceWorkload

INSTANCE = """\
schema: cosmic-opt/instance@1
name: small
model: training
workload:
  {name: small, layers: 4, hidden: 64, heads: 4, ffn: 256, sequence: 32, vocabulary: 128, positions: 32}
system:
  name: small
  device: {name: small, peak: 1 TFLOPS, memory_bandwidth: 50 GB/s, memory_capacity: 80 GB}
  dimensions:
    - {topology: ring, npus: 4, bandwidth: 100 GB/s, latency: 20 ns, algorithm: ring}
    - {topology: switch, npus: 4, bandwidth: 25 GB/s, latency: 700 ns, algorithm: halving_doubling}
  collectives: {chunks: 2, multidim: blueconnect}
job: {kind: training, global_batch: 16}
design: {dp: 4, sp: 1, tp: 4, pp: 1, zero_stage: 0, micro_batch: 1, recompute: none}
"""


def problem(folder: Path, **fixed: int | str) -> Problem:
    path = folder / "small.yaml"
    path.write_text(INSTANCE, encoding="utf-8")
    return Problem.load(str(path)).fix(fixed)


def run_of(folder: Path, **fixed: int | str) -> AstraSimRun:
    fixed_problem = problem(folder, **fixed)
    return astra_sim_run(fixed_problem.instance, fixed_problem.baseline())


def read_back(folder: Path) -> tuple[TraceWorkload, ReplayMachine]:
    """Read a run's folder as a user of ours would."""
    machine = read_machine(folder / "network.yml", folder / "system.json", folder / "memory.json")
    return read_workload(folder / "workload"), machine
