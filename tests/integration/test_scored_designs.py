"""What docs say of designs that only a rule keeps out, and of clusters of another size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_docs import rows
from tests.unit.cli.running import run

SYSTEM2 = "cosmic/gpt3-175b-system2"
MODEL = """\
schema: cosmic-opt/model@1
name: bare
indices: {dim: dims}
parameters:
  dp: {stack: workload, domain: {divisors_of: npus}, why: replicas}
  sp: {stack: workload, domain: {divisors_of: npus}, why: shards of the sequence}
  tp: {stack: workload, domain: {divisors_of: npus}, why: shards of every matrix}
  pp: {stack: workload, domain: {divisors_of: npus}, why: stages}
  micro_batch: {stack: workload, domain: [1, 3], why: sequences of a pass}
  zero_stage: {stack: workload, domain: [0, 3], why: what is sharded}
scopes:
  all: {free: [dp, sp, tp, pp, micro_batch, zero_stage], why: everything}
"""
INSTANCE = """\
schema: cosmic-opt/instance@1
name: bare
model: model.yaml
workload: {name: own, layers: 12, hidden: 768, heads: 12, kv_heads: 4, ffn: 3072, sequence: 1000, vocabulary: 512}
job: {kind: training, global_batch: 16}
system:
  name: own
  device: {name: own, peak: 300 TFLOPS, memory_bandwidth: 2 TB/s, memory_capacity: 0.5 GB}
  dimensions:
    - {topology: ring, npus: 4, bandwidth: 200 GB/s, latency: 500 ns, algorithm: ring}
    - {topology: switch, npus: 8, bandwidth: 50 GB/s, latency: 1 us, algorithm: ring}
scope: all
design: {dp: 32, sp: 1, tp: 1, pp: 1, micro_batch: 1, zero_stage: 0}
"""
WITHOUT = {
    "`pp <= layers` (with pieces: `pp * interleave <= layers`)": {"pp": 32},
    "`heads % tp == 0`, `kv_heads % tp == 0`": {"tp": 32},
    "`seq % sp == 0` (`seq % (2 * sp) == 0` for a causal mask cut in equal work)": {"sp": 32},
    "`global_batch % (dp * micro_batch) == 0`": {"dp": 32, "micro_batch": 3},
    "`pp == 1 or global_batch // (dp * micro_batch) >= pp`": {"dp": 4, "pp": 8},
    "`pp == 1 or zero_stage <= 1`": {"dp": 16, "pp": 2, "zero_stage": 3},
    "`memory_per_npu <= memory_capacity`": {"dp": 32},
}
"""A design that breaks each rule of the page."""


@pytest.fixture
def bare(tmp_path: Path) -> str:
    (tmp_path / "model.yaml").write_text(MODEL, encoding="utf-8")
    path = tmp_path / "instance.yaml"
    path.write_text(INSTANCE, encoding="utf-8")
    return str(path)


def test_the_page_has_the_rules_whose_designs_are_tried() -> None:
    assert [rule for rule, _ in rows("model-files.md", "| rule | without it")] == list(WITHOUT)


@pytest.mark.parametrize("rule", WITHOUT)
@pytest.mark.parametrize("engine", ["analytical", "events"])
def test_a_design_that_only_a_rule_would_keep_out_is_scored(bare: str, rule: str, engine: str) -> None:
    design = {"dp": 1, **WITHOUT[rule]}
    fixed = [part for name, value in design.items() for part in ("--fix", f"{name}={value}")]
    done = run("simulate", bare, *fixed, "--engine", engine, "--json")
    assert done.code == 0, done.err
    assert done.keys["metrics"]["step_time_s"] > 0


def test_a_network_played_dimension_by_dimension_does_not_grow() -> None:
    done = run("count", SYSTEM2, "--scope", "workload", "--set", "npus=2048", "--json")
    assert done.code == 3
    assert "shape" in done.out


def test_the_command_of_the_page_gives_the_dimension_too() -> None:
    asked = ("count", SYSTEM2, "--scope", "workload", "--set", "npus=2048", "--fix", "npus_per_dim[3]=16")
    assert run(*asked, "--json").keys["value"] == 567


def test_a_network_without_a_parameter_or_a_stack_has_one_size(bare: str) -> None:
    for npus in (16, 64):
        done = run("count", bare, "--set", f"npus={npus}")
        assert done.code == 2
        assert "a copy of its file" in done.err


@pytest.mark.parametrize("npus", [32, 2048])
def test_a_network_of_a_stack_has_fewer_npus_or_grows_by_its_switches(npus: int) -> None:
    assert run("count", "llama3-70b/h100-64", "--set", f"npus={npus}", "--json").code == 0
