"""What a start is worth to `optimise`: value and gap, or seconds to the proof, at two limits.

Usage: python benchmarks/optimise_starts.py
"""

from __future__ import annotations

import time
from functools import partial

from cosmic_opt.analysis.optimise import Optimum, optimise
from cosmic_opt.api import Problem

HEADROOM = "memory_capacity - memory_per_npu"
CASES = (
    ("cosmic/gpt3-175b-system2", "network_cost", False),
    ("cosmic/gpt3-175b-system3", "network_cost", False),
    ("cosmic/gpt3-175b-system2", HEADROOM, True),
    ("cosmic/placement-gpt3-175b-system2", HEADROOM, True),
    ("qwen3-235b-a22b/h100-256", "memory_per_npu", False),
)
LIMITS_S = (0.1, 10.0)


def run(
    problem: Problem, expression: str, solver: str, limit_s: float, *, maximise: bool, cold: bool
) -> tuple[Optimum, float]:
    """Return the answer and the seconds it took; a `cold` run begins with nothing."""
    began = time.perf_counter()
    ask = partial(optimise, problem.spec, problem.edits, expression, maximise=maximise, cold=cold)
    optimum = ask(solver=solver, time_limit_s=limit_s)
    return optimum, time.perf_counter() - began


def shown(optimum: Optimum, seconds: float) -> str:
    value = "-" if optimum.value is None else f"{float(optimum.value):.6g}"
    gap = "-" if optimum.gap is None else f"{100 * optimum.gap:.2g} %"
    return f"{optimum.status.value:9} {value:>12} {gap:>8} {seconds:7.2f} s"


def main() -> None:
    Problem.load("cosmic/vit-base-system1").optimise("network_cost", solver="milp")
    Problem.load("cosmic/vit-base-system1").optimise("network_cost", solver="cp_sat")
    print(f"{'instance':36} {'objective':14} {'solver':7} {'limit':>6}  {'with a start':44}  without")
    for name, expression, maximise in CASES:
        for solver in ("cp_sat", "milp"):
            for limit_s in LIMITS_S:
                problem = Problem.load(name)
                ask = partial(run, problem, expression, solver, limit_s, maximise=maximise)
                with_start, without = (shown(*ask(cold=cold)) for cold in (False, True))
                limit = f"{limit_s} s"
                print(f"{name:36} {expression[:14]:14} {solver:7} {limit:>6}  {with_start:44}  {without}", flush=True)


if __name__ == "__main__":
    main()
