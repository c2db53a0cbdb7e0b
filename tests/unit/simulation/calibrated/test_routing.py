"""Where a token's experts lie, against counting every choice of groups."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest

from cosmic_opt.simulation.calibrated.routing import places_of_a_token
from cosmic_opt.workloads.language_model import Experts

EXPERTS = Experts(count=128, top_k=8, ffn=768)
DEEPSEEK_V2 = Experts(count=160, top_k=6, ffn=1536, groups=8, group_top_k=3)
DEEPSEEK_V3 = Experts(count=256, top_k=8, ffn=2048, groups=8, group_top_k=4)


def nodes_by_counting(experts: Experts, nodes: int) -> float:
    """Return the nodes a token's experts lie on, over every choice of groups and exact odds of experts within them."""
    holder = [e * nodes // experts.count for e in range(experts.count)]
    size = experts.count // experts.groups
    total = []
    for chosen in combinations(range(experts.groups), experts.group_top_k):
        held = Counter(holder[e] for group in chosen for e in range(group * size, (group + 1) * size))
        pool = sum(held.values())
        total.append(sum(1 - comb(pool - own, experts.top_k) / comb(pool, experts.top_k) for own in held.values()))
    return sum(total) / len(total)


@pytest.mark.parametrize(
    "experts", [DEEPSEEK_V2, DEEPSEEK_V3, Experts(count=24, top_k=4, ffn=8, groups=8, group_top_k=4)]
)
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 24])
def test_tokens_of_limited_routing_reach_the_nodes_of_their_groups(experts: Experts, nodes: int) -> None:
    """Half the experts lie in four of eight groups; places may hold two groups, and groups may straddle places."""
    found = places_of_a_token(experts, np.array([float(nodes)]))
    assert found[0] == pytest.approx(nodes_by_counting(experts, nodes), rel=1e-12)


def test_deepseek_v3_reaches_under_four_of_eight_nodes_and_six_and_a_half_of_thirty_two() -> None:
    """A node of eight is a group, one of thirty-two a quarter of one; 128 experts are drawn from."""
    found = places_of_a_token(DEEPSEEK_V3, np.array([1.0, 8.0, 32.0, 256.0]))
    groups, quarters = (many * (1 - comb(128 - held, 8) / comb(128, 8)) for many, held in ((4, 32), (16, 8)))
    assert found == pytest.approx([1, groups, quarters, 8])


def test_places_that_hold_unlike_numbers_of_experts_are_counted_each() -> None:
    """Three places of four experts hold 2, 1 and 1; two experts are drawn of six pairs."""
    four = Experts(count=4, top_k=2, ffn=8)
    assert places_of_a_token(four, np.array([3.0]))[0] == pytest.approx((1 - 1 / 6) + 2 * (1 - 3 / 6))


def test_more_places_never_reach_fewer() -> None:
    for experts in (EXPERTS, DEEPSEEK_V2, DEEPSEEK_V3):
        found = places_of_a_token(experts, np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]))
        assert np.all(np.diff(found) > 0)


def test_routing_limited_to_every_group_is_not_limited() -> None:
    nodes = np.array([1.0, 2.0, 4.0, 8.0])
    everywhere = replace(EXPERTS, groups=8, group_top_k=8)
    exact = [count * (1 - comb(128 - 128 // count, 8) / comb(128, 8)) for count in (1, 2, 4, 8)]
    assert places_of_a_token(everywhere, nodes) == pytest.approx(exact)
    assert places_of_a_token(EXPERTS, nodes) == pytest.approx(exact)


@pytest.mark.parametrize(("count", "top_k", "ranks"), [(8, 2, 8), (128, 8, 128), (256, 8, 256), (4, 1, 2)])
def test_a_token_visits_as_many_ranks_as_experts_where_each_rank_has_one(count: int, top_k: int, ranks: int) -> None:
    experts = replace(EXPERTS, count=count, top_k=top_k)
    assert places_of_a_token(experts, np.array([float(ranks)])) == pytest.approx(top_k)
