"""Time of a changed question, cold and from what the baseline's search proved. Usage: python benchmarks/what_if.py"""

from __future__ import annotations

import time

from cosmic_opt.api import Problem
from cosmic_opt.search.memo import RegionMemo
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.solve import solve

OBJECTIVES = ("step_time", "step_time * total_bandwidth", "step_time * network_cost")


def timed(problem: Problem, memo: RegionMemo | None = None, start: Outcome | None = None) -> tuple[Outcome, float]:
    began = time.perf_counter()
    outcome = solve(problem.instance, memo=memo, start=[] if start is None else list(start.design.points()))
    return outcome, time.perf_counter() - began


def main() -> None:
    Problem.load("cosmic/vit-base-system1").solve()
    print(f"{'GPT-3 175B on':14} {'objective':28} {'change':12} {'cold s':>8} {'warm s':>8} {'boxes':>11} {'warm':>9}")
    for system in (1, 2, 3):
        for objective in OBJECTIVES:
            baseline = Problem.load(f"cosmic/gpt3-175b-system{system}").objective(objective)
            memo = RegionMemo()
            before, _ = timed(baseline, memo)
            changes = {
                "80 GB": baseline.set(memory_capacity="80 GB"),
                "20 GB": baseline.set(memory_capacity="20 GB"),
                "tp <= 8": baseline.require("tp <= 8"),
            }
            for name, changed in changes.items():
                cold, cold_s = timed(changed)
                warm, warm_s = timed(changed, RegionMemo(dict(memo.least)), before)
                assert (warm.value, warm.design.codes.tolist()) == (cold.value, cold.design.codes.tolist())
                print(
                    f"system {system:<7} {objective:28} {name:12} {cold_s:>8.2f} {warm_s:>8.2f} "
                    f"{cold.nodes:>11,} {warm.nodes:>9,}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
