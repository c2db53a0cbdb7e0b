"""What contention does to COSMIC's optima, and what proving it takes: 12 instances, 3 objectives.

Usage: python benchmarks/event_search.py [--time-limit SECONDS]
"""

from __future__ import annotations

import argparse
import time

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.outcome import Outcome

OBJECTIVES = ("step_time", "step_time * total_bandwidth", "step_time * network_cost")
COLUMNS = ("instance", "objective", "status", "over closed form", "gap", "simulated", "seconds")


def over(outcome: Outcome, closed: Outcome) -> str:
    """Return by how much the best step by events costs more than the best by closed forms."""
    if outcome.value is None or closed.value is None:
        return "-"
    return f"{100 * (outcome.value / closed.value - 1):.4f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=60.0)
    limit = parser.parse_args().time_limit
    Problem.load("cosmic/vit-base-system1").solve(by_events=True)  # compiles
    print("{:26} {:28} {:8} {:>16} {:>8} {:>9} {:>8}".format(*COLUMNS))
    for name in instance_names():
        if not name.startswith("cosmic/") or "-system" not in name or "placement" in name:
            continue
        for objective in OBJECTIVES:
            problem = Problem.load(name).objective(objective)
            closed = problem.solve()
            began = time.perf_counter()
            outcome = problem.solve(by_events=True, budget=Budget(seconds=limit))
            seconds = time.perf_counter() - began
            gap = "-" if outcome.gap is None else f"{100 * outcome.gap:.4f} %"
            print(
                f"{name:26} {objective:28} {outcome.status.value:8} {over(outcome, closed):>16} {gap:>8} "
                f"{outcome.evaluations:>9,} {seconds:>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
