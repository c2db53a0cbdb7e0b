"""The scale-up domain of a cluster: the network dimensions whose links belong to the NPUs themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """A scale-up domain, from the innermost dimension outward.

    Attributes:
        npus: NPUs of one domain.
        link_bytes_per_s: Rate of an NPU inside it, one direction, all dimensions together.
        nic_bytes_per_s: Rate of an NPU out of it; None where no dimension lies outside.
    """

    npus: int
    link_bytes_per_s: float
    nic_bytes_per_s: float | None


def scale_up(dimensions: int, values: Mapping[str, int | str]) -> ScaleUp:
    """Return the domain: the innermost dimension, and rings of equal bandwidth around a ring (one torus).

    `values` hold `topology[d]`, `npus_per_dim[d]` and `bandwidth[d]` in base units.
    """
    first = values["topology[0]"], values["bandwidth[0]"]
    count = 1
    while (
        first[0] == "ring"
        and count < dimensions
        and (values[f"topology[{count}]"], values[f"bandwidth[{count}]"]) == first
    ):
        count += 1
    npus = math.prod(int(values[f"npus_per_dim[{d}]"]) for d in range(count))
    link = sum(int(values[f"bandwidth[{d}]"]) for d in range(count))
    return ScaleUp(npus, float(link), float(values[f"bandwidth[{count}]"]) if count < dimensions else None)
