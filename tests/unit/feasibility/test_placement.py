"""Placements are counted exactly: closed forms, brute force, other engines, primes other than two."""

from math import comb, prod

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.cp_sat import CpSat
from cosmic_opt.workloads.placement import GROUPS, order_repeats
from tests.strategies import brute_force, declare, sorted_codes

INSTANCE = Problem.load("cosmic/placement-gpt3-175b-system2")
LIMITS = ("fits", "runnable_pp", "runnable_tp", "runnable_sp", "runnable_dp")


def placing(groups: tuple[str, ...], npus: str, values: str, shape: str = "") -> str:
    """A model of degrees, a network and free extents, nothing else; `values` are those of degrees and extents."""
    degrees = "\n".join(f"  {group}: {{stack: workload, domain: {values}}}" for group in groups)
    placed = "\n".join(f"  {group}_placed: 'product(extent[{group}, d] for d in dim) == {group}'" for group in groups)
    return f"""\
schema: cosmic-opt/model@1
name: placing
indices: {{dim: dims, group: [{", ".join(groups)}]}}
parameters:
{degrees}
  npus_per_dim: {{stack: network, per: dim, domain: {npus}}}
  extent: {{stack: workload, per: [group, dim], domain: {values}}}
constraints:
  filled: 'all(product(extent[g, d] for g in group) == npus_per_dim[d] for d in dim)'
{placed}
{shape}
"""


def of_one_dimension(npus: int, groups: int) -> int:
    """In how many ways groups share out one dimension: per prime, weak compositions of its exponent."""
    ways, prime = 1, 2
    while npus > 1:
        exponent = 0
        while npus % prime == 0:
            npus, exponent = npus // prime, exponent + 1
        ways *= comb(exponent + groups - 1, groups - 1)
        prime += 1
    return ways


def test_four_groups_on_1024_npus_lie_in_380_000_ways() -> None:
    components = INSTANCE.without(*LIMITS).count().components
    assert 380_000 in [component.value for component in components]
    # shapes with one 16 and three 8s or 4s: 4 * (35 * 10^3) + 6 * (20 * 20 * 10 * 10)
    assert 4 * 35 * 10**3 + 6 * 20**2 * 10**2 == 380_000


def test_24_orders_give_25_440_designs() -> None:
    components = INSTANCE.scope("filling_order").without(*LIMITS).count().components
    assert 25_440 in [component.value for component in components]


def test_nested_placement_counts_what_the_model_without_placement_counts() -> None:
    assert INSTANCE.scope("nested").count().value == Problem.load("cosmic/gpt3-175b-system2").count().value


def test_five_groups_on_six_dimensions_lie_in_26_149_921_875_ways() -> None:
    groups = ("tp", "sp", "ep", "dp", "pp")
    text = placing(groups, "[4, 8, 16]", "{divisors_of: npus}", "  shape: product(npus_per_dim) == npus")
    designs = feasible_set(lower(declare(text, {"dims": 6, "npus": 65_536})))
    assert designs.size == 26_149_921_875


@pytest.mark.parametrize("shape", [(8, 16, 12), (16, 12, 8, 4), (9, 5, 7), (1, 1, 1), (30, 1, 16)])
def test_every_prime_is_shared_out_on_its_own(shape: tuple[int, ...]) -> None:
    fixed = "\n".join(f"  d{d}: npus_per_dim[{d}] == {npus}" for d, npus in enumerate(shape))
    domain = f"[{', '.join(map(str, sorted(set(shape))))}]"
    text = placing(GROUPS, domain, "{divisors_of: npus}", fixed)
    designs = feasible_set(lower(declare(text, {"dims": len(shape), "npus": prod(shape)})))
    assert designs.size == prod(of_one_dimension(npus, len(GROUPS)) for npus in shape)


@pytest.mark.parametrize("rule", ["", "  inner: extent[tp, 1] == 1", "  one: tp * npus_per_dim[0] <= 24 or dp == 1"])
def test_engines_agree_on_small_placements(rule: str) -> None:
    parameter_set = declare(placing(("tp", "dp"), "[2, 3, 6]", "[1, 2, 3, 6, 12, 18, 36]", rule), {"dims": 2})
    expected = brute_force(parameter_set)
    model = lower(parameter_set)
    np.testing.assert_array_equal(feasible_set(model).everything(10_000), expected)
    found = list(CpSat().enumerate(model, limits=Limits()))
    np.testing.assert_array_equal(sorted_codes(model, found), expected)
    assert len(expected) >= 20


def test_orders_are_counted_as_their_reference_meaning_says() -> None:
    text = """\
schema: cosmic-opt/model@1
name: ordering
indices: {dim: dims, group: [tp, sp, dp, pp]}
parameters:
  tp: {stack: workload, domain: [1, 2, 4]}
  sp: {stack: workload, domain: [1, 3]}
  dp: {stack: workload, domain: [1, 2, 6]}
  pp: {stack: workload, domain: [1, 2]}
  npus_per_dim: {stack: network, per: dim, domain: [2, 4, 6]}
  order: {stack: workload, domain: {permutations_of: group}}
constraints:
  world: tp * sp * dp * pp == product(npus_per_dim)
  one: order_repeats == 0
"""
    parameter_set = declare(text, {"dims": 2}, {"order_repeats": order_repeats(2)})
    expected = brute_force(parameter_set)
    np.testing.assert_array_equal(feasible_set(lower(parameter_set)).everything(10_000), expected)
    assert len(expected) > 50


def test_a_problem_opens_an_order_or_extents_never_both() -> None:
    with pytest.raises(SpecError, match="a filling order and free extents") as refused:
        INSTANCE.free("order").count()
    assert refused.value.hint == "free one of the two: order or extent"


def test_a_rule_on_extents_that_are_left_out_says_how_to_open_them() -> None:
    with pytest.raises(SpecError, match="'extent' is left out") as refused:
        INSTANCE.scope("nested").require("extent[tp, 0] >= 2").count()
    assert refused.value.hint == "open it with --free extent"


def test_the_instance_own_placement_is_the_nested_one() -> None:
    (own,) = INSTANCE.baseline().points()
    assert [own[f"extent[tp,{d}]"] for d in range(4)] == [4, 1, 1, 1]
    assert [own[f"extent[dp,{d}]"] for d in range(4)] == [1, 1, 4, 8]
    (own,) = INSTANCE.scope("filling_order").baseline().points()
    assert own["order"] == "tp_sp_dp_pp"
