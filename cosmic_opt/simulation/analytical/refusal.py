"""Why a design has no step, in words, and the rule that keeps such designs out."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.errors import CosmicError, InfeasibleError, LimitError, SpecError, Where
from cosmic_opt.simulation.analytical.layout import CATEGORIES, Status
from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.topology import TOPOLOGIES


def refusal(status: int, design: Mapping[str, int], dimensions: int, where: Where | None) -> CosmicError:
    """Return the error of a row (`design`: every input by name, categories as codes) with a status other than OK."""
    shape = [design[f"npus_per_dim[{dim}]"] for dim in range(dimensions)]
    match status:
        case Status.WORLD_SIZE:
            degrees = ", ".join(f"{name} {design[name]}" for name in ("dp", "tp", "pp", "sp"))
            return InfeasibleError(
                f"the degrees ({degrees}) do not fill a network of {shape} NPUs",
                where=where,
                hint="a rule must keep dp * tp * pp * sp == product(npus_per_dim)",
            )
        case Status.PLACEMENT:
            extents = {name: value for name, value in design.items() if name.startswith("extent")}
            return InfeasibleError(
                f"extents {extents} do not place the degrees on a network of {shape} NPUs",
                where=where,
                hint="rules must keep a group's extents multiplying to its degree, a dimension's to its NPUs",
            )
        case Status.ALGORITHM:
            return _no_algorithm(design, shape, where)
        case Status.TOO_LONG:
            return LimitError("the step takes longer than 46 days", where=where, hint="check bandwidths and peak")
    return SpecError("a value is outside the domains of the simulator", where=where, hint=f"the design: {design}")


def _no_algorithm(design: Mapping[str, int], shape: list[int], where: Where | None) -> InfeasibleError:
    """Return what is wrong with the first algorithm that does not exist for every group of its dimension."""
    chosen = [CATEGORIES["algorithm"][design[f"algorithm[{dim}]"]] for dim in range(len(shape))]
    for dim, (name, npus) in enumerate(zip(chosen, shape, strict=True)):
        if not ALGORITHMS.get(name).runs_on(npus):
            return InfeasibleError(
                f"{name} needs groups of a power of two, and dimension {dim} has {npus} NPUs",
                where=where,
                hint="a rule must keep all(algorithm[d] in {halving_doubling, double_binary_tree} implies "
                "npus_per_dim[d] in {1, 2, 4, 8, 16, 32} for d in dim)",
            )
    blocks = [CATEGORIES["topology"][design[f"topology[{dim}]"]] for dim in range(len(shape))]
    in_switches = [dim for dim, name in enumerate(chosen) if ALGORITHMS.get(name).in_switch]
    dim = next((dim for dim in in_switches if not TOPOLOGIES.get(blocks[dim]).switched), in_switches[0])
    has = "does not" if TOPOLOGIES.get(blocks[dim]).switched else "has none"
    return InfeasibleError(
        f"{chosen[dim]} needs a switch that reduces, and the {blocks[dim]} of dimension {dim} {has}",
        where=where,
        hint="a rule must keep all(algorithm[d] == in_network implies topology[d] == switch for d in dim), and "
        "in_network_reduction=1 says that switches add and copy messages",
    )
