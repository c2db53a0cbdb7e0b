"""The execution space of one job on a given cluster: counted, solved and certified."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.search.verify import verify
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.workloads.training import OFFLOADS
from tests.unit.search.spaces import brute_force

H100 = Problem.load("calculon/gpt3-175b-h100-1024")
CALCULON_POINTS = 11_698_528
RESIDENT = H100.fix(weight_offload=0, activation_offload=0, optimizer_offload=0)
OFFLOADING = H100.fix(tp=2, algorithm="direct", multidim="baseline", sequence_parallel=1, chunks=4).fix(
    overlap_gradients=1, overlap_weights=1
)
"""Layers offloaded or not, much fixed."""
SPACES = {
    "pipelines": RESIDENT.fix(tp=8, algorithm="ring", overlap_gradients=1, overlap_weights=1, sequence_parallel=1),
    "sharding and overlap": RESIDENT.fix(pp=8, micro_batch=1, algorithm="ring", recompute="none", order="tp_dp_pp_sp"),
    "orders and algorithms": RESIDENT.fix(
        interleave=1, micro_batch=1, zero_stage=1, chunks=4, multidim="blueconnect"
    ).fix(overlap_gradients=1, overlap_weights=1),
    "host memory": OFFLOADING,
    "host memory of a DGX": OFFLOADING.set(host_capacity="256 GB", host_bandwidth="63 GB/s"),
    "host memory and chunks": H100.fix(tp=2, pp=1, zero_stage=3, algorithm="direct", recompute="none"),
}


def test_the_space_is_larger_than_the_one_calculon_sweeps() -> None:
    assert RESIDENT.without("fits").count().value > 5 * CALCULON_POINTS


@pytest.mark.parametrize("name", SPACES)
def test_the_optimum_is_that_of_brute_force(name: str) -> None:
    problem = SPACES[name]
    assert 1_000 < problem.feasible.size < 500_000
    outcome, best = problem.solve(), brute_force(problem)
    assert best is not None
    assert (outcome.value, tuple(outcome.design.codes[0])) == (best.value, best.code)
    assert all(check.passed for check in verify(problem.certificate(outcome), samples=500))


def test_the_count_with_host_memory_is_that_of_trying_every_combination() -> None:
    problem = OFFLOADING.fix(zero_stage=3, interleave=1, order="tp_dp_sp_pp").set(host_capacity="100 GB")
    sizes = [len(column.values) for column in problem.parameter_set.columns]
    assert math.prod(sizes) < 100_000
    every = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1).astype(np.int32)
    kept = feasible(problem.parameter_set.batch(every))
    assert problem.count().value == kept.sum() > 0
    assert problem.without("fits_host").count().value > problem.count().value


def test_host_memory_saves_what_the_gpu_s_memory_cannot_hold() -> None:
    with_host, without = OFFLOADING.solve(), OFFLOADING.fix(**dict.fromkeys(OFFLOADS, 0)).solve()
    assert with_host.value < without.value
    assert sum(next(with_host.design.points())[name] for name in OFFLOADS) > 0


@pytest.mark.parametrize("name", OFFLOADS)
def test_what_is_offloaded_costs_time_and_frees_memory(name: str) -> None:
    resident, offloaded = (RESIDENT.baseline() if flag == 0 else H100.fix(**{name: 1}).baseline() for flag in (0, 1))
    here, there = H100.simulate(resident), H100.simulate(offloaded)
    assert there.metrics["step_time_s"] >= here.metrics["step_time_s"]
    assert there.metrics["memory_bytes"] < here.metrics["memory_bytes"]
    assert there.quantities["host_memory_per_npu"] > here.quantities["host_memory_per_npu"] == 0
    saved = there.metrics["step_time_s"] - here.metrics["step_time_s"]
    bubble = there.terms_s["pipeline bubble"] - here.terms_s["pipeline bubble"]
    assert saved == pytest.approx(there.terms_s["offload (exposed)"] + bubble, abs=1e-9)


@pytest.mark.parametrize("missing", ["capacity", "bandwidth"])
def test_half_a_host_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(SpecError, match=missing):
        Problem.load(_on_system(tmp_path, "{capacity: 256 GB, bandwidth: 63 GB/s}".replace(missing, f"no_{missing}")))


def test_a_system_without_a_host_offloads_nothing(tmp_path: Path) -> None:
    problem = Problem.load(_on_system(tmp_path, None)).fix(tp=8, pp=4, recompute="none", chunks=1, algorithm="ring")
    assert problem.count().value > 0
    assert problem.fix(weight_offload=1).count().value == 0


def _on_system(folder: Path, host: str | None) -> str:
    given = "" if host is None else f"host: {host}\n"
    (folder / "mine.yaml").write_text(
        "schema: cosmic-opt/system@1\nname: mine\ndevice: h100-sxm\ndimensions:\n"
        "  - {topology: switch, npus: 8, bandwidth: 450 GB/s, latency: 700 ns, algorithm: ring}\n"
        f"  - {{topology: switch, npus: 8, bandwidth: 50 GB/s, latency: 1700 ns, algorithm: ring}}\n{given}",
        encoding="utf-8",
    )
    (folder / "own.yaml").write_text(
        "schema: cosmic-opt/instance@1\nmodel: execution\nworkload: llama3-8b\nsystem: mine.yaml\n"
        "job: {kind: training, global_batch: 64}\nscope: execution\ndesign: {sp: 1}\n",
        encoding="utf-8",
    )
    return str(folder / "own.yaml")


def test_interleaving_shortens_the_bubble_and_lengthens_the_sends() -> None:
    parts = {}
    for pieces in (1, 2, 4):
        problem = H100.fix(tp=8, pp=8, dp=16, micro_batch=1, interleave=pieces, zero_stage=1, recompute="selective")
        report = problem.simulate(problem.fix(sequence_parallel=1, order="tp_dp_pp_sp", algorithm="ring").baseline())
        parts[pieces] = report.terms_s
    assert parts[1]["pipeline bubble"] > 1.9 * parts[2]["pipeline bubble"] > 3.5 * parts[4]["pipeline bubble"]
    assert parts[4]["pipeline sends"] > 1.9 * parts[2]["pipeline sends"]
    assert parts[1]["forward compute"] == parts[4]["forward compute"]


@pytest.mark.slow
def test_the_whole_space_is_proved_and_certified() -> None:
    assert H100.without("fits", "fits_host").count().value == 495_728_640 > 42 * CALCULON_POINTS
    outcome = H100.solve()
    assert outcome.status is SolveStatus.OPTIMAL
    assert all(check.passed for check in verify(H100.certificate(outcome)))
