"""A device with round constants, so that times can be worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cosmic_opt.system.hardware import (
    AttentionConstants,
    CacheConstants,
    CollectiveLibrary,
    Device,
    FabricConstants,
    GemmConstants,
    KindFactors,
    Protocol,
    RooflineConstants,
    TileLibrary,
)

SHARP = 200.0
"""A knee this sharp is a plain maximum."""
ROOFLINE = RooflineConstants(efficiency=0.5, memory_fraction=0.5, launch_s=1e-6, knee=SHARP, throttle=0.0)
TILES = TileLibrary(tiles=((100, 100),), splits=(1,), split_k_min=100, prologue_k=0.0, edge=0.0, wave_share=1.0)
GEMM = GemmConstants(
    simple=ROOFLINE,
    tile=ROOFLINE,
    library=TILES,
    sustained={"bf16": 0.4},
    relative={"fp8": 0.5},
    fill=0.0,
    depth=0.0,
    reference=1000,
    throttle_from_s=1e-3,
    throttle_full_s=2e-3,
    group_rows=100,
    group_efficiency=0.5,
)
ATTENTION = AttentionConstants(
    efficiency=0.5,
    prefill_launch_s=1e-6,
    prologue_tokens=0.0,
    tile_rows=100,
    traffic=1.0,
    cached_traffic=1.0,
    tail=0.0,
    backward_flops=2.5,
    backward_efficiency=0.5,
    decode_launch_s=1e-6,
    decode_doubling_s=1e-6,
    decode_context=512,
    decode_memory_fraction=0.5,
    ramp_bytes=0.0,
    cache_gain=2.0,
)
CACHE = CacheConstants(size_bytes=1e6, share=1.0, sharpness=100.0)
ALONE = KindFactors(latency=1.0, hop=1.0, startup=1.0, copy=0.0, pair_limit_bytes=None)
LIBRARY = CollectiveLibrary(
    protocols=(Protocol("Simple", 1.0, 1.0, True),),
    kinds={
        "all_reduce": ALONE,
        "all_gather": ALONE,
        "reduce_scatter": ALONE,
        "all_to_all": replace(ALONE, hop=0.0, pair_limit_bytes=1e4),
        "send": replace(ALONE, hop=0.0, pair_limit_bytes=1e4),
    },
    sharpness=SHARP,
    in_switch_startup=2.0,
    in_switch_gpus=5,
)
FABRIC = FabricConstants(
    link_bytes_per_s=100e9,
    gpus_per_domain=8,
    base_s=1e-6,
    hop_s=1e-7,
    efficiency=0.5,
    startup_s=3e-6,
    in_switch_fraction=None,
    all_to_all_copy=None,
    peer_share=1.0,
    nic_bytes_per_s=10e9,
    nic_efficiency=0.5,
    inter_node_s=1e-5,
    inter_node_doubling_s=2e-5,
    rail_parallel=True,
    collective_sms=0,
    library=LIBRARY,
)
DEVICE = Device(
    name="round",
    aliases=(),
    sms=100,
    memory_bytes=80e9,
    installed_bytes=80e9,
    memory_bytes_per_s=1e12,
    power_w=400.0,
    peak_flop_per_s={"bf16": 1e15, "fp16": 1e15, "fp8": 2e15},
    gemm=GEMM,
    attention=ATTENTION,
    cache=CACHE,
    fabric=FABRIC,
    extrapolates=(),
)


def with_gemm(**changes: Any) -> Device:
    return replace(DEVICE, gemm=replace(GEMM, **changes))


def with_attention(**changes: Any) -> Device:
    return replace(DEVICE, attention=replace(ATTENTION, **changes))


def with_fabric(**changes: Any) -> FabricConstants:
    return replace(FABRIC, **changes)


def with_library(**changes: Any) -> FabricConstants:
    return replace(FABRIC, library=replace(LIBRARY, **changes))
