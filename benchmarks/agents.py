"""Agents against each other: the same space, the same simulator, the same number of evaluations.

Usage: python benchmarks/agents.py [--instance NAME] [--objective TEXT] [--seeds N] [--results FILE] [--plot FILE.svg]

Every agent runs twice: over the feasible designs, and *native*, over the raw grid, as COSMIC runs it (a proposal that
breaks a rule is an evaluation spent). The hybrid search runs once per seed, to its proof. A finished run is a line of
the results file; what is there already is not run again, so an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # seconds are of one core

import numpy as np
from agents_plot import Curve, step_plot

from cosmic_opt.api import Problem
from cosmic_opt.ir.model import IRColumn, Origin, Table
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents import find_agent
from cosmic_opt.search.feasible_space import FeasibleSpace, raw_grid
from cosmic_opt.search.objective import objective_of
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.registry import load_solver

BUDGETS = {
    "random": 4096,
    "genetic": 4096,
    "ant_colony": 4096,
    "annealing": 4096,
    "bayesian": 256,
    "optuna:TPESampler": 1024,
    "optuna:NSGAIISampler": 1024,
}
"""Evaluations of each agent: a Gaussian process and Optuna's samplers take up to milliseconds for each design."""
CHECKPOINTS = (64, 256, 1024, 4096)
MODES = ("native", "feasible")
HYBRID = "hybrid"


@dataclass(frozen=True)
class Run:
    """One run: `trace` holds (evaluations, CPU seconds, value) whenever the best value fell."""

    instance: str
    objective: str
    method: str
    mode: str
    seed: int
    evaluations: int
    wasted: int
    seconds: float
    trace: tuple[tuple[int, float, int], ...]

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.instance, self.objective, self.method, self.mode, self.seed

    def best_after(self, evaluations: float) -> float:
        """Return the best value after so many evaluations; infinity where none was feasible yet."""
        return min((value for count, _, value in self.trace if count <= evaluations), default=np.inf)

    def evaluations_to(self, value: float) -> float:
        """Return the evaluations after which the best value was at most `value`."""
        return min((count for count, _, reached in self.trace if reached <= value), default=np.inf)


def run_agent(problem: Problem, name: str, mode: str, seed: int) -> Run:
    parameter_set = problem.parameter_set
    space = raw_grid(parameter_set) if mode == "native" else FeasibleSpace(parameter_set, problem.feasible)
    objective = problem.instance.objective
    scorer = Scorer(simulator_of(problem.instance), objective_of(objective, parameter_set))
    started = time.process_time()
    agent = find_agent(name)(space, np.random.default_rng(seed))
    trace: list[tuple[int, float, int]] = []
    spent = wasted = 0
    while spent < BUDGETS[name]:
        batch = agent.ask(min(agent.ask_size, BUDGETS[name] - spent))
        obeys = feasible(batch)
        values = _scores(scorer, batch, obeys)
        agent.tell(batch, values.astype(float))
        for row in np.flatnonzero(values < (trace[-1][2] if trace else np.inf)):
            if not trace or values[row] < trace[-1][2]:
                trace.append((spent + int(row) + 1, time.process_time() - started, int(values[row])))
        spent, wasted = spent + len(batch), wasted + int((~obeys).sum())
    seconds = time.process_time() - started
    return Run(problem.instance.name, objective, name, mode, seed, spent, wasted, seconds, tuple(trace))


def _scores(scorer: Scorer, batch: DesignBatch, obeys: np.ndarray) -> np.ndarray:
    values = np.full(len(batch), np.inf, dtype=object)
    if obeys.any():
        values[obeys] = scorer.score(batch.take(obeys), strict=False).values
    return values


def run_hybrid(problem: Problem, seed: int) -> Run:
    started = time.process_time()
    trace: list[tuple[int, float, int]] = []

    def note(line: object) -> None:
        value = line.incumbent  # type: ignore[attr-defined]
        if value is not None and (not trace or value < trace[-1][2]):
            trace.append((line.evaluations, time.process_time() - started, value))  # type: ignore[attr-defined]

    outcome = problem.solve(seed=seed, log=note)
    seconds = time.process_time() - started
    name, objective = problem.instance.name, problem.instance.objective
    return Run(name, objective, HYBRID, "proved", seed, outcome.evaluations, 0, seconds, tuple(trace))


def jobs(problem: Problem, seeds: int) -> Iterator[tuple[str, str, int, Callable[[], Run]]]:
    for seed in range(seeds):
        yield HYBRID, "proved", seed, lambda seed=seed: run_hybrid(problem, seed)
        for name in BUDGETS:
            for mode in MODES:
                yield name, mode, seed, lambda seed=seed, name=name, mode=mode: run_agent(problem, name, mode, seed)


def load(path: Path) -> list[Run]:
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return [Run(**{**line, "trace": tuple(map(tuple, line["trace"]))}) for line in lines]


def complete(problem: Problem, seeds: int, path: Path) -> list[Run]:
    """Run what the results file lacks, a line for each finished run; return the runs of this problem."""
    runs = {run.key: run for run in load(path)}
    keys = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for method, mode, seed, job in jobs(problem, seeds):
            key = problem.instance.name, problem.instance.objective, method, mode, seed
            keys.append(key)
            if key not in runs:
                runs[key] = job()
                file.write(json.dumps(asdict(runs[key])) + "\n")
                file.flush()
    return [runs[key] for key in keys]


def table(runs: list[Run], optimum: int) -> str:
    """Return a row per method: value over the proved optimum, median and quartiles over seeds."""
    header = ["agent", "mode", "wasted", *(f"after {count:,}" for count in CHECKPOINTS), "CPU s"]
    lines = [f"| {' | '.join(header)} |", "|---|---|" + "---:|" * (len(header) - 2)]
    for method, mode in dict.fromkeys((run.method, run.mode) for run in runs):
        chosen = [run for run in runs if (run.method, run.mode) == (method, mode)]
        wasted = sum(run.wasted for run in chosen) / sum(run.evaluations for run in chosen)
        cells = [
            quartiles([run.best_after(count) / optimum for run in chosen]) if count <= chosen[0].evaluations else ""
            for count in CHECKPOINTS
        ]
        if method == HYBRID:
            cells = ["", "", "", f"1 (after {np.median([run.evaluations for run in chosen]):,.0f})"]
        seconds = f"{np.median([run.seconds for run in chosen]):.2f}"
        lines.append(f"| {' | '.join([method, mode, f'{100 * wasted:.1f} %', *cells, seconds])} |")
    return "\n".join(lines)


def quartiles(values: list[float]) -> str:
    """Return "median (quartile to quartile)"; "-" where half the runs have no feasible design."""
    low, median, high = (f"{value:.3g}" if np.isfinite(value) else "∞" for value in _quartiles(values))
    return "-" if median == "∞" else f"{median} ({low} to {high})"


def _quartiles(values: list[float]) -> list[float]:
    ordered = sorted(values)
    low, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.25, 0.75))
    return [low, float(np.median(ordered)), high]


def speedups(runs: list[Run], optimum: int) -> str:
    """Return, per agent, how many evaluations the feasible one needs to reach the native one's final median."""
    lines = ["| agent | native, final | feasible reaches it after | fewer by |", "|---|---:|---:|---:|"]
    for method in BUDGETS:
        native = [run for run in runs if (run.method, run.mode) == (method, "native")]
        ours = [run for run in runs if (run.method, run.mode) == (method, "feasible")]
        budget = BUDGETS[method]
        goal = float(np.median([run.best_after(budget) for run in native]))
        needed = float(np.median([run.evaluations_to(goal) for run in ours]))
        shown = f"{goal / optimum:.3g}" if np.isfinite(goal) else "no feasible design"
        lines.append(f"| {method} | {shown} | {needed:,.0f} of {budget:,} | {budget / needed:,.0f}x |")
    return "\n".join(lines)


def tabulated(problem: Problem) -> str:
    """Return what plain CP-SAT takes on the workload scope: every design scored, and the scores as one table."""
    small = problem.scope("workload")
    started = time.process_time()
    codes = small.feasible.everything(1 << 20)
    objective = objective_of(small.instance.objective, small.parameter_set)
    values = Scorer(simulator_of(small.instance), objective).score(small.parameter_set.batch(codes)).values
    model = small.model
    scored = len(model.columns)
    rows = np.column_stack([codes, np.arange(len(codes))]).astype(np.int32)
    tabled = type(model)(
        (*model.columns, IRColumn("score", len(codes), helper=True)),
        (*model.constraints, Table((*range(model.designs), scored), rows, Origin("score", "", None))),  # type: ignore[arg-type]
        (*model.allowed, np.arange(len(codes), dtype=np.int32)),
        model.definitions,
        model.designs,
    )
    least = min(values)
    weights = tuple(int(value) * 10**6 // int(least) for value in values)  # CP-SAT holds sums up to 2^60
    load_solver("cp_sat").solve(tabled, LinearObjective((scored,), (weights,)), limits=Limits())
    seconds = time.process_time() - started
    hybrid = run_hybrid(small, 0)
    return (
        f"Tabulated, the workload scope alone: CP-SAT scores all {len(codes):,} designs and takes {seconds:.2f} CPU s; "
        f"the hybrid scores {hybrid.evaluations:,} and takes {hybrid.seconds:.2f}. The full stack has "
        f"{problem.feasible.size:.3g} designs: no table holds them."
    )


def curves(runs: list[Run], optimum: int, mode: str) -> list[Curve]:
    found = []
    for method in BUDGETS:
        chosen = [run for run in runs if (run.method, run.mode) == (method, mode)]
        counts = np.unique(np.geomspace(8, BUDGETS[method], 80).astype(int))
        bands = [_quartiles([run.best_after(count) / optimum for run in chosen]) for count in counts]
        found.append(Curve(f"{method}, {mode}", counts.tolist(), [tuple(band) for band in bands], mode == "native"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instance", default="cosmic/gpt3-175b-system2")
    parser.add_argument("--objective", default="step_time * network_cost")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=Path("build/agents.jsonl"))
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    problem = Problem.load(given.instance).objective(given.objective)
    problem.solve()  # compiles
    runs = complete(problem, given.seeds, given.results)
    optimum = min(run.trace[-1][2] for run in runs if run.method == HYBRID)
    print(f"{given.instance}, {given.objective}: value over the proved optimum, {given.seeds} seeds\n")
    print(table(runs, optimum), speedups(runs, optimum), tabulated(problem), sep="\n\n")
    if given.plot:
        title = f"{given.instance}: {given.objective} over the proved optimum"
        everything = curves(runs, optimum, "feasible") + curves(runs, optimum, "native")
        given.plot.write_text(step_plot(title, everything), encoding="utf-8")


if __name__ == "__main__":
    main()
