"""A million samples are uniform over regions and over every column; without replacement none comes twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from cosmic_opt.api import Problem
from cosmic_opt.feasibility.feasible_set import FeasibleSet
from tests.unit.feasibility.test_feasible_set import designs_of

SAMPLES = 1_000_000
LEAST = 0.001


def full_stack() -> FeasibleSet:
    return Problem.load("cosmic/gpt3-175b-system2").feasible


def products() -> FeasibleSet:
    """Return the splits of 1,440 = 2^5 3^2 5 over four factors, the first at most the second, with a free column."""
    divisors = ", ".join(str(number) for number in range(1, 1441) if 1440 % number == 0)
    domains = {**dict.fromkeys("abcd", f"[{divisors}]"), "e": "[0, 1, 2]"}
    return designs_of(domains, "a * b * c * d == 1440", "a <= b")


def mixed() -> FeasibleSet:
    """Return four numbers and a category under a rule of each kind: two parts, neither a plain product."""
    numbers = ", ".join(map(str, range(1, 41)))
    domains = {**dict.fromkeys("abcd", f"[{numbers}]"), "kind": "[red, green, blue]", "free": "[0, 1]"}
    return designs_of(domains, "a + b > 50 implies kind == red", "c % d == 0 or c < d", "3 * c + d <= 90")


def coins() -> FeasibleSet:
    """Return the ways to toss 70 coins with half heads: more than 2^63 of them."""
    domains = {f"c{at}": "[0, 1]" for at in range(70)}
    return designs_of(domains, " + ".join(domains) + " == 35")


SETS = {"full stack": full_stack, "products": products, "mixed": mixed}


def p_value(observed: np.ndarray, sizes: np.ndarray) -> float:
    """Return the chance of so uneven a draw; cells that expect fewer than ten are put together."""
    expected = sizes / sizes.sum() * observed.sum()
    small = expected < 10
    if small.any():
        observed = np.append(observed[~small], observed[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return 1.0 if len(expected) == 1 else float(chi2.sf(statistic, len(expected) - 1))


def drawn_per_region(designs: FeasibleSet, columns: list[int], drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many of the drawn designs lie in each region of a cover by columns, and the sizes."""
    regions = list(designs.cover(columns))
    number = {}
    for at, region in enumerate(regions):
        number[np.array([region.assignment[column] for column in columns], dtype=drawn.dtype).tobytes()] = at
    width = drawn.itemsize * len(columns)
    rows = np.ascontiguousarray(drawn[:, columns]).tobytes()
    cells = [number[rows[start : start + width]] for start in range(0, len(rows), width)]  # a KeyError: in no region
    observed = np.bincount(cells, minlength=len(regions))
    return observed, np.array([float(region.size) for region in regions])


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_a_million_samples_are_uniform_over_every_column_and_over_regions(name: str) -> None:
    designs = SETS[name]()
    drawn = designs.sample(SAMPLES, np.random.default_rng(2026))
    for column in range(designs.model.designs):
        assert p_value(*drawn_per_region(designs, [column], drawn)) > LEAST, column
    regions = list(designs.cover(max_regions=1000))
    columns = sorted({column for region in regions for column in region.assignment})
    assert len(regions) > 100
    assert p_value(*drawn_per_region(designs, columns, drawn)) > LEAST


def distinct(drawn: np.ndarray) -> int:
    """Return the number of different rows."""
    return len({row.tobytes() for row in np.ascontiguousarray(drawn)})


@pytest.mark.slow
def test_a_million_distinct_samples_of_a_huge_space_never_repeat_and_are_uniform() -> None:
    designs = full_stack()
    drawn = designs.sample_distinct(SAMPLES, np.random.default_rng(7))
    assert distinct(drawn) == len(drawn) == SAMPLES
    for column in range(designs.model.designs):
        assert p_value(*drawn_per_region(designs, [column], drawn)) > LEAST, column


def test_distinct_samples_of_a_space_beyond_63_bits_never_repeat() -> None:
    assert distinct(coins().sample_distinct(20_000, np.random.default_rng(7))) == 20_000


@pytest.mark.slow
def test_a_million_of_a_space_slightly_larger_never_repeat() -> None:
    designs = designs_of({"a": f"[{', '.join(map(str, range(1001)))}]", "b": f"[{', '.join(map(str, range(1000)))}]"})
    drawn = designs.sample_distinct(SAMPLES, np.random.default_rng(11)).astype(np.int64)
    assert designs.size == 1_001_000
    assert len(np.unique(drawn[:, 0] * 1000 + drawn[:, 1])) == SAMPLES


@pytest.mark.parametrize("seed", [1, 2])
def test_samples_beyond_2_to_the_62_are_uniform_over_regions_and_columns(seed: int) -> None:
    """There are 112,186,277,816,662,845,432 ways: counts are Python integers, ranks are drawn word by word."""
    designs = coins()
    assert designs.size == math.comb(70, 35) > 2**62
    drawn = designs.sample(20_000, np.random.default_rng(seed))
    assert (drawn.sum(axis=1) == 35).all()
    values = [p_value(*drawn_per_region(designs, [0, 23, 41, 69], drawn))]
    values.append(p_value(*drawn_per_region(designs, [10, 11, 12, 13, 14], drawn)))
    for column in range(70):
        heads = int(drawn[:, column].sum())
        values.append(p_value(np.array([heads, len(drawn) - heads]), np.array([1, 1])))
    assert min(values) > LEAST / len(values)


@pytest.mark.parametrize("seed", [3])
def test_distinct_samples_beyond_2_to_the_62_are_uniform_over_blocks_of_ranks(seed: int) -> None:
    designs = coins()
    ranks = designs.rank(designs.sample_distinct(20_000, np.random.default_rng(seed)))
    assert len(set(ranks)) == 20_000
    blocks = np.bincount([rank * 128 // designs.size for rank in ranks], minlength=128)
    assert p_value(blocks, np.ones(128)) > LEAST
