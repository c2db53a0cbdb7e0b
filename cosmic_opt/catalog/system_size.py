"""How many NPUs the network of a system holds, and whether it may hold more."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.domain import Value

SWITCHED = "switch"
"""An outer dimension of switches takes any number of nodes; a ring ends where it is wired, and so does one node."""


def stated_npus(data: Mapping[str, Value]) -> int | None:
    """Return the NPUs of the system's dimensions together; None where the model chooses their extents."""
    extents = [data.get(f"npus_per_dim[{d}]") for d in range(int(data["dims"]))]
    return None if None in extents else math.prod(int(extent) for extent in extents if extent is not None)


def check_npus(data: Mapping[str, Value], system: str, where: Where, *, grows: bool) -> None:
    """Refuse NPUs that are not those of the network: more than it holds, unless its outermost dimension `grows`.

    A simulator that plays every dimension (`grows` is False) knows no network of another size, so not of fewer either.

    Raises:
        SpecError: there are more, or others, at `where`.
    """
    npus, held, outermost = int(data["npus"]), stated_npus(data), int(data["dims"]) - 1
    if held is None or npus == held or (grows and npus < held):
        return
    if grows and outermost > 0 and data.get(f"topology[{outermost}]", SWITCHED) == SWITCHED:
        return
    raise SpecError(
        f"{npus:,} NPUs on the system {system!r}, whose network holds {held:,}",
        where=where,
        hint="name another system in the instance, or a copy of its file with other npus in a dimension",
    )
