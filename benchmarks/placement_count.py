"""How counting free placements grows with dimensions, NPUs and groups. Usage: python benchmarks/placement_count.py"""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root

GROUPS = ("tp", "sp", "ep", "dp", "pp")


@dataclass(frozen=True)
class Case:
    """A network of `dimensions` dimensions of 4, 8 or 16 NPUs, and how many groups lie on it."""

    npus: int
    dimensions: int
    groups: int
    knobs: bool = False
    inner: bool = False


CASES = (
    *(Case(8**dimensions, dimensions, 4) for dimensions in (2, 3, 4, 5, 6)),
    Case(1024, 4, 4),
    *(Case(npus, 6, 5) for npus in (4096, 16384, 65536)),
    Case(65536, 6, 5, knobs=True),
    Case(65536, 6, 5, knobs=True, inner=True),
)


def _shipped(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((data_root() / f"{name}.yaml").read_text())
    return content


def problem_of(case: Case, folder: Path) -> Problem:
    """Return `cosmic-placement` with other groups and another network; without knobs, shapes and extents only."""
    model = _shipped("models/cosmic-placement")
    groups = [group for group in GROUPS if case.groups == len(GROUPS) or group != "ep"]
    model["indices"]["group"] = groups
    if "ep" in groups:
        model["parameters"]["ep"] = {**model["parameters"]["dp"], "why": "expert-parallel shards"}
        model["constraints"]["world_size"]["rule"] = "dp * sp * tp * pp * ep == npus"
        model["constraints"]["ep_placed"] = {"rule": "product(extent[ep, d] for d in dim) == ep", "when": "extent"}
    if case.inner:
        model["constraints"]["tp_inner"] = {"rule": "all(extent[tp, d] == 1 for d in dim if d >= 2)"}
    free = model["scopes"]["full_stack"]["free"] + (["ep"] if "ep" in groups else [])
    if not case.knobs:
        free = [*groups, "npus_per_dim", "extent"]
        del model["constraints"]["fits"]
    model["scopes"] = {"bench": {"free": free}}
    system = _shipped("instances/_systems/cosmic-system2")
    tier = {"topology": "ring", "bandwidth": "100 GB/s", "latency": "700 ns", "algorithm": "ring", "tier": "pod"}
    left, dimensions = case.npus, []
    for dimension in range(case.dimensions):
        npus = next(n for n in (16, 8, 4) if left // n >= 4 ** (case.dimensions - dimension - 1))
        dimensions.append({**tier, "npus": npus})
        left //= npus
    system["dimensions"] = dimensions
    instance = _shipped("instances/cosmic/placement-gpt3-175b-system2")
    instance |= {"model": "model.yaml", "system": "system.yaml", "scope": "bench"}
    instance["design"] = {"dp": case.npus, "sp": 1, "tp": 1, "pp": 1, "weight_sharded": 1}
    instance["job"]["global_batch"] = case.npus
    if not case.knobs:
        instance["constraints"] = {}
    for name, content in (("model", model), ("system", system), ("instance", instance)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return Problem.load(str(folder / "instance.yaml"))


def main() -> None:
    print(
        f"{'NPUs':>6} {'dims':>4} {'groups':>6} {'knobs':24} {'designs':>30} {'width':>8} {'seconds':>8} {'peak MB':>8}"
    )
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            problem = problem_of(case, Path(folder))
            problem.parameter_set  # noqa: B018 - bound before the clock starts
            began = time.perf_counter()
            value = problem.count().value
            seconds = time.perf_counter() - began
            width = max(diagram.width for diagram in problem.feasible.diagrams)
            knobs = ("full stack" if case.knobs else "shape and extents") + (", tp inner" if case.inner else "")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{case.npus:>6} {case.dimensions:>4} {case.groups:>6} {knobs:24} {value:>30,} {width:>8,} "
                f"{seconds:>8.2f} {peak:>8,}",
                flush=True,
            )


if __name__ == "__main__":
    main()
