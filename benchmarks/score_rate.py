"""Designs per second of the analytical simulator over COSMIC's full stack (GPT-3 175B on 1,024 NPUs, 4 dimensions).

Designs are drawn uniformly; the time includes decoding of domain indices to values and the whole breakdown, and no
result is shared between rows. The first table draws from the exact feasible set of the shipped instance; the others
draw unconstrained networks of 64 to 65,536 NPUs, which should cost the same.

    python benchmarks/score_rate.py [designs]
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from math import prod

import numpy as np
from arguments import number_given

from cosmic_opt.api import Problem
from cosmic_opt.search.objective import objective_of
from cosmic_opt.search.score import Scorer, simulator_of
from cosmic_opt.simulation.analytical import AnalyticalSimulator, Evaluation
from cosmic_opt.simulation.analytical.layout import CATEGORIES
from cosmic_opt.system.npu import Npu
from cosmic_opt.workloads.transformer import Transformer

GB = 10**9
DIMENSIONS = 4
GPT3_175B = Transformer(
    name="gpt3-175b",
    layers=96,
    hidden=12288,
    heads=96,
    kv_heads=96,
    head_dim=128,
    ffn=49152,
    vocabulary=50257,
    positions=2048,
    sequence=2048,
    tied_embeddings=True,
)
SYSTEM_2 = Npu("cosmic-system2", 10 * 10**12, 50 * GB, 24 * GB)
BANDWIDTHS = np.arange(50, 501, 50) * GB
CHUNKS = np.array([2, 4, 8, 16])
ALGORITHMS = ("ring", "direct", "halving_doubling", "double_binary_tree")
ALGORITHM_CODES = np.array([CATEGORIES["algorithm"].index(name) for name in ALGORITHMS])


def domains(sizes: tuple[int, ...]) -> dict[str, list[int | str]]:
    """Every column of the full stack with its possible values."""
    columns: dict[str, list[int | str]] = {name: [] for name in ("dp", "tp", "pp", "sp")}
    columns |= {"weight_sharded": [0, 1], "chunks": CHUNKS.tolist(), "multidim": list(CATEGORIES["multidim"])}
    for dim in range(DIMENSIONS):
        columns[f"npus_per_dim[{dim}]"] = list(sizes)
        columns[f"topology[{dim}]"] = list(CATEGORIES["topology"])
        columns[f"algorithm[{dim}]"] = list(ALGORITHMS)
        columns[f"bandwidth[{dim}]"] = BANDWIDTHS.tolist()
    return columns


def draw(npus: int, sizes: tuple[int, ...], rows: int) -> dict[str, np.ndarray]:
    """Draw domain indices uniformly over shapes, splits of the NPUs and options; shapes and splits as values."""
    rng = np.random.default_rng(0)
    shapes = np.array([shape for shape in itertools.product(sizes, repeat=DIMENSIONS) if prod(shape) == npus])
    log = npus.bit_length() - 1
    exponents = [split for split in itertools.product(range(log + 1), repeat=4) if sum(split) == log]
    splits = np.array([split for split in exponents if split[2] <= 2])
    shape = shapes[rng.integers(len(shapes), size=rows)]
    split = 1 << splits[rng.integers(len(splits), size=rows)]
    indices = {name: split[:, place] for place, name in enumerate(("dp", "tp", "pp", "sp"))}
    indices |= {name: rng.integers(2, size=rows) for name in ("weight_sharded", "multidim")}
    indices["chunks"] = rng.integers(len(CHUNKS), size=rows)
    for dim in range(DIMENSIONS):
        indices[f"npus_per_dim[{dim}]"] = shape[:, dim]
        indices[f"topology[{dim}]"] = rng.integers(3, size=rows)
        indices[f"algorithm[{dim}]"] = rng.choice(ALGORITHM_CODES, size=rows)
        indices[f"bandwidth[{dim}]"] = rng.integers(len(BANDWIDTHS), size=rows)
    return indices


def decode(indices: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Look up the values of every index; categories stay codes."""
    tables = {"chunks": CHUNKS, **{f"bandwidth[{dim}]": BANDWIDTHS for dim in range(DIMENSIONS)}}
    return {name: tables[name][index] if name in tables else index for name, index in indices.items()}


def measure(name: str, rows: int, score: Callable[[], Evaluation]) -> None:
    start = time.perf_counter()
    score()
    seconds = time.perf_counter() - start
    print(f"{name:<44}{rows:>12,}{seconds:>10.3f} s{rows / seconds:>14,.0f} /s")


def shipped(rows: int) -> None:
    """Score uniform members of the shipped full stack, from codes to times."""
    problem = Problem.load("cosmic/gpt3-175b-system2")
    scorer = Scorer(simulator_of(problem.instance), objective_of("step_time", problem.parameter_set))
    start = time.perf_counter()
    scorer.score(problem.sample(1))
    print(
        f"cosmic/gpt3-175b-system2\n  first design (compile, or load the compiled) {time.perf_counter() - start:.3f} s"
    )
    start = time.perf_counter()
    batch = problem.sample(rows)
    print(f"  drawn uniformly from {problem.feasible.size:,} in {time.perf_counter() - start:.3f} s")
    for _ in range(3):
        measure("  feasible designs, codes to breakdown", rows, lambda: scorer.score(batch).evaluation)


def main(rows: int) -> None:
    shipped(rows)
    for npus, sizes in ((1024, (4, 8, 16)), (64, (2, 4, 8)), (65536, (8, 16, 32))):
        start = time.perf_counter()
        simulator = AnalyticalSimulator(
            GPT3_175B,
            {"global_batch": 2048},
            SYSTEM_2,
            DIMENSIONS,
            {f"latency[{dim}]": 500_000 for dim in range(DIMENSIONS)},
            domains(sizes),
        )
        print(f"{npus} NPUs: tables in {time.perf_counter() - start:.3f} s")
        indices = draw(npus, sizes, rows)
        start = time.perf_counter()
        simulator.evaluate(decode({name: index[:1] for name, index in indices.items()}))
        print(f"  first design (compile, or load the compiled) {time.perf_counter() - start:.3f} s")
        for _ in range(3):
            measure(
                "  uniform designs",
                rows,
                lambda: simulator.evaluate(decode(indices)),  # noqa: B023
            )


if __name__ == "__main__":
    main(number_given(__doc__, 1_000_000))
