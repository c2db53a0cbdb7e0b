"""Free placements are solved to the optimum that trying every design finds."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.search.spaces import brute_force

BASE = (
    Problem.load("cosmic/placement-gpt3-175b-system2")
    .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 8, "npus_per_dim[2]": 4, "npus_per_dim[3]": 8})
    .fix({"topology[0]": "ring", "topology[1]": "fully_connected", "topology[3]": "switch", "bandwidth[3]": "100 GB/s"})
    .fix({"algorithm[0]": "ring", "algorithm[1]": "direct", "algorithm[2]": "ring", "algorithm[3]": "direct"})
    .fix(scheduling_policy="lifo", weight_sharded=1)
)
FEW = BASE.fix({"bandwidth[0]": "375 GB/s", "bandwidth[1]": "175 GB/s", "bandwidth[2]": "150 GB/s"})
SPACES = {
    "every placement of three groups": FEW.fix(sp=1, chunks=4, multidim="blueconnect"),
    "tensor parallelism within two dimensions": FEW.require(
        "all(extent[tp, d] == 1 for d in dim if d >= 2)", "sp <= 2", "pp == 1"
    ),
    "a budget that depends on the placement": BASE.fix(sp=1, multidim="baseline", chunks=2)
    .require("bandwidth[0] * 4 <= extent[dp, 0] * 500 GB/s", "pp <= 2", "bandwidth[1] <= 150 GB/s", "tp <= 16")
    .require("bandwidth[2] == bandwidth[1]")
    .objective("step_time * total_bandwidth"),
    "any filling order": FEW.scope("filling_order").fix(chunks=4).require("sp <= 4"),
}


TWELVE = """\
schema: cosmic-opt/instance@1
name: twelve
model: cosmic-placement
workload: gpt3-175b
system: system.yaml
job: {kind: training, global_batch: 1536}
data: {memory_capacity: 24 GB, cosmic_layers: 4}
scope: workload
design: {dp: 96, sp: 1, tp: 16, pp: 1, weight_sharded: 1}
objective: step_time
source: {job: made up}
"""


@pytest.mark.parametrize("name", SPACES)
def test_the_optimum_is_that_of_brute_force(name: str) -> None:
    problem = SPACES[name]
    assert 1_000 < problem.feasible.size < 200_000
    outcome = problem.solve()
    best = brute_force(problem)
    assert best is not None
    assert outcome.status is SolveStatus.OPTIMAL
    assert (outcome.value, tuple(outcome.design.codes[0])) == (best.value, best.code)


def test_a_free_placement_is_never_worse_than_a_filling_order_nor_that_than_the_nested_one() -> None:
    steps = [FEW.scope(scope).solve().value for scope in ("full_stack", "filling_order", "nested")]
    assert None not in steps
    assert steps == sorted(steps)  # type: ignore[type-var]


def test_1536_npus_in_dimensions_of_12_are_placed(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("twelve")
    (folder / "system.yaml").write_text(
        "schema: cosmic-opt/system@1\nname: twelve\ndevice: cosmic-system2\ndimensions:\n"
        + "".join(
            f"  - {{topology: {block}, npus: {npus}, bandwidth: 200 GB/s, latency: 500 ns, algorithm: ring}}\n"
            for block, npus in (("ring", 8), ("fully_connected", 16), ("switch", 12))
        )
        + "collectives: {scheduling_policy: lifo, chunks: 4, multidim: blueconnect}\nsource: {dimensions: made up}\n",
        encoding="utf-8",
    )
    (folder / "instance.yaml").write_text(TWELVE, encoding="utf-8")
    problem = Problem.load(str(folder / "instance.yaml")).require("tp % 3 == 0", "pp <= 96", "tp <= 96")
    best, outcome = brute_force(problem), problem.solve()
    assert best is not None
    assert (outcome.value, tuple(outcome.design.codes[0])) == (best.value, best.code)
    (point,) = outcome.design.points()
    assert int(point["extent[tp,2]"]) % 3 == 0


@pytest.mark.parametrize("rule", ["topology[1] != topology[2]", "topology[0] == topology[2]"])
def test_blocks_of_regions_that_are_all_too_slow_are_passed_over(rule: str) -> None:
    problem = (
        Problem.load("cosmic/vit-base-system1")
        .fix({"npus_per_dim[0]": 4, "npus_per_dim[1]": 4, "npus_per_dim[2]": 4, "bandwidth": "100 GB/s"})
        .fix(algorithm="ring", sp=1, weight_sharded=1)
        .require(rule)
        .objective("step_time * network_cost")
    )
    best, outcome = brute_force(problem), problem.solve()
    assert best is not None
    assert (outcome.value, tuple(outcome.design.codes[0])) == (best.value, best.code)
