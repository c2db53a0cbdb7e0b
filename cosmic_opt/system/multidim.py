"""A collective over several network dimensions: which phase runs where, on what share of the payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.system.collectives.base import COLLECTIVES

MULTIDIM = ("baseline", "blueconnect")
"""The ways an all-reduce is split over dimensions. The other collectives have one way each."""

THEMIS = "themis"
"""Every chunk of a collective in an order of dimensions of its own; see `system.themis`."""

SCHEMES = (*MULTIDIM, THEMIS)
"""The ways chunks are led over dimensions."""


@dataclass(frozen=True, slots=True)
class PlanPhase:
    """`collective` on dimension `dim`; its payload (the full buffer of the phase) is `share` of the whole."""

    dim: int
    collective: str
    share: Fraction


def plan(collective: str, multidim: str, extents: Sequence[int]) -> tuple[PlanPhase, ...]:
    """Return the phases, in order, of `collective` in a group that spans extents[d] NPUs of dimension d.

    Dimensions of extent 1 take no part.

    - all_reduce, `baseline`: a full all-reduce in each dimension in turn.
    - all_reduce, `blueconnect` (Cho et al. 2019): reduce-scatter up through all dimensions but the last,
      all-reduce in the last, all-gather down; each level works on the n-th that the one before left.
    - reduce_scatter: up, the payload shrinks. all_gather: the exact reverse.
    - all_to_all: up, the whole payload in each dimension (every item is relayed once per dimension).

    Raises:
        SpecError: an unknown collective or way, no dimension, or an extent below 1.
    """
    return _plan(collective, multidim, tuple(extents))


@lru_cache(maxsize=65536)
def _plan(collective: str, multidim: str, extents: tuple[int, ...]) -> tuple[PlanPhase, ...]:
    _check(collective, multidim, extents)
    dims = [dim for dim, extent in enumerate(extents) if extent > 1]
    if not dims:
        return ()
    if collective == "all_to_all" or (collective == "all_reduce" and multidim == "baseline"):
        return tuple(PlanPhase(dim, collective, Fraction(1)) for dim in dims)
    shares, share = dict[int, Fraction](), Fraction(1)
    for dim in dims:
        shares[dim] = share
        share /= extents[dim]
    up = tuple(PlanPhase(dim, "reduce_scatter", shares[dim]) for dim in dims)
    down = tuple(PlanPhase(dim, "all_gather", shares[dim]) for dim in reversed(dims))
    if collective == "reduce_scatter":
        return up
    if collective == "all_gather":
        return down
    return (*up[:-1], PlanPhase(dims[-1], "all_reduce", shares[dims[-1]]), *down[1:])


def _check(collective: str, multidim: str, extents: tuple[int, ...]) -> None:
    if collective not in COLLECTIVES:
        raise SpecError(f"unknown collective {collective!r}", hint=nearest(collective, COLLECTIVES))
    if multidim not in MULTIDIM:
        raise SpecError(f"unknown multidim {multidim!r}", hint=nearest(multidim, MULTIDIM))
    if not extents or min(extents) < 1:
        raise SpecError(f"extents {extents} mean nothing", hint="one whole number >= 1 per dimension")
