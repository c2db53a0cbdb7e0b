"""One accelerator as the calibrated models see it: data sheet numbers and a few fitted physical constants.

Rates are FLOP/s and bytes/s, times are seconds, fractions are of the data sheet's number. A fraction is fitted once per
device from kernel rows and never depends on a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cosmic_opt.errors import SpecError, nearest

OPERAND_BYTES: Mapping[str, float] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}
"""Bytes of one operand element by precision; four-bit scales are counted with the casts, not here."""


@dataclass(frozen=True, slots=True)
class RooflineConstants:
    """The roofline of one form of the GEMM model.

    `efficiency` is the fraction of the matrix peak a cold kernel reaches, `memory_fraction` that of the memory
    bandwidth, `launch_s` the floor of one kernel, `knee` the power of the smooth maximum of compute and traffic,
    `throttle` how much slower (0.25: 25 %) a kernel computes once the power limit is reached.
    """

    efficiency: float
    memory_fraction: float
    launch_s: float
    knee: float
    throttle: float


@dataclass(frozen=True, slots=True)
class TileLibrary:
    """How a GEMM library cuts a product, shared by the devices that run it.

    `tiles` are output tiles (rows, columns) and `splits` the parts of k to choose among, each at least `split_k_min`
    long; `prologue_k` is the start and end of a tile in elements of k, `edge` the cost of small tiles (elements),
    `wave_share` how much of whole-wave quantisation is seen.
    """

    tiles: tuple[tuple[int, int], ...]
    splits: tuple[int, ...]
    split_k_min: int
    prologue_k: float
    edge: float
    wave_share: float


@dataclass(frozen=True, slots=True)
class GemmConstants:
    """Constants of matrix products.

    `sustained` is the fraction of the peak of each precision that a long run keeps (power and clocks at their limit),
    by precision; `relative` the fraction a precision reaches of bf16's own fraction. The throttle grows from nothing
    at `throttle_from_s` of ideal kernel time to its whole at `throttle_full_s`. `group_rows` is the tile height to
    which a grouped GEMM rounds each expert's rows, `group_efficiency` its fraction of the dense rate.
    """

    simple: RooflineConstants
    tile: RooflineConstants
    library: TileLibrary
    sustained: Mapping[str, float]
    relative: Mapping[str, float]
    throttle_from_s: float
    throttle_full_s: float
    group_rows: int
    group_efficiency: float


@dataclass(frozen=True, slots=True)
class AttentionConstants:
    """Constants of the device's best fused attention kernels.

    Prefill: `efficiency` of the matrix peak, `prefill_launch_s`, `traffic` (bytes moved over the bytes of q, k, v and
    output), `tile_rows` queries of one thread block, `backward_flops` (times the forward's) at `backward_efficiency`
    (times the forward's). Decode: `decode_launch_s`, `decode_doubling_s` per doubling of the context beyond
    `decode_context` tokens (splits and their combination), `decode_memory_fraction`.
    """

    efficiency: float
    prefill_launch_s: float
    traffic: float
    tile_rows: int
    backward_flops: float
    backward_efficiency: float
    decode_launch_s: float
    decode_doubling_s: float
    decode_context: int
    decode_memory_fraction: float


@dataclass(frozen=True, slots=True)
class Protocol:
    """One wire protocol of a collective library: its share of the bulk bandwidth and of the bulk start-up time."""

    name: str
    bandwidth_share: float
    startup_share: float


@dataclass(frozen=True, slots=True)
class KindFactors:
    """What a collective kind costs relative to all-reduce: base latency, latency per hop, bulk bandwidth."""

    latency: float
    hop: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class CollectiveLibrary:
    """Protocols and kind factors of a collective library; the fastest protocol wins, smoothly (power `sharpness`)."""

    protocols: tuple[Protocol, ...]
    kinds: Mapping[str, KindFactors]
    sharpness: float


@dataclass(frozen=True, slots=True)
class FabricConstants:
    """The links of one scale-up domain and the way out of it, per GPU and direction.

    `base_s` and `hop_s` are latency (once, and per further rank), `efficiency` the bulk share of the link,
    `startup_s` the start-up of the bulk protocol. `in_switch_fraction` is the share of the link that reduction inside
    the switch reaches, or None without it; it is used from `in_switch_gpus` ranks on. `pair_all_to_all` is the share
    of the bulk bandwidth that an all-to-all reaches between two GPUs alone. `peer_share` is the share of the link that
    reaches one peer (1 behind a switch, 1/7 where eight are fully connected). Outside: `nic_bytes_per_s` at
    `nic_efficiency`, for every rank of a domain at once where `rail_parallel`, for one of them otherwise;
    `inter_node_s` once and `inter_node_doubling_s` per doubling of the domains.
    """

    link_bytes_per_s: float
    gpus_per_domain: int
    base_s: float
    hop_s: float
    efficiency: float
    startup_s: float
    in_switch_fraction: float | None
    in_switch_gpus: int
    pair_all_to_all: float
    peer_share: float
    nic_bytes_per_s: float
    nic_efficiency: float
    inter_node_s: float
    inter_node_doubling_s: float
    rail_parallel: bool
    library: CollectiveLibrary


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator: data sheet numbers, fitted constants, and what of them is not its own.

    `peak_flop_per_s` holds dense peaks by precision. `extrapolates` names each group of constants (gemm, attention,
    fabric) that was fitted on another device of its generation, or on none.
    """

    name: str
    aliases: tuple[str, ...]
    sms: int
    memory_bytes: float
    memory_bytes_per_s: float
    power_w: float
    peak_flop_per_s: Mapping[str, float]
    gemm: GemmConstants
    attention: AttentionConstants
    fabric: FabricConstants | None
    extrapolates: tuple[str, ...]

    @property
    def gpus_per_domain(self) -> int:
        """The GPUs one scale-up domain joins; 1 without a fabric."""
        return 1 if self.fabric is None else self.fabric.gpus_per_domain

    def peak(self, precision: str) -> float:
        """Return the dense peak in FLOP/s.

        Raises:
            SpecError: the device has no matrix units of this precision.
        """
        try:
            return self.peak_flop_per_s[precision]
        except KeyError:
            raise SpecError(
                f"{self.name!r} has no matrix peak in {precision!r}", hint=nearest(precision, self.peak_flop_per_s)
            ) from None

    def sustained_fraction(self, precision: str) -> float:
        """Return the fraction of the precision's peak that a long run keeps."""
        known = self.gemm.sustained
        return known[precision] if precision in known else known["bf16"] * self.gemm.relative.get(precision, 1.0)


def operand_bytes(precision: str) -> float:
    """Return the bytes of one operand element.

    Raises:
        SpecError: an unknown precision.
    """
    if precision not in OPERAND_BYTES:
        raise SpecError(f"unknown precision {precision!r}", hint=nearest(precision, OPERAND_BYTES))
    return OPERAND_BYTES[precision]
