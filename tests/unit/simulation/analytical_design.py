"""One design as tests of the analytical simulator write it."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.workloads.placement import GROUPS


@dataclass(frozen=True)
class Design:
    dp: int
    tp: int
    pp: int
    sp: int
    npus_per_dim: tuple[int, ...]
    topology: tuple[str, ...]
    algorithm: tuple[str, ...]
    bandwidth: tuple[int, ...]
    latency: tuple[int, ...]
    zero_stage: int = 0
    micro_batch: int = 1
    recompute: str = "none"
    chunks: int = 1
    multidim: str = "blueconnect"
    sequence_parallel: int = 0
    overlap_gradients: int = 1
    overlap_weights: int = 1
    interleave: int = 1
    weight_offload: int = 0
    activation_offload: int = 0
    optimizer_offload: int = 0
    order: str = "tp_sp_dp_pp"
    extent: tuple[tuple[int, ...], ...] = ()
    """Free extents by group (tp, sp, dp, pp) and dimension; they stand instead of the order."""

    def columns(self) -> dict[str, int | str]:
        """The design by column name."""
        values: dict[str, int | str] = {}
        for name, value in self.__dict__.items():
            if name == "extent":
                for group, row in zip(GROUPS, self.extent, strict=bool(self.extent)):
                    values.update({f"extent[{group},{dim}]": item for dim, item in enumerate(row)})
            elif name == "order":
                values.update({} if self.extent else {name: self.order})
            elif isinstance(value, tuple):
                values.update({f"{name}[{dim}]": item for dim, item in enumerate(value)})
            else:
                values[name] = value
        return values
