"""One accelerator as the calibrated models see it: data sheet numbers and a few fitted physical constants.

Rates are FLOP/s and bytes/s, times are seconds, fractions are of the data sheet's number. A fraction is fitted once per
device from kernel rows and never depends on a shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cosmic_opt.errors import SpecError, nearest

OPERAND_BYTES: Mapping[str, float] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}
"""Bytes of one operand element by precision; four-bit scales are counted with the casts, not here."""
LEAST_LIMIT_SHARE = 0.25
"""Least limit a driver takes over a board's own: 100 of 400 W on A100, 200 of 700 W on H100 (`nvidia-smi -q`)."""


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

    `tiles` are output tiles (rows, columns) and `splits` the parts of k to choose among, each counted as at least
    `split_k_min` long; `prologue_k` is the start and end of a tile in elements of k, `edge` the cost of small tiles
    (elements), `wave_share` how much of whole-wave quantisation is seen.
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

    `sustained` is the fraction of the peak of each precision that a product of `reference` rows, columns and depth
    keeps when it is repeated for seconds; `relative` the fraction of its peak a precision reaches relative to
    bf16's. `joules_per_flop_bit` is what a FLOP costs the board for each bit of an operand, beside `base_w` for
    leakage, memory and links; 0 where they are not known. `in_step` is what products of a step keep of the
    sustained fraction in 16 bits, where they meet the power limit in every width alike. `any_layout`: products of 8
    and 4 bits take operands in either orientation, without a transposed copy. The throttle grows from nothing at
    `throttle_from_s` of ideal kernel time to its whole at `throttle_full_s`. In the simple form, `fill` is the
    share of a 128 x 128 tile per SM, and `depth` the length of k, that starting and draining the chip costs.
    `group_rows` is the tile height to which a grouped GEMM rounds each expert's rows, `group_efficiency` its
    fraction of the dense rate.
    """

    simple: RooflineConstants
    tile: RooflineConstants
    library: TileLibrary
    sustained: Mapping[str, float]
    relative: Mapping[str, float]
    fill: float
    depth: float
    reference: int
    throttle_from_s: float
    throttle_full_s: float
    group_rows: int
    group_efficiency: float
    joules_per_flop_bit: float = 0.0
    base_w: float = 0.0
    in_step: float = 1.0
    any_layout: bool = False


@dataclass(frozen=True, slots=True)
class AttentionConstants:
    """Constants of the device's best fused attention kernels.

    Prefill: `efficiency` of the matrix peak, `prefill_launch_s`, `traffic` (bytes moved over the tensors' bytes),
    `cached_traffic` (what of it is left while the tensors fit in the cache), `tile_rows` queries of one thread block,
    `prologue_tokens` of keys whose time starting a block costs, `tail` of the longest block that remains exposed,
    `backward_flops` (times the forward's) at `backward_efficiency` (times the forward's).
    Decode: `decode_launch_s`, `decode_doubling_s` per doubling of the context beyond `decode_context` tokens (splits
    and their combination), `decode_memory_fraction`, `ramp_bytes` in flight before memory runs at its rate,
    `cache_gain` how much faster data in the cache is read.
    """

    efficiency: float
    prefill_launch_s: float
    prologue_tokens: float
    tile_rows: int
    traffic: float
    cached_traffic: float
    tail: float
    backward_flops: float
    backward_efficiency: float
    decode_launch_s: float
    decode_doubling_s: float
    decode_context: int
    decode_memory_fraction: float
    ramp_bytes: float
    cache_gain: float


@dataclass(frozen=True, slots=True)
class CacheConstants:
    """The last-level cache: its bytes, the share a repeated working set can fill, how sharp the edge is (a power)."""

    size_bytes: float
    share: float
    sharpness: float


@dataclass(frozen=True, slots=True)
class Protocol:
    """One wire protocol of a collective library.

    `bandwidth_share` is its share of the bulk bandwidth, `startup_share` of the bulk start-up time;
    `point_to_point` tells whether sends between pairs (all-to-all, send) may use it.
    """

    name: str
    bandwidth_share: float
    startup_share: float
    point_to_point: bool


@dataclass(frozen=True, slots=True)
class KindFactors:
    """What a collective kind costs beside an all-reduce.

    `latency` and `hop` multiply the base latency and the latency per hop, `startup` the bulk start-up; `copy` is the
    share of a step that copying the rank's own block costs, with (n-1) or 2(n-1) steps of S/n. A kind made of sends
    between pairs has `pair_limit_bytes`: above this many bytes per peer only the bulk protocol is used.
    """

    latency: float
    hop: float
    startup: float
    copy: float
    pair_limit_bytes: float | None


@dataclass(frozen=True, slots=True)
class CollectiveLibrary:
    """Protocols and kinds of a collective library; the fastest protocol wins, smoothly (power `sharpness`).

    `in_switch_startup` is the start-up of reduction in the switch in units of the bulk start-up; it is considered
    from `in_switch_gpus` ranks on.
    """

    protocols: tuple[Protocol, ...]
    kinds: Mapping[str, KindFactors]
    sharpness: float
    in_switch_startup: float
    in_switch_gpus: int


@dataclass(frozen=True, slots=True)
class FabricConstants:
    """The links of one scale-up domain and the way out of it, per GPU and direction.

    `base_s` and `hop_s` are latency (once, and per further rank), `efficiency` the bulk share of the link,
    `startup_s` the start-up of the bulk protocol. `in_switch_fraction` is the share of the link that reduction inside
    the switch reaches, or None without it. `all_to_all_copy` replaces the library's copy share of an all-to-all where
    links outrun the copy. `peer_share` is the share of the link that reaches one peer (1 behind a switch, 1/7 where
    eight are fully connected). Outside: `nic_bytes_per_s` at `nic_efficiency`, for every rank of a domain at once
    where `rail_parallel`, for one of them otherwise; `inter_node_s` once and `inter_node_doubling_s` per doubling of
    the domains. `collective_sms` SMs run a collective: the library's number, 0 where engines of their own move data.
    """

    link_bytes_per_s: float
    gpus_per_domain: int
    base_s: float
    hop_s: float
    efficiency: float
    startup_s: float
    in_switch_fraction: float | None
    all_to_all_copy: float | None
    peer_share: float
    nic_bytes_per_s: float
    nic_efficiency: float
    inter_node_s: float
    inter_node_doubling_s: float
    rail_parallel: bool
    collective_sms: float
    library: CollectiveLibrary


@dataclass(frozen=True, slots=True)
class Origin:
    """What a device was calibrated from: a shipped device, `rows` of kernels and collectives, `steps` end to end."""

    device: str
    rows: int
    steps: int


BLACKWELL = 10.0
"""Compute capability of NVIDIA's first generation with block-scaled products."""


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator: data sheet numbers, fitted constants, and what of them is not its own.

    `memory_bytes` is what the data sheet calls it, in GB of 10^9; `installed_bytes` what its driver reports, which an
    engine fills. `peak_flop_per_s` holds dense peaks by precision. `extrapolates` names each group of constants (gemm,
    sustained, attention, fabric) that was fitted on another device of its generation, or on none. `power_w` is the
    board's limit, 0 where it is not published; `memory_type` the kind of its memory ("HBM3e"), where its file says;
    `compute_capability` what CUDA calls its generation (9.0 Hopper, 10.0 Blackwell), 0 where its file does not say.
    `origin` is None unless `calibrate` wrote the file; `shipped` tells devices that come with the program from those of
    one's own. `altered` says which numbers of the data sheet an instance gives otherwise than the board has them.
    """

    name: str
    aliases: tuple[str, ...]
    sms: int
    memory_bytes: float
    installed_bytes: float
    memory_bytes_per_s: float
    power_w: float
    peak_flop_per_s: Mapping[str, float]
    gemm: GemmConstants
    attention: AttentionConstants
    cache: CacheConstants
    fabric: FabricConstants | None
    extrapolates: tuple[str, ...]
    memory_type: str | None = None
    compute_capability: float = 0.0
    origin: Origin | None = None
    shipped: bool = False
    altered: tuple[str, ...] = ()

    @property
    def measured_as(self) -> str | None:
        """The board that published rows may stand for; None: one's own device, which none does, whatever its name."""
        return self.board if self.shipped or self.origin is not None else None

    @property
    def board(self) -> str:
        """The name under which it was measured: a calibrated device is the board that it was calibrated from."""
        return self.name if self.origin is None else self.origin.device

    @property
    def borrowed(self) -> tuple[str, ...]:
        """What of its constants is not its own, each as people read it."""
        return tuple(f"{group} constants of {self.board} are another device's" for group in self.extrapolates)

    @property
    def before_blackwell(self) -> bool:
        """Whether it is known to be an NVIDIA GPU of an earlier generation."""
        return 0 < self.compute_capability < BLACKWELL

    @property
    def gpus_per_domain(self) -> int:
        """The GPUs one scale-up domain joins; 1 without a fabric."""
        return 1 if self.fabric is None else self.fabric.gpus_per_domain

    @property
    def collective_share(self) -> float:
        """Share of the compute a collective takes while it runs beside it; at most all of it."""
        return 0.0 if self.fabric is None else min(self.fabric.collective_sms / self.sms, 1.0)

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

    def powered_fraction(self, precision: str) -> float:
        """Return the fraction of the precision's peak that products keep inside a step, minutes on end.

        A benchmark of one product ends before the board's power limit, held on average, is felt; a step does not. Where
        the energy of a FLOP is known, what is left of the limit feeds (power - base) / (energy x bits) FLOP/s, at most
        what a cold kernel reaches. Energy grows with the width of operands (Horowitz 2014, Computing's energy problem),
        here in proportion: boards at their limit give 1.8 to 1.9 times the FLOP/s in fp8 as in bf16
        (stas00/ml-engineering, accelerator tables), so that bf16 may come out a tenth slow. Elsewhere all widths slow
        to one clock, for half the bits are twice the FLOPs: one share of each peak, `in_step` of the sustained one in
        16 bits, or less where the width's own is less.
        """
        energy_j = 8 * operand_bytes(precision) * self.gemm.joules_per_flop_bit
        if not energy_j or not self.power_w:
            return min(self.gemm.in_step * self.sustained_fraction("bf16"), self.sustained_fraction(precision))
        fed = (self.power_w - self.gemm.base_w) / (energy_j * self.peak(precision))
        return min(fed, self.gemm.tile.efficiency * self.gemm.relative.get(precision, 1.0))

    def limited_to(self, power_w: float) -> Device:
        """Return the board under a power limit that its owner set, in watts.

        What a long run keeps shrinks with the limit (`limited_share`), and where the energy of a FLOP is known the
        limit is what feeds the products of a step (`powered_fraction`).

        Raises:
            SpecError: the limit is above the board's own, which may be unknown, leaves nothing above its base, or is
                below a quarter of the board's own.
        """
        if power_w == self.power_w:
            return self
        if not self.power_w:
            raise SpecError(f"the power limit of {self.name!r} is not known", hint="leave power_w out")
        base_w, least_w = self.gemm.base_w, LEAST_LIMIT_SHARE * self.power_w
        wrong = None
        if power_w > self.power_w:
            wrong = f"is above its own of {self.power_w:g} W"
        elif not power_w > base_w:
            wrong = f"leaves nothing beside its base of {base_w:g} W"
        elif power_w < least_w:
            wrong = "is lower than any board's driver takes"
        if wrong is not None:
            hint = f"at least {max(base_w, least_w):g} W, and up to {self.power_w:g} W"
            raise SpecError(f"a power limit of {power_w:g} W of {self.name!r} {wrong}", hint=hint)
        share = limited_share(power_w, self.power_w)
        sustained = {name: value * share for name, value in self.gemm.sustained.items()}
        return replace(self, power_w=power_w, gemm=replace(self.gemm, sustained=sustained))


def limited_share(power_w: float, rated_w: float) -> float:
    """Return the share of a sustained rate, found at `rated_w`, that is left under a power limit.

    Dynamic power is P ~ f V^2, and the voltage falls with the clock: between f and f^3, f^2 here (no rows).
    """
    return min(1.0, math.sqrt(power_w / rated_w))


def operand_bytes(precision: str) -> float:
    """Return the bytes of one operand element.

    Raises:
        SpecError: an unknown precision.
    """
    if precision not in OPERAND_BYTES:
        raise SpecError(f"unknown precision {precision!r}", hint=nearest(precision, OPERAND_BYTES))
    return OPERAND_BYTES[precision]
