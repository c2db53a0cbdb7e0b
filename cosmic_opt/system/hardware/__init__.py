"""Calibrated models of kernels and collectives on real devices; times are float seconds."""

from cosmic_opt.system.hardware.attention import (
    attention_backward_s,
    attention_decode_s,
    attention_flops,
    attention_prefill_s,
    scores_s,
    weighted_values_s,
)
from cosmic_opt.system.hardware.collective import collective_s
from cosmic_opt.system.hardware.device import (
    BLACKWELL,
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
    operand_bytes,
)
from cosmic_opt.system.hardware.elementwise import bytes_s
from cosmic_opt.system.hardware.gemm import gemm_s, grouped_gemm_s

__all__ = [
    "BLACKWELL",
    "AttentionConstants",
    "CacheConstants",
    "CollectiveLibrary",
    "Device",
    "FabricConstants",
    "GemmConstants",
    "KindFactors",
    "Origin",
    "Protocol",
    "RooflineConstants",
    "TileLibrary",
    "attention_backward_s",
    "attention_decode_s",
    "attention_flops",
    "attention_prefill_s",
    "bytes_s",
    "collective_s",
    "gemm_s",
    "grouped_gemm_s",
    "operand_bytes",
    "scores_s",
    "weighted_values_s",
]
