"""How a job is cut: parallel degrees, layers per pipeline stage, groups on network dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.psa.quantity import IntArray

GROUP_ORDER = ("tp", "sp", "dp", "pp")
"""Filling order of the nested placement, innermost network dimension first."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Parallel degrees: data, tensor, pipeline, and sequence (context)."""

    dp: int
    tp: int
    pp: int
    sp: int

    def __post_init__(self) -> None:
        for name in GROUP_ORDER:
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}", hint="a parallel degree is at least 1")

    @property
    def npus(self) -> int:
        """The world size tp * sp * dp * pp."""
        return self.tp * self.sp * self.dp * self.pp

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degrees in `GROUP_ORDER`."""
        return (self.tp, self.sp, self.dp, self.pp)


def stage_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Return the layers of each pipeline stage: q or q + 1 each, `layers` in all.

    The r left-over layers go to stages in between, latest first because those keep fewer micro-batches in
    flight; then to the first stage, which also embeds. The last stage, which has the head, gets none.
    """
    if pp < 1 or layers < 0:
        raise SpecError(f"cannot cut {layers} layers in {pp} stages", hint="pp is at least 1")
    quotient, left_over = divmod(layers, pp)
    order = [*range(pp - 2, 0, -1), 0, pp - 1]
    larger = set(order[:left_over])
    return tuple(quotient + (stage in larger) for stage in range(pp))


def layers_of_stage(layers: int, pp: IntArray, stage: IntArray) -> IntArray:
    """Return `stage_layers(layers, pp)[stage]` for many designs at once; `stage` is from 0 to pp - 1."""
    quotient, left_over = layers // pp, layers % pp
    between = (stage < pp - 1) & (stage >= pp - 1 - left_over)
    return quotient + np.where(stage == 0, left_over > np.maximum(pp - 2, 0), between)


def nested_extents(degrees: IntArray, npus_per_dim: IntArray) -> IntArray:
    """Return the nested placement of many designs.

    Groups fill the network in the order given, from the innermost dimension outward. A group takes from a
    dimension the greatest common divisor of what it still needs and what is still free: for every prime, the
    lesser exponent.

    Args:
        degrees: Shape (groups, designs).
        npus_per_dim: Shape (dimensions, designs), innermost first.

    Returns:
        Shape (groups, dimensions, designs). `extents[g].prod(axis=0)` is the degree of group g, and
        `extents[:, d].prod(axis=0)` the NPUs of dimension d, wherever both have the same product.
    """
    free = npus_per_dim.copy()
    extents = np.ones((len(degrees), *npus_per_dim.shape), dtype=np.int64)
    for group, degree in enumerate(degrees):
        needed = degree.copy()
        for dimension in range(len(free)):
            taken = np.gcd(needed, free[dimension])
            extents[group, dimension] = taken
            needed //= taken
            free[dimension] //= taken
    return extents


def nested_placement(degrees: Sequence[int], npus_per_dim: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return `extents[g][d]`, how far each group reaches into each dimension; see `nested_extents`.

    Raises:
        InfeasibleError: the degrees and the dimensions have different products.
    """
    if math.prod(degrees) != math.prod(npus_per_dim):
        raise InfeasibleError(
            f"degrees {tuple(degrees)} need {math.prod(degrees)} NPUs, the network has {math.prod(npus_per_dim)}",
            hint="the product of the parallel degrees equals the number of NPUs",
        )
    columns = (np.array(values, dtype=np.int64).reshape(-1, 1) for values in (degrees, npus_per_dim))
    extents = nested_extents(*columns)
    return tuple(tuple(int(extent) for extent in row) for row in extents[:, :, 0])


def placement_strides(extents: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return `strides[g][d]`: the distance inside dimension d between neighbours of group g.

    It is the product of the extents of the groups before it.
    """
    strides = [[1] * len(extents[0])] if extents else []
    for row in extents[:-1]:
        strides.append([stride * extent for stride, extent in zip(strides[-1], row, strict=True)])
    return tuple(tuple(row) for row in strides)
