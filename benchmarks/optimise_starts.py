"""What a start is worth to `optimise`: value and gap, or seconds to the proof, at two limits.

Usage: python benchmarks/optimise_starts.py
"""

from __future__ import annotations

import time

from cosmic_opt.analysis import optimise as module
from cosmic_opt.analysis.optimise import Optimum
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
COLD = {"best_start": lambda *_: None}


def run(problem: Problem, expression: str, maximise: bool, solver: str, limit_s: float) -> tuple[Optimum, float]:
    began = time.perf_counter()
    optimum = problem.optimise(expression, maximise=maximise, solver=solver, time_limit_s=limit_s)
    return optimum, time.perf_counter() - began


def shown(optimum: Optimum, seconds: float) -> str:
    value = "-" if optimum.value is None else f"{float(optimum.value):.6g}"
    gap = "-" if optimum.gap is None else f"{100 * optimum.gap:.2g} %"
    return f"{optimum.status.value:9} {value:>12} {gap:>8} {seconds:7.2f} s"


def main() -> None:
    Problem.load("cosmic/vit-base-system1").optimise("network_cost", solver="milp")
    Problem.load("cosmic/vit-base-system1").optimise("network_cost", solver="cp_sat")
    warm = module.best_start
    print(f"{'instance':36} {'objective':14} {'solver':7} {'limit':>6}  {'with a start':44}  without")
    for name, expression, maximise in CASES:
        for solver in ("cp_sat", "milp"):
            for limit_s in LIMITS_S:
                problem = Problem.load(name)
                with_start = shown(*run(problem, expression, maximise, solver, limit_s))
                module.best_start = COLD["best_start"]
                without = shown(*run(problem, expression, maximise, solver, limit_s))
                module.best_start = warm
                limit = f"{limit_s} s"
                print(f"{name:36} {expression[:14]:14} {solver:7} {limit:>6}  {with_start:44}  {without}", flush=True)


if __name__ == "__main__":
    main()
