"""Device files as the calibrated models read them: kernel and fabric constants, found under any spelling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cosmic_opt.catalog.amounts import positive
from cosmic_opt.catalog.board_power import LINKS, POWER, linked_files, watts
from cosmic_opt.catalog.device_names import device_named, shipped_file
from cosmic_opt.catalog.store import data_root, read_document
from cosmic_opt.errors import Where, nearest
from cosmic_opt.psa.document import Entry
from cosmic_opt.system.hardware.device import (
    OPERAND_BYTES,
    AttentionConstants,
    CacheConstants,
    CollectiveLibrary,
    Device,
    FabricConstants,
    GemmConstants,
    KindFactors,
    Origin,
    Protocol,
    RooflineConstants,
    TileLibrary,
    limited_share,
)
from cosmic_opt.units import TICKS_PER_SECOND, Unit

KERNEL_LIBRARY = "gpu-kernels"
COLLECTIVE_LIBRARY = "nccl"
ROOFLINE_KEYS = ("efficiency", "memory_fraction", "launch", "knee", "throttle")
GROUPS = {"gemm": ("simple", "tile"), "sustained": ("sustained",)}
"""Groups of constants of products; the second holds what a long run keeps."""
ATTENTION_KEYS = (
    *("efficiency", "prefill_launch", "prologue_tokens", "tile_rows"),
    *("decode_launch", "decode_doubling", "decode_memory_fraction", "cache_gain"),
)
SECTION_GROUPS = {
    "gemm": ("simple", "tile", "sustained", "relative", "energy_pj", "base_w", "in_step", "any_layout"),
    "attention": ATTENTION_KEYS,
}
"""Groups inside a section, and all keys each may have."""
FABRIC_TIMES = ("base", "hop", "startup", "inter_node", "inter_node_doubling")
FABRIC_FITTED = ("base", "hop", "efficiency", "startup")
FABRIC_KEYS = (
    *("source", "fitted", "link", "gpus_per_domain", *FABRIC_TIMES, "efficiency", "in_switch_fraction"),
    *("all_to_all_copy", "peer_share", "nic", "nic_efficiency", "rail_parallel", "collective_sms"),
)
KIND_KEYS = ("latency", "hop", "startup", "copy")
INSTALLED = "installed_memory"
"""What the driver of a device reports; without it, the data sheet's `memory_capacity`."""
MEMORY_TYPE = "memory_type"
CAPABILITY = "compute_capability"
"""The kind of memory, where one knows it: what tells apart those who call another board by the same name."""
CALIBRATED = "calibrated"
"""What `calibrate` says of a file it wrote: the device it began with, and the measured rows it fitted."""
LIKE_SHIPPED = (
    "those of a shipped device are taken by 'kernels: {like: h100-sxm, source: why}' and 'fabric: {like: h100-sxm, "
    "source: why}', and a device without any scores without a 'stack'"
)
PICO = 1e-12
LEAST_PJ, MOST_PJ = 1e-4, 100.0
"""A FLOP and bit of an operand costs 0.04 pJ on a chip of 2024."""


def load_device(name: str, *, where: Where | None = None) -> Device:
    """Return the device a name, an alias or the path of a file means, as people and drivers spell it (`device_named`).

    Raises:
        SpecError: no such device (the nearest names are given), or a file without kernel constants.
    """
    if name.endswith((".yaml", ".yml")):
        return read_kernels(read_document(Path(name), "device"))
    return _shipped(device_named(name, where=where))


@cache
def _shipped(name: str) -> Device:
    return replace(read_kernels(read_document(shipped_file(name), "device")), shipped=True)


@dataclass(frozen=True)
class _Chain:
    """A section of a device and the same section of the devices it refers to, nearest first.

    The first `same` sections belong to the device itself: its file, and the shipped one that it refines. Kernels have
    the `power` of their board among them, which its file gives outside of them.
    """

    sections: tuple[Mapping[str, Entry], ...]
    same: int

    def find(self, key: str, group: str | None = None) -> Entry | None:
        """Return the nearest entry of a key, in a group of the section if one is named."""
        for fields in self.sections:
            if group is not None:
                fields = fields[group].mapping() if group in fields else {}
            if key in fields:
                return fields[key]
        return None

    def get(self, key: str, group: str | None = None) -> Entry:
        found = self.find(key, group)
        if found is None:
            owner = next(iter(self.sections[0].values()))
            name = key if group is None else f"{group}.{key}"
            raise owner.fail(f"the constant {name!r} is missing", "give it, or name a device with 'like:'")
        return found

    def fitted(self, keys: tuple[str, ...]) -> bool:
        """Tell whether these constants come from rows, as they do unless the section says `fitted: false`.

        That is the nearest section, or one that gives a constant.
        """
        given = (next(fields for fields in self.sections if key in fields) for key in keys)
        return all("fitted" not in fields or fields["fitted"].flag() for fields in (self.sections[0], *given))

    def own(self, keys: tuple[str, ...], group: str | None = None) -> bool:
        """Tell whether the device itself gives all of these constants."""
        mine = _Chain(self.sections[: self.same], self.same)
        return all(mine.find(key, group) is not None for key in keys)


def _chain(root: Entry, section: str, keys: tuple[str, ...]) -> _Chain:
    sections, same = list[Mapping[str, Entry]](), 0
    for fields in linked_files(root, section):
        here = fields[section].fields(required=("source",), optional=(*LINKS, *keys))
        for group in here.keys() & SECTION_GROUPS.keys():
            here[group].fields(optional=SECTION_GROUPS[group])
        powered = section == "kernels" and POWER in fields
        sections.append({**here, POWER: fields[POWER]} if powered else here)
        same = same or (0 if "refines" in here else len(sections))
        if all(key in here for key in LINKS):
            raise here[LINKS[1]].fail("a section either refines a device or is like one", f"leave {LINKS[1]!r} out")
    return _Chain(tuple(sections), same)


def read_kernels(root: Entry) -> Device:
    """Return the device of one's own that a document, or a mapping in place, declares with its constants.

    Raises:
        SpecError: no kernel constants, or one that is missing or makes no sense.
    """
    fields = root.fields(
        required=("name", "peak", "memory_bandwidth", "memory_capacity"),
        optional=(
            *("schema", "source", "aliases", "kernels", "fabric"),
            *(INSTALLED, MEMORY_TYPE, CAPABILITY, POWER, CALIBRATED),
        ),
    )
    if "kernels" not in fields:
        raise root.fail("the device has no kernel constants", LIKE_SHIPPED)
    kernels = _chain(root, "kernels", ("source", "sms", "cache", "peaks", "gemm", "attention"))
    fabric = _chain(root, "fabric", FABRIC_KEYS) if "fabric" in fields else None
    extrapolates = [group for group, keys in GROUPS.items() if not kernels.own(keys, "gemm")]
    if not kernels.own(ATTENTION_KEYS, "attention"):
        extrapolates.append("attention")
    if fabric is not None and not (fabric.own(FABRIC_FITTED) and fabric.fitted(FABRIC_FITTED)):
        extrapolates.append("fabric")
    return Device(
        name=fields["name"].text(),
        aliases=tuple(entry.text() for entry in (fields["aliases"].items() if "aliases" in fields else [])),
        sms=kernels.get("sms").integer(low=1, high=10**6),
        memory_bytes=float(positive(fields["memory_capacity"], Unit.BYTES)),
        installed_bytes=float(positive(fields[INSTALLED if INSTALLED in fields else "memory_capacity"], Unit.BYTES)),
        memory_bytes_per_s=float(positive(fields["memory_bandwidth"], Unit.BYTES_PER_S)),
        power_w=_watts(kernels.find(POWER)),
        peak_flop_per_s=_peaks(fields["peak"], kernels),
        gemm=_gemm(kernels),
        attention=_attention(kernels),
        cache=_cache(kernels),
        fabric=None if fabric is None else _fabric(fabric),
        extrapolates=tuple(extrapolates),
        memory_type=fields[MEMORY_TYPE].text() if MEMORY_TYPE in fields else None,
        compute_capability=_number(fields.get(CAPABILITY), 0.0, low=1.0, high=99.0),
        origin=_origin(fields[CALIBRATED], fields["kernels"]) if CALIBRATED in fields else None,
    )


def _origin(entry: Entry, kernels: Entry) -> Origin:
    """Return what a file of `calibrate` says of itself; its kernels must refine the device that it names."""
    fields = entry.fields(required=("from", "rows", "steps"))
    name, refined = fields["from"].text(), kernels.mapping().get(LINKS[0])
    if refined is None or refined.text() != name:
        raise fields["from"].fail(f"the kernels do not refine {name!r}", "leave 'calibrated' out, or run calibrate")
    return Origin(name, fields["rows"].integer(low=0), fields["steps"].integer(low=0))


def _number(entry: Entry | None, default: float | None = None, *, low: float = 0.0, high: float = 1e3) -> float:
    """Return a plain finite number in [low, high]."""
    if entry is None:
        assert default is not None, "a constant without a default is asked for with get()"
        return default
    value = entry.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise entry.fail(f"expected a number, found {value!r}", "write a plain number such as 0.85")
    if not low <= value <= high:
        raise entry.fail(f"{value} is out of range", f"allowed: {low:g} to {high:g}")
    return float(value)


def _watts(entry: Entry | None) -> float:
    """Return the power of a board, 0 where it is not known."""
    return 0.0 if entry is None else float(watts(entry) or 0)


def _fraction(entry: Entry) -> float:
    return _number(entry, low=1e-6, high=2.0)


def _seconds(entry: Entry) -> float:
    ticks = entry.quantity(Unit.TIME)
    if not 0 <= ticks <= TICKS_PER_SECOND:
        raise entry.fail(f"{entry.value!r} is out of range", "allowed: 0 to 1 s")
    return ticks / TICKS_PER_SECOND


def _peaks(bf16: Entry, kernels: _Chain) -> Mapping[str, float]:
    """Return dense peaks; 16-bit formats share the file's `peak`, others are the device's own only."""
    peaks = {name: float(positive(bf16, Unit.FLOP_PER_S)) for name in ("bf16", "fp16")}
    mine = (_precisions(fields["peaks"]) for fields in kernels.sections[: kernels.same] if "peaks" in fields)
    for name, entry in next(mine, {}).items():
        peaks[name] = float(positive(entry, Unit.FLOP_PER_S))
    return peaks


@cache
def _library(name: str) -> Mapping[str, Entry]:
    path = data_root() / "instances" / "_libraries" / f"{name}.yaml"
    return read_document(path, "library").mapping()


def _gemm(kernels: _Chain) -> GemmConstants:
    shared = _library(KERNEL_LIBRARY)["gemm"].mapping()
    layout = kernels.find("any_layout", "gemm")
    return GemmConstants(
        simple=_roofline(kernels.get("simple", "gemm")),
        tile=_roofline(kernels.get("tile", "gemm")),
        library=TileLibrary(
            tiles=tuple(
                (tile.items()[0].integer(low=1), tile.items()[1].integer(low=1)) for tile in shared["tiles"].items()
            ),
            splits=tuple(split.integer(low=1) for split in shared["splits"].items()),
            split_k_min=shared["split_k_min"].integer(low=1),
            prologue_k=_number(shared["prologue_k"], high=1e5),
            edge=_number(shared["edge"], high=1e4),
            wave_share=_number(shared["wave_share"], high=1.0),
        ),
        sustained=_sustained(kernels),
        relative=_fractions(kernels.find("relative", "gemm")),
        fill=_number(shared["fill"], high=10.0),
        depth=_number(shared["depth"], high=1e5),
        reference=shared["reference"].integer(low=1),
        throttle_from_s=_seconds(shared["throttle_from"]),
        throttle_full_s=_seconds(shared["throttle_full"]),
        group_rows=shared["group_rows"].integer(low=1),
        group_efficiency=_fraction(shared["group_efficiency"]),
        joules_per_flop_bit=PICO * _number(kernels.find("energy_pj", "gemm"), 0.0, low=LEAST_PJ, high=MOST_PJ),
        base_w=_base_w(kernels),
        in_step=_in_step(kernels),
        any_layout=layout is not None and layout.flag(),
    )


def _base_w(kernels: _Chain) -> float:
    """Return what the board draws beside its products, in watts: less than its limit, if that is known."""
    entry, limit = kernels.find("base_w", "gemm"), kernels.find(POWER)
    base_w, limit_w = _number(entry, 0.0, high=1e6), _watts(limit)
    if entry is not None and kernels.find("energy_pj", "gemm") is None:
        raise entry.fail("base_w means nothing without the energy of a FLOP", "give energy_pj, too, or leave it out")
    if entry is not None and limit is not None and 0 < limit_w <= base_w:
        told = limit if POWER in kernels.sections[0] else entry
        raise told.fail(
            f"{limit_w:g} W leave nothing for products",
            f"of the board's power, base_w is {base_w:g} W: raise one or lower the other",
        )
    return base_w


def _roofline(entry: Entry) -> RooflineConstants:
    fields = entry.fields(required=ROOFLINE_KEYS)
    return RooflineConstants(
        efficiency=_fraction(fields["efficiency"]),
        memory_fraction=_fraction(fields["memory_fraction"]),
        launch_s=_seconds(fields["launch"]),
        knee=_number(fields["knee"], low=1.0, high=100.0),
        throttle=_number(fields["throttle"], high=10.0),
    )


def _fractions(entry: Entry | None) -> Mapping[str, float]:
    return {} if entry is None else {name: _fraction(value) for name, value in _precisions(entry).items()}


def _precisions(entry: Entry) -> Mapping[str, Entry]:
    """Return the entries of a mapping by precision."""
    for name, value in entry.mapping().items():
        if name not in OPERAND_BYTES:
            raise value.fail(f"unknown precision {name!r}", nearest(name, OPERAND_BYTES))
    return entry.mapping()


def _sustained(kernels: _Chain) -> Mapping[str, float]:
    """Return sustained fractions; an inherited one shrinks with a lower power limit."""
    values = _fractions(kernels.get("sustained", "gemm"))
    owner = next(fields for fields in kernels.sections if "gemm" in fields and "sustained" in fields["gemm"].mapping())
    power, rated = _watts(kernels.find(POWER)), _watts(owner.get(POWER))
    scale = limited_share(power, rated) if power and rated else 1.0
    return {name: value * scale for name, value in values.items()}


def _in_step(kernels: _Chain) -> float:
    """Return the share of the sustained rate in 16 bits that products of a step keep."""
    return _number(kernels.find("in_step", "gemm"), 1.0, low=0.1, high=1.0)


def _attention(kernels: _Chain) -> AttentionConstants:
    shared = _library(KERNEL_LIBRARY)["attention"].mapping()
    own = {key: kernels.get(key, "attention") for key in ATTENTION_KEYS}
    return AttentionConstants(
        efficiency=_fraction(own["efficiency"]),
        prefill_launch_s=_seconds(own["prefill_launch"]),
        prologue_tokens=_number(own["prologue_tokens"], high=1e5),
        tile_rows=own["tile_rows"].integer(low=1),
        traffic=_number(shared["traffic"], high=100.0),
        cached_traffic=_number(shared["cached_traffic"], high=1.0),
        tail=_number(shared["tail"], high=1.0),
        backward_flops=_number(shared["backward_flops"], high=10.0),
        backward_efficiency=_fraction(shared["backward_efficiency"]),
        decode_launch_s=_seconds(own["decode_launch"]),
        decode_doubling_s=_seconds(own["decode_doubling"]),
        decode_context=shared["decode_context"].integer(low=1),
        decode_memory_fraction=_fraction(own["decode_memory_fraction"]),
        ramp_bytes=float(positive(shared["ramp"], Unit.BYTES)),
        cache_gain=_number(own["cache_gain"], low=1.0, high=100.0),
    )


def _cache(kernels: _Chain) -> CacheConstants:
    shared = _library(KERNEL_LIBRARY)["cache"].mapping()
    size = float(positive(kernels.get("cache"), Unit.BYTES))
    return CacheConstants(size, _fraction(shared["share"]), _number(shared["sharpness"], low=1.0, high=100.0))


def _fabric(chain: _Chain) -> FabricConstants:
    times = {key: _seconds(chain.get(key)) for key in FABRIC_TIMES}
    switch, rails, copy = (chain.find(key) for key in ("in_switch_fraction", "rail_parallel", "all_to_all_copy"))
    return FabricConstants(
        link_bytes_per_s=float(positive(chain.get("link"), Unit.BYTES_PER_S)),
        gpus_per_domain=chain.get("gpus_per_domain").integer(low=1, high=10**6),
        base_s=times["base"],
        hop_s=times["hop"],
        efficiency=_fraction(chain.get("efficiency")),
        startup_s=times["startup"],
        in_switch_fraction=None if switch is None or switch.value == "none" else _fraction(switch),
        all_to_all_copy=None if copy is None else _number(copy, high=10.0),
        peer_share=_number(chain.find("peer_share"), 1.0, low=1e-6, high=1.0),
        nic_bytes_per_s=float(positive(chain.get("nic"), Unit.BYTES_PER_S)),
        nic_efficiency=_fraction(chain.get("nic_efficiency")),
        inter_node_s=times["inter_node"],
        inter_node_doubling_s=times["inter_node_doubling"],
        rail_parallel=rails is None or rails.flag(),
        collective_sms=_number(chain.find("collective_sms") or _library(COLLECTIVE_LIBRARY)["collective_sms"]),
        library=_collectives(),
    )


@cache
def _collectives() -> CollectiveLibrary:
    shared = _library(COLLECTIVE_LIBRARY)
    protocols = []
    for entry in shared["protocols"].items():
        fields = entry.fields(required=("name", "bandwidth_share", "startup_share", "point_to_point"))
        shares = (_fraction(fields["bandwidth_share"]), _number(fields["startup_share"], high=1.0))
        protocols.append(Protocol(fields["name"].text(), *shares, fields["point_to_point"].flag()))
    kinds = {}
    for name, entry in shared["kinds"].mapping().items():
        fields = entry.fields(required=KIND_KEYS, optional=("pair_limit",))
        latency, hop, startup, copy = (_number(fields[key], high=10.0) for key in KIND_KEYS)
        limit = float(positive(fields["pair_limit"], Unit.BYTES)) if "pair_limit" in fields else None
        kinds[name] = KindFactors(latency, hop, startup, copy, limit)
    return CollectiveLibrary(
        protocols=tuple(protocols),
        kinds=kinds,
        sharpness=_number(shared["sharpness"], low=1.0, high=100.0),
        in_switch_startup=_number(shared["in_switch_startup"], high=100.0),
        in_switch_gpus=shared["in_switch_gpus"].integer(low=2),
    )
