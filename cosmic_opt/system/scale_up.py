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
    """Return the domain: the innermost dimension, and rings of its tier around a ring (one torus), of whatever rates.

    A torus works in all its dimensions at once, on equal pieces of the payload, so every dimension counts at the rate
    of the slowest (Sack and Gropp 2015, multi-ported rings).

    Args:
        dimensions: Network dimensions, at least one.
        values: `topology[d]`, `npus_per_dim[d]` and `bandwidth[d]` in base units; `tier[d]` where it is stated.
    """
    joined = _torus(dimensions, values)
    npus = math.prod(int(values[f"npus_per_dim[{d}]"]) for d in range(joined))
    slowest = min(int(values[f"bandwidth[{d}]"]) for d in range(joined))
    nic = float(values[f"bandwidth[{joined}]"]) if joined < dimensions else None
    return ScaleUp(npus, float(joined * slowest), nic)


def _torus(dimensions: int, values: Mapping[str, int | str]) -> int:
    """Return how many dimensions are one torus; 1 where the innermost is no ring."""
    kinds = [(values[f"topology[{d}]"], values.get(f"tier[{d}]")) for d in range(dimensions)]
    if kinds[0][0] != "ring":
        return 1
    return next((d for d, kind in enumerate(kinds) if kind != kinds[0]), dimensions)
