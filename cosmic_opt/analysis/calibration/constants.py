"""The constants a fit may move: where they stand in a device, how far they usually lie from a first guess."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosmic_opt.analysis.calibration.rows import TILES
from cosmic_opt.analysis.validation.kernels import BEST_PRODUCT
from cosmic_opt.system.hardware import Device

LARGEST_FACTOR = 5.0
"""A fit moves no constant further than this factor, either way."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant: its path in a device, the group of rows that determines it, and its prior.

    It moves on a logarithmic scale as value + `offset` (an offset lets a constant start at 0) with a standard
    deviation of `spread`: rows that say little about it leave it where it was.
    """

    path: str
    group: str
    spread: float
    offset: float = 0.0

    def log(self, device: Device) -> float:
        """Return the constant on the fit's scale."""
        return float(np.log(value_at(device, self.path) + self.offset))

    def put(self, device: Device, log: float) -> Device:
        """Return the device with the constant at a point of the fit's scale."""
        return with_value(device, self.path, max(0.0, float(np.exp(log)) - self.offset))


def _roofline(form: str, group: str) -> tuple[Constant, ...]:
    return (
        Constant(f"gemm.{form}.efficiency", group, 0.1),
        Constant(f"gemm.{form}.memory_fraction", group, 0.1),
        Constant(f"gemm.{form}.launch_s", group, 0.3, 1e-7),
        Constant(f"gemm.{form}.throttle", group, 0.3, 0.02),
    )


CONSTANTS: tuple[Constant, ...] = (
    *_roofline("simple", "gemm"),
    Constant("gemm.simple.knee", "gemm", 0.4),
    *_roofline("tile", TILES),
    Constant("attention.efficiency", "attention_prefill", 0.15),
    Constant("attention.prefill_launch_s", "attention_prefill", 0.3, 1e-7),
    Constant("attention.prologue_tokens", "attention_prefill", 0.8, 1.0),
    Constant("attention.decode_launch_s", "attention_decode", 0.2, 1e-7),
    Constant("attention.decode_doubling_s", "attention_decode", 0.4, 1e-8),
    Constant("attention.decode_memory_fraction", "attention_decode", 0.15),
    Constant("attention.cache_gain", "attention_decode", 0.3),
    Constant("fabric.base_s", "collectives", 0.3, 1e-7),
    Constant("fabric.hop_s", "collectives", 0.3, 1e-7),
    Constant("fabric.efficiency", "collectives", 0.07),
    Constant("fabric.startup_s", "collectives", 0.4, 1e-7),
    Constant("fabric.in_switch_fraction", "collectives", 0.1),
)


def constants_for(device: Device, groups: Mapping[str, tuple[str, ...]]) -> tuple[Constant, ...]:
    """Return the constants that rows of these groups determine; `groups` maps a group to its precisions or kinds."""
    known = [constant for constant in CONSTANTS if constant.group in groups and _exists(device, constant.path)]
    best = [Constant(f"gemm.sustained.{name}", BEST_PRODUCT, 0.1) for name in sorted(groups.get(BEST_PRODUCT, ()))]
    return (*known, *best)


def _exists(device: Device, path: str) -> bool:
    return not (
        path == "fabric.in_switch_fraction" and (device.fabric is None or device.fabric.in_switch_fraction is None)
    )


def value_at(device: Device, path: str) -> float:
    """Return the number at a dotted path; a precision's sustained fraction may come from its relative one."""
    if path.startswith("gemm.sustained."):
        return device.sustained_fraction(path.rpartition(".")[2])
    found: Any = device
    for part in path.split("."):
        found = getattr(found, part)
    return float(found)


def with_value(device: Device, path: str, value: float) -> Device:
    """Return the device with another number at a dotted path."""
    replaced: Device = _replaced(device, path.split("."), value)
    return replaced


def _replaced(owner: Any, parts: list[str], value: float) -> Any:
    if not parts:
        return value
    if isinstance(owner, Mapping):
        return {**owner, parts[0]: value}
    return dataclasses.replace(owner, **{parts[0]: _replaced(getattr(owner, parts[0]), parts[1:], value)})
