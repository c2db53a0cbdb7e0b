"""A model that forgets a rule: 48 NPUs in dimensions of 6 and 8, where two algorithms of four need powers of two."""

from __future__ import annotations

from pathlib import Path

MODEL = """\
schema: cosmic-opt/model@1
name: six
indices: {dim: dims}
parameters:
  dp: {stack: workload, domain: {divisors_of: npus}}
  tp: {stack: workload, domain: {divisors_of: npus}}
  pp: {stack: workload, domain: {divisors_of: npus}}
  npus_per_dim: {stack: network, per: dim, domain: [2, 4, 6, 8]}
  algorithm: {stack: collective, per: dim, domain: [ring, direct, halving_doubling, double_binary_tree]}
  bandwidth: {stack: network, per: dim, unit: bytes/s, domain: [50 GB/s, 100 GB/s]}
constraints:
  world_size: {rule: dp * tp * pp == npus}
scopes:
  all: {free: [dp, tp, pp, algorithm, bandwidth]}
"""
INSTANCE = """\
schema: cosmic-opt/instance@1
name: six
model: model.yaml
workload: gpt3-175b
job: {global_batch: 1024}
system:
  name: six
  device: {name: mine, peak: 100 TFLOPS, memory_bandwidth: 1 TB/s, memory_capacity: 80 GB}
  dimensions:
    - {topology: ring, npus: 6, bandwidth: 100 GB/s, latency: 500 ns, algorithm: ring}
    - {topology: switch, npus: 8, bandwidth: 50 GB/s, latency: 1 us, algorithm: direct}
scope: all
design: {dp: 48, tp: 1, pp: 1}
objective: step_time
"""
NO_PIPELINE = ("--fix", "pp=1", "--quiet")
"""dp and tp share out the 6 NPUs, so that one of them has a group of 3 or 6: with pp = 3 there would be none."""
NOTHING_RUNS = (*NO_PIPELINE, "--fix", "algorithm[0]=halving_doubling")


def written(folder: Path) -> str:
    """Write the model and its instance, and return the path of the latter."""
    (folder / "model.yaml").write_text(MODEL, encoding="utf-8")
    (folder / "six.yaml").write_text(INSTANCE, encoding="utf-8")
    return str(folder / "six.yaml")


ONE_RUNS = (
    "tp == 1 and pp == 1 and (all(algorithm[d] == halving_doubling for d in dim) or "
    "all(algorithm[d] == ring for d in dim) and all(bandwidth[d] == 50 GB/s for d in dim))"
)
"""Of `written_wide`, keeps 300 x 300 designs that cannot run and one that can, which a sample misses."""


def written_wide(folder: Path) -> str:
    """Write the same with 300 bandwidths for each dimension, and return the path of the instance."""
    path = written(folder)
    wide = MODEL.replace("domain: [50 GB/s, 100 GB/s]", "domain: {range: [1 GB/s, 300 GB/s], step: 1 GB/s}")
    (folder / "model.yaml").write_text(wide, encoding="utf-8")
    return path
