"""Themis (Rashidi 2022, ISCA, Algorithm 1): every chunk of a collective takes its own order of dimensions.

A reduce-scatter goes to the least loaded dimension first, because its payload shrinks on the way; an all-gather to
the most loaded first; an all-reduce goes the way of a reduce-scatter and back. Loads are predicted, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod

from cosmic_opt.errors import SpecError
from cosmic_opt.system.multidim import PlanPhase

SLACK = 16
"""Loads count as balanced when they differ by less than one n-th of a chunk takes on the least loaded dimension."""

Ticks = Callable[[PlanPhase], Fraction]
"""What a phase of one chunk occupies its dimension for; linear in the share."""


def themis_routes(
    collective: str, extents: Sequence[int], chunks: int, ticks: Ticks
) -> tuple[tuple[PlanPhase, ...], ...]:
    """Return the phases of every chunk, in the order of service, of a collective over extents[d] NPUs of dimension d.

    A load is the time that the chunks so far occupy a dimension one way; fixed delays are left out of it, which
    reproduces the paper's figure 8 (with them its times are missed by up to a fifth).

    Args:
        collective: all_reduce, reduce_scatter or all_gather.
        extents: NPUs of the group in each dimension, innermost first.
        chunks: Equal parts of the payload.
        ticks: The time of a phase of one chunk; shares are of the chunk.

    Raises:
        SpecError: an all-to-all, which has one order only.
    """
    if collective == "all_to_all":
        raise SpecError("themis does not schedule an all_to_all", hint="use baseline or blueconnect")
    dims = [dim for dim, extent in enumerate(extents) if extent > 1]
    loads = dict.fromkeys(dims, Fraction(0))
    half = "all_gather" if collective == "all_gather" else "reduce_scatter"
    slack = {dim: ticks(PlanPhase(dim, half, Fraction(1, SLACK))) for dim in dims}
    known = dict[tuple[int, ...], tuple[tuple[PlanPhase, ...], tuple[Fraction, ...]]]()
    routes = []
    for _ in range(chunks if dims else 0):
        order = _order(dims, loads, slack)
        if order not in known:
            route = _route(collective, extents, order)
            known[order] = route, tuple(ticks(phase) for phase in route[: len(dims)])
        route, times = known[order]
        for phase, time in zip(route, times, strict=False):
            loads[phase.dim] += time
        routes.append(route)
    return tuple(routes)


def _order(dims: Sequence[int], loads: Mapping[int, Fraction], slack: Mapping[int, Fraction]) -> tuple[int, ...]:
    """Return the order of the reduce-scatter (reversed, of the all-gather): ascending load; the dimensions' own if
    balanced."""
    least = min(dims, key=lambda dim: loads[dim])
    if max(loads.values()) - loads[least] < slack[least]:
        return tuple(dims)
    return tuple(sorted(dims, key=lambda dim: loads[dim]))


def _route(collective: str, extents: Sequence[int], order: Sequence[int]) -> tuple[PlanPhase, ...]:
    """Return one chunk's phases: up through `order`, its payload shrinking, and down again."""
    shares = [Fraction(1, prod(extents[dim] for dim in order[:place])) for place in range(len(order))]
    up = tuple(PlanPhase(dim, "reduce_scatter", share) for dim, share in zip(order, shares, strict=True))
    down = tuple(PlanPhase(dim, "all_gather", share) for dim, share in zip(order, shares, strict=True))[::-1]
    return {"reduce_scatter": up, "all_gather": down, "all_reduce": up + down}[collective]
