"""Where the experts of a token lie: exact averages under even routing, limited to groups of experts or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, product
from math import comb

import numpy as np

from cosmic_opt.simulation.calibrated.job import FloatArray
from cosmic_opt.workloads.language_model import Experts


def places_of_a_token(experts: Experts, places: FloatArray) -> FloatArray:
    """Return on how many of N ranks or nodes a token's k different experts lie, on average under even routing.

    Expert e of E lies on place floor(e N / E). Where routing is limited, a token first draws g of G groups of
    consecutive experts, each as likely, and then its k experts from them.
    """
    wanted, index = np.unique(np.rint(places).astype(np.int64), return_inverse=True)
    reached = np.array([_places_reached(experts, count) for count in wanted.tolist()])
    return np.asarray(reached[index].reshape(np.shape(places)))


@lru_cache(maxsize=4096)
def _places_reached(experts: Experts, places: int) -> float:
    """Return the sum over places of the odds that a token has an expert there."""
    return sum(many * (1 - _odds_of_none(experts, parts)) for parts, many in _parts(experts, places).items())


def _parts(experts: Experts, places: int) -> Counter[tuple[int, ...]]:
    """Return how many experts of each group that it touches a place holds, and how many places hold such parts."""
    size = experts.count // max(experts.groups, 1)
    bounds = [-(-place * experts.count // places) for place in range(places + 1)]
    return Counter(tuple(_cut(begin, end, size)) for begin, end in pairwise(bounds))


def _cut(begin: int, end: int, size: int) -> Iterator[int]:
    """Yield the sizes of what a range is cut in by multiples of `size`."""
    while begin < end:
        until = min(end, (begin // size + 1) * size)
        yield until - begin
        begin = until


def _odds_of_none(experts: Experts, parts: tuple[int, ...]) -> float:
    """Return the odds that no expert of a token is among `parts`, so many experts of as many groups.

    Over how many whole groups of them, and which of the others, are among the g chosen of G: the rest of those is
    chosen from the groups the place has no part of, and all k experts are among the others of the chosen groups.
    """
    groups, chosen = (experts.groups, experts.group_top_k) if experts.groups else (1, 1)
    size = experts.count // groups
    whole = sum(part == size for part in parts)
    partly = [part for part in parts if part < size]
    elsewhere, pool = groups - len(parts), chosen * size
    ways = 0
    for wholes, taken in product(range(whole + 1), product((0, 1), repeat=len(partly))):
        rest = chosen - wholes - sum(taken)
        if rest >= 0:
            held = wholes * size + sum(part for part, is_taken in zip(partly, taken, strict=True) if is_taken)
            ways += comb(whole, wholes) * comb(elsewhere, rest) * comb(pool - held, experts.top_k)
    return ways / (comb(groups, chosen) * comb(pool, experts.top_k))
