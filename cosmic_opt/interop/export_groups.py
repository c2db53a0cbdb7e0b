"""Which NPUs communicate with each other: ranks, pipeline neighbours and communicator groups of a placed design.

Ranks count along dimensions, innermost fastest, as ASTRA-sim numbers NPUs (a0 + n0 * a1 + ...). Inside a dimension the
groups tp, sp, dp, pp lie as `workloads.placement` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from math import prod
from operator import mul

from cosmic_opt.psa.domain import Value
from cosmic_opt.workloads.graph import CONTEXT, DATA, TENSOR
from cosmic_opt.workloads.placement import GROUPS, nested_placement, placement_strides

MEMBERS = {TENSOR: ("tp",), CONTEXT: ("sp",), DATA: ("sp", "dp")}
"""The parallel groups that a communicating group spans."""
PIPELINE = "pp"


def extents_of(design: Mapping[str, Value], npus_per_dim: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return `extents[g][d]` in the order of `GROUPS`, from free extents or from a filling order.

    Raises:
        InfeasibleError: the degrees do not fill the dimensions.
    """
    dims = range(len(npus_per_dim))
    if f"extent[{GROUPS[0]},0]" in design:
        return tuple(tuple(int(design[f"extent[{group},{dim}]"]) for dim in dims) for group in GROUPS)
    order = str(design["order"]).split("_")
    placed = nested_placement([int(design[group]) for group in order], npus_per_dim)
    return tuple(placed[order.index(group)] for group in GROUPS)


@dataclass(frozen=True)
class Placement:
    """How a design's parallel groups lie on the NPUs: `extents[g][d]`, groups in the order of `GROUPS`."""

    npus_per_dim: tuple[int, ...]
    extents: tuple[tuple[int, ...], ...]

    @property
    def npus(self) -> int:
        """Return the number of NPUs."""
        return prod(self.npus_per_dim)

    @cached_property
    def _steps(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Per group, (extent, distance in ranks) of each dimension that it reaches into, innermost first."""
        dim_strides = list(accumulate(self.npus_per_dim, mul, initial=1))
        strides = placement_strides(self.extents)
        return {
            group: tuple(
                (extent, strides[index][dim] * dim_strides[dim])
                for dim, extent in enumerate(self.extents[index])
                if extent > 1
            )
            for index, group in enumerate(GROUPS)
        }

    def coordinate(self, rank: int, group: str) -> int:
        """Return the place of a rank in one of `GROUPS`."""
        place, weight = 0, 1
        for extent, distance in self._steps[group]:
            place += weight * (rank // distance % extent)
            weight *= extent
        return place

    def stage(self, rank: int) -> int:
        """Return the pipeline stage of a rank."""
        return self.coordinate(rank, PIPELINE)

    def neighbour(self, rank: int, offset: int) -> int:
        """Return the rank `offset` pipeline stages on, with equal coordinates elsewhere."""
        place = self.stage(rank) + offset
        moved = rank
        for extent, distance in self._steps[PIPELINE]:
            digit = rank // distance % extent
            moved += (place % extent - digit) * distance
            place //= extent
        return moved

    def offsets(self, role: str) -> tuple[int, ...]:
        """Return the ranks of the communicating group `role` that holds rank 0, ascending."""
        steps = [step for group in MEMBERS[role] for step in self._steps[group]]
        choices = [[digit * distance for digit in range(extent)] for extent, distance in steps]
        return tuple(sorted(map(sum, product(*choices))))

    def first(self, rank: int, role: str) -> int:
        """Return the least rank of the communicating group of a rank; it names the group."""
        steps = [step for group in MEMBERS[role] for step in self._steps[group]]
        return rank - sum(rank // distance % extent * distance for extent, distance in steps)

    def degree(self, role: str) -> int:
        """Return the number of members of a communicating group."""
        return prod(extent for group in MEMBERS[role] for extent, _ in self._steps[group])

    def whole_dims(self, role: str) -> tuple[bool, ...] | None:
        """Return which dimensions of more than one NPU a group spans; None where it spans a part of one."""
        spans = [
            prod(self.extents[GROUPS.index(group)][dim] for group in MEMBERS[role])
            for dim in range(len(self.npus_per_dim))
        ]
        if any(span not in (1, npus) for span, npus in zip(spans, self.npus_per_dim, strict=True)):
            return None
        return tuple(span > 1 for span, npus in zip(spans, self.npus_per_dim, strict=True) if npus > 1)


@dataclass(frozen=True)
class CommunicatorGroups:
    """ASTRA-sim's communicator groups of a placement: for the roles that do not span whole dimensions.

    Names are numbers of equally many digits, from 1 followed by zeros on.
    """

    placement: Placement
    roles: tuple[str, ...]

    @staticmethod
    def of(placement: Placement) -> CommunicatorGroups:
        """Return the groups that a placement needs."""
        needed = [role for role in MEMBERS if placement.degree(role) > 1 and placement.whole_dims(role) is None]
        return CommunicatorGroups(placement, tuple(needed))

    @cached_property
    def names(self) -> Mapping[tuple[str, int], str]:
        """The name of each group by role and least rank."""
        ranks = range(self.placement.npus)
        keys = [(role, rank) for role in self.roles for rank in ranks if self.placement.first(rank, role) == rank]
        start = 10 ** len(str(len(keys)))
        return {key: str(start + number) for number, key in enumerate(keys)}

    def name(self, rank: int, role: str) -> str:
        """Return the name of the group of a rank."""
        return self.names[role, self.placement.first(rank, role)]

    @property
    def members(self) -> dict[str, tuple[int, ...]]:
        """The ranks of each group by name, ascending."""
        offsets = {role: self.placement.offsets(role) for role in self.roles}
        return {name: tuple(first + offset for offset in offsets[role]) for (role, first), name in self.names.items()}
