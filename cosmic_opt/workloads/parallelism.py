"""How a job is cut: parallel degrees, layers per pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.quantity import IntArray
from cosmic_opt.workloads.placement import GROUPS


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Parallel degrees: data, tensor, pipeline, and sequence (context)."""

    dp: int
    tp: int
    pp: int
    sp: int

    def __post_init__(self) -> None:
        for name in GROUPS:
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}", hint="a parallel degree is at least 1")

    @property
    def npus(self) -> int:
        """The world size tp * sp * dp * pp."""
        return self.tp * self.sp * self.dp * self.pp

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degrees in `GROUPS`."""
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
