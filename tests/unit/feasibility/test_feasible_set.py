"""Counts, ranks, samples and prefixes of a feasible set."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.feasibility.compile import CompileLimit
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir import draft
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import IRColumn, Linear, LoweredModel, Origin, Product, Table
from cosmic_opt.psa.parameter_set import ParameterSet
from tests.strategies import FOCUSES, Source, brute_force, declare, sources

ORIGIN = Origin("rule", "rule", Where())
CHI_SQUARE_999 = {5: 20.5, 11: 31.3, 23: 49.7, 99: 148.2}
"""The 99.9 % quantile by degrees of freedom (tables of the chi-square distribution)."""


def psa(domains: dict[str, str], *rules: str) -> ParameterSet:
    lines = ["schema: cosmic-opt/model@1", "name: m", "parameters:"]
    lines += [f"  {name}: {{stack: workload, domain: {domain}}}" for name, domain in domains.items()]
    lines += ["constraints:", *(f'  r{at}: "{rule}"' for at, rule in enumerate(rules))] if rules else []
    return declare("\n".join(lines))


def designs_of(domains: dict[str, str], *rules: str) -> FeasibleSet:
    return feasible_set(lower(psa(domains, *rules)))


def ordered_pairs() -> FeasibleSet:
    """Return the pairs a < b of 1..4: six designs."""
    return designs_of({"a": "[1, 2, 3, 4]", "b": "[1, 2, 3, 4]"}, "a < b")


def two_parts() -> FeasibleSet:
    """Return two independent parts and a free column: 6 * 2 * 2 = 24 designs."""
    domains = {"a": "[1, 2, 3, 4]", "p": "[0, 1]", "b": "[1, 2, 3, 4]", "q": "[0, 1]", "free": "[7, 8]"}
    return designs_of(domains, "a < b", "p == q")


def empty_set() -> FeasibleSet:
    return designs_of({"a": "[1, 2, 4]", "b": "[1, 2, 4]"}, "a * b == 8", "a + b == 7")


def chi_square(codes: np.ndarray, size: int) -> float:
    """Return Pearson's statistic of the observed designs against the uniform distribution over `size` designs."""
    counts = Counter(map(tuple, codes.tolist()))
    expected = len(codes) / size
    seen = sum((count - expected) ** 2 / expected for count in counts.values())
    return seen + expected * (size - len(counts))


# --- counts ---------------------------------------------------------------------------------------------------


def test_independent_components_multiply() -> None:
    designs = two_parts()
    assert designs.size == 24
    assert [(part.parameters, part.value) for part in designs.component_counts()] == [
        (("a", "b"), 6),
        (("p", "q"), 2),
        (("free",), 2),
    ]


def test_a_rule_that_leaves_nothing_leaves_an_empty_set() -> None:
    designs = empty_set()
    rng = np.random.default_rng(0)
    assert designs.size == 0
    assert designs.everything(limit=0).shape == (0, 2)
    assert list(designs.chunks()) == []
    assert designs.sample(3, rng).shape == (0, 2)
    assert designs.sample_distinct(3, rng).shape == (0, 2)


def test_emptiness_that_only_the_diagram_sees_is_an_empty_set() -> None:
    """Every pair of the triangle differs, with two colours: no propagation empties a domain."""
    designs = designs_of(dict.fromkeys("abc", "[1, 2]"), "a != b", "b != c", "a != c")
    assert not designs.model.infeasible
    assert designs.size == 0
    assert designs.sample(2, np.random.default_rng(0)).shape == (0, 3)
    assert designs.everything(limit=0).shape == (0, 3)


def test_one_column_alone_is_its_domain() -> None:
    assert designs_of({"a": "[5, 3, 9]"}).everything(limit=3).tolist() == [[0], [1], [2]]
    assert designs_of({"a": "[5, 3, 9]"}, "a != 3").everything(limit=3).tolist() == [[0], [2]]


def test_everything_refuses_more_designs_than_its_limit() -> None:
    with pytest.raises(LimitError, match="24 designs, more than the limit of 23"):
        two_parts().everything(limit=23)


def test_seventy_coins_with_half_heads_are_counted_beyond_63_bits() -> None:
    domains = {f"c{at}": "[0, 1]" for at in range(70)}
    designs = designs_of(domains, " + ".join(domains) + " == 35")
    assert designs.size == math.comb(70, 35) > 2**63
    rng = np.random.default_rng(3)
    for codes in (designs.sample(50, rng), designs.sample_distinct(50, rng)):
        assert (codes.sum(axis=1) == 35).all()
        assert len(np.unique(codes, axis=0)) == 50
    ranks = np.array([0, 1, designs.size - 1], dtype=object)
    first, second, last = designs.unrank(ranks).tolist()
    assert first == [0] * 35 + [1] * 35
    assert first < second < last == [1] * 35 + [0] * 35
    assert next(designs.chunks(start=designs.size - 1)).tolist() == [last]


def test_few_designs_of_a_grid_beyond_63_bits_are_looked_up_by_machine_integers() -> None:
    domains = {f"c{at}": "[0, 1]" for at in range(70)}
    (diagram,) = designs_of(domains, " + ".join(domains) + " == 2").diagrams
    assert diagram.size == math.comb(70, 2)
    assert (diagram.counts[0].dtype, diagram._walked[0].dtype) == (object, np.int64)
    codes = diagram.unrank(np.arange(diagram.size).astype(object))
    assert codes[0].tolist() == [0] * 68 + [1, 1]
    assert diagram.rank(codes).tolist() == list(range(diagram.size))


def test_a_grid_beyond_63_bits_without_rules_is_a_product() -> None:
    designs = designs_of({f"c{at}": "[0, 1, 2]" for at in range(50)})
    assert designs.size == 3**50
    assert designs.unrank(np.array([3**50 - 1], dtype=object)).tolist() == [[2] * 50]


def test_too_many_states_are_refused_with_the_parameter() -> None:
    weights = {f"c{at}": "[0, 1]" for at in range(16)}
    rule = " + ".join(f"{3**at} * {name}" for at, name in enumerate(weights))
    with pytest.raises(LimitError, match="more than 1,000 arcs at 'c") as caught:
        feasible_set(lower(psa(weights, f"{rule} <= 20000000")), limit=CompileLimit(arcs=1000))
    assert caught.value.hint


def test_sums_beyond_62_bits_are_refused_with_the_rule() -> None:
    with pytest.raises(LimitError, match="rule 'r0' adds numbers beyond 2\\^62") as caught:
        designs_of({"a": f"[1, {2**62}]", "b": "[1, 2]", "c": f"[2, {2**61}]"}, f"a + b + c <= {2**62 + 3}")
    assert caught.value.where is not None
    assert caught.value.where.key == "constraints.r0"


# --- ranks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("focus", FOCUSES)
def test_every_rank_names_one_design_and_every_design_has_one_rank(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus))
    def bijective(source: Source) -> None:
        parameter_set = source.bind()
        designs = feasible_set(lower(parameter_set))
        ranked = designs.unrank(np.arange(designs.size))
        assert {tuple(row) for row in ranked.tolist()} == {tuple(row) for row in brute_force(parameter_set).tolist()}
        pieces = list(designs.chunks(chunk=7))
        np.testing.assert_array_equal(np.concatenate(pieces) if pieces else ranked, ranked)

    bijective()


def test_enumeration_resumes_at_any_rank() -> None:
    designs = two_parts()
    whole = designs.unrank(np.arange(24))
    np.testing.assert_array_equal(np.concatenate(list(designs.chunks(start=5, chunk=4))), whole[5:])


@pytest.mark.parametrize("focus", FOCUSES)
def test_prefixes_are_distinct_and_their_sizes_sum_to_the_count(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus))
    def adds_up(source: Source) -> None:
        for diagram in feasible_set(lower(source.bind())).diagrams:
            everything = diagram.unrank(np.arange(diagram.size))
            for depth in range(len(diagram.order) + 1):
                prefixes, sizes = diagram.prefixes(depth)
                assert int(sizes.sum()) == diagram.size
                counted = Counter(map(tuple, everything[:, :depth].tolist()))
                assert dict(zip(map(tuple, prefixes.tolist()), sizes.tolist(), strict=True)) == dict(counted)

    adds_up()


# --- samples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("designs", "size"), [(ordered_pairs(), 6), (two_parts(), 24)])
def test_samples_are_uniform(designs: FeasibleSet, size: int) -> None:
    codes = designs.sample(12_000, np.random.default_rng(7))
    assert chi_square(codes, size) < CHI_SQUARE_999[size - 1]


def test_samples_are_uniform_with_counts_beyond_63_bits() -> None:
    """Of 70 coins with two heads choose the first head: C(70, 2) designs behind a factor of 2^70."""
    coins = {f"c{at}": "[0, 1]" for at in range(63)}
    designs = designs_of({"a": "[1, 2, 3, 4]", "b": "[1, 2, 3, 4]", **coins}, "a < b", " + ".join(coins) + " >= a - 1")
    assert designs.size > 2**62
    assert designs.diagrams[0].counts[0].dtype == object
    codes = designs.sample(4_000, np.random.default_rng(11))
    assert chi_square(codes[:, :2], 6) < CHI_SQUARE_999[5]


def test_first_member_of_a_distinct_sample_is_uniform() -> None:
    designs, rng = ordered_pairs(), np.random.default_rng(5)
    for count in (2, 4, 6):
        firsts = np.concatenate([designs.sample_distinct(count, rng)[:1] for _ in range(3000)])
        assert chi_square(firsts, 6) < CHI_SQUARE_999[5]


@pytest.mark.parametrize("count", [1, 5, 23, 24, 100])
def test_distinct_samples_never_repeat(count: int) -> None:
    codes = two_parts().sample_distinct(count, np.random.default_rng(1))
    assert len(codes) == min(count, 24)
    assert len(np.unique(codes, axis=0)) == len(codes)


def test_all_designs_but_one_are_sampled_without_waiting_for_luck() -> None:
    designs = designs_of({"a": "{range: [1, 400], step: 1}", "b": "{range: [1, 400], step: 1}"})
    codes = designs.sample_distinct(designs.size - 1, np.random.default_rng(2))
    assert len(np.unique(codes, axis=0)) == 159_999


def test_the_same_seed_gives_the_same_sample() -> None:
    designs = two_parts()
    first, second = (designs.sample(20, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    first, second = (designs.sample_distinct(20, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("focus", FOCUSES)
def test_resampling_keeps_the_prefix_and_stays_feasible(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus))
    def keeps(source: Source) -> None:
        rng = np.random.default_rng(0)
        for diagram in feasible_set(lower(source.bind())).diagrams:
            paths = diagram.unrank(np.arange(diagram.size))
            known = {tuple(row) for row in paths.tolist()}
            for start in range(len(diagram.order) + 1 if diagram.size else 0):
                moved = diagram.resample(paths, start, rng)
                np.testing.assert_array_equal(moved[:, :start], paths[:, :start])
                assert {tuple(row) for row in moved.tolist()} <= known

    keeps()


def test_resampling_is_uniform_below_the_prefix() -> None:
    (diagram,) = ordered_pairs().diagrams
    start = diagram.unrank(np.zeros(6_000, dtype=np.int64))
    moved = diagram.resample(start, 1, np.random.default_rng(3))
    second = Counter(moved[:, 1].tolist())
    assert len(second) == 3
    assert all(abs(count - 2000) < 150 for count in second.values())


# --- the diagram itself ---------------------------------------------------------------------------------------


def test_columns_asked_for_first_are_eliminated_first() -> None:
    model = lower(psa({"a": "[1, 2, 3]", "b": "[1, 2, 3]", "c": "[1, 2, 3]"}, "a + b + c <= 6"))
    for first in (2, 1):
        (diagram,) = feasible_set(model, first=[first]).diagrams
        assert diagram.order[0] == first
        assert diagram.size == 17


def test_equal_partial_sums_are_one_state() -> None:
    coins = {f"c{at}": "[0, 1]" for at in range(20)}
    (diagram,) = designs_of(coins, " + ".join(coins) + " == 10").diagrams
    assert diagram.width <= 11


def test_a_helper_multiplies_no_design(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 1)
    monkeypatch.setattr(draft, "WIDE_TABLE", 1)
    parameter_set = psa(dict.fromkeys("abc", "[1, 2, 3]"), "(a * b) % c + b * c // 2 <= 4")
    model = lower(parameter_set)
    assert any(column.helper for column in model.columns)
    assert feasible_set(model).size == len(brute_force(parameter_set))


def test_a_product_of_zero_and_large_factors_is_followed_exactly() -> None:
    columns = tuple(IRColumn(name, 3) for name in "abc")
    codes = tuple(np.arange(3, dtype=np.int32) for _ in columns)
    rule = Product((0, 1, 2), ((0, 1, 10**6), (1, 2, 10**6), (0, 3, 10**6)), None, 10**12, ORIGIN)
    total = Linear((0, 1, 2), ((0, 1, 2),) * 3, 1, 6, ORIGIN)
    pair = Table((0, 2), np.array([[0, 0], [1, 2], [2, 1], [2, 2]], dtype=np.int32), ORIGIN)
    designs = feasible_set(LoweredModel(columns, (rule, total, pair), codes, (), 3))
    factors = ((0, 1, 10**6), (1, 2, 10**6), (0, 3, 10**6))
    by_hand = [
        [a, b, c]
        for a in range(3)
        for b in range(3)
        for c in range(3)
        if (a, c) in {(0, 0), (1, 2), (2, 1), (2, 2)}
        and a + b + c >= 1
        and factors[0][a] * factors[1][b] * factors[2][c] <= 10**12
    ]
    assert designs.everything(limit=27).tolist() == by_hand


@pytest.mark.parametrize("start", [0, 1, 65_535, 10**9 + 7, 10_865_885_184_000 - 1000])
def test_a_span_of_ranks_is_what_unranking_each_gives(start: int) -> None:
    feasible = Problem.load("cosmic/gpt3-175b-system2").feasible
    ranks = np.arange(start, start + 1000)
    assert np.array_equal(feasible.span(start, start + 1000), feasible.unrank(ranks))


def test_spans_of_any_length_tile_the_whole_set() -> None:
    problem = Problem.load("llama3-405b/h100-16k").fix(recompute="full", micro_batch=1)
    feasible = problem.feasible
    whole = feasible.unrank(np.arange(feasible.size))
    for chunk in (1, 7, 100, feasible.size):
        assert np.array_equal(np.concatenate(list(feasible.chunks(chunk=chunk))), whole)


def test_unrank_takes_what_rank_gives() -> None:
    feasible = two_parts()
    third = feasible.unrank([3])
    assert np.array_equal(feasible.unrank(feasible.rank(third)), third)
    assert np.array_equal(feasible.unrank(range(24)), feasible.unrank(np.arange(24)))
    assert feasible.unrank([]).shape == (0, 5)


@pytest.mark.parametrize("ranks", [[-1], [24], [0, 10**40], [2**63, -1], [1.5], [float("nan")], [True], [[0]], ["0"]])
def test_a_rank_that_no_design_has_is_refused(ranks: list[int]) -> None:
    with pytest.raises(SpecError, match="rank"):
        two_parts().unrank(ranks)


def test_an_empty_set_has_no_rank() -> None:
    assert empty_set().unrank([]).shape == (0, 2)
    with pytest.raises(SpecError, match="no design of rank 0"):
        empty_set().unrank(np.zeros(1, dtype=np.int64))
