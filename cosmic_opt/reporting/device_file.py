"""A fitted device as a device file: only the groups of constants that were fitted, with their provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosmic_opt.analysis.calibration import FitError
from cosmic_opt.system.hardware import Device, Origin, RooflineConstants
from cosmic_opt.units import TICKS_PER_SECOND

DIGITS = 5


def device_file(
    device: Device, fitted: Sequence[str], origin: Origin, *, provenance: str, errors: Sequence[FitError]
) -> str:
    """Return the text of a device file that refines the shipped file of `device`; its name starts with that name.

    `fitted` holds the paths of the constants that moved; a group without any is left to the shipped file.
    """
    lines = [
        f"# {device.name}, calibrated.",
        *(f"#   {_error_line(error)}" for error in errors),
        "schema: cosmic-opt/device@1",
        f"name: {device.name}-calibrated",
        f"peak: {_plain(device.peak('bf16') / 1e12)} TFLOPS",
        f"memory_bandwidth: {_plain(device.memory_bytes_per_s / 1e9)} GB/s",
        f"memory_capacity: {_plain(device.memory_bytes / 1e9)} GB",
        f"installed_memory: {device.installed_bytes:.0f} B",
        *([] if device.memory_type is None else [f"memory_type: {device.memory_type}"]),
        *([f"compute_capability: {device.compute_capability}"] if device.compute_capability else []),
        f"calibrated: {{from: {origin.device}, rows: {origin.rows}, steps: {origin.steps}}}",
        "source:",
        *(f"  {key}: {_quoted(f'as {device.name}')}" for key in ("peak", "memory_bandwidth", "memory_capacity")),
        "kernels:",
        f"  refines: {device.name}",
        *_kernels(device, fitted),
        f"  source: {_quoted(provenance)}",
    ]
    if device.fabric is not None:
        lines += ["fabric:", f"  refines: {device.name}", *_fabric(device, fitted)]
        lines.append(f"  source: {_quoted(provenance)}")
    return "\n".join(lines) + "\n"


def _kernels(device: Device, fitted: Sequence[str]) -> list[str]:
    gemm, attention, lines = device.gemm, device.attention, list[str]()
    if any(path.startswith("gemm.") for path in fitted):
        lines.append("  gemm:")
    if any(path.startswith(("gemm.simple", "gemm.tile")) for path in fitted):
        lines += [f"    simple: {_roofline(gemm.simple)}", f"    tile: {_roofline(gemm.tile)}"]
    if any(path.startswith("gemm.sustained") for path in fitted):
        lines.append(f"    sustained: {_flow({key: _plain(value) for key, value in gemm.sustained.items()})}")
    if "gemm.joules_per_flop_bit" in fitted:
        lines += [f"    energy_pj: {_plain(1e12 * gemm.joules_per_flop_bit)}", f"    base_w: {_plain(gemm.base_w)}"]
    if any(path.startswith("attention.") for path in fitted):
        constants = {
            "efficiency": _plain(attention.efficiency),
            "prefill_launch": _time(attention.prefill_launch_s),
            "prologue_tokens": _plain(attention.prologue_tokens),
            "tile_rows": str(attention.tile_rows),
            "decode_launch": _time(attention.decode_launch_s),
            "decode_doubling": _time(attention.decode_doubling_s),
            "decode_memory_fraction": _plain(attention.decode_memory_fraction),
            "cache_gain": _plain(attention.cache_gain),
        }
        lines.append(f"  attention: {_flow(constants)}")
    return lines


def _fabric(device: Device, fitted: Sequence[str]) -> list[str]:
    fabric = device.fabric
    if fabric is None:
        return []
    constants = {
        "base_s": f"base: {_time(fabric.base_s)}",
        "hop_s": f"hop: {_time(fabric.hop_s)}",
        "efficiency": f"efficiency: {_plain(fabric.efficiency)}",
        "startup_s": f"startup: {_time(fabric.startup_s)}",
        "nic_efficiency": f"nic_efficiency: {_plain(fabric.nic_efficiency)}",
    }
    if fabric.in_switch_fraction is not None:
        constants["in_switch_fraction"] = f"in_switch_fraction: {_plain(fabric.in_switch_fraction)}"
    return [f"  {line}" for name, line in constants.items() if f"fabric.{name}" in fitted]


def _roofline(constants: RooflineConstants) -> str:
    return _flow(
        {
            "efficiency": _plain(constants.efficiency),
            "memory_fraction": _plain(constants.memory_fraction),
            "launch": _time(constants.launch_s),
            "knee": _plain(constants.knee),
            "throttle": _plain(constants.throttle),
        }
    )


def _flow(items: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"


def _plain(value: float) -> str:
    """Return a number without an exponent, which YAML would read as text."""
    shown = f"{value:.{DIGITS}g}"
    return shown if "e" not in shown else f"{value:.12f}".rstrip("0").rstrip(".")


def _time(seconds: float) -> str:
    """Return a time in whole picoseconds, as a file must give it."""
    return f"{_plain(round(seconds * TICKS_PER_SECOND) / 1e6)} us"


def _quoted(text: str) -> str:
    cleaned = "".join(character if character.isprintable() else " " for character in text)
    return '"' + cleaned.replace("\\", "/").replace('"', "'") + '"'


def _error_line(error: FitError) -> str:
    rows = f"{error.rows} rows held out" if error.held_out else f"{error.rows} rows"
    before, after = (" / ".join(f"{100 * value:.1f}" for value in values) for values in (error.before, error.after))
    return f"{error.group}, {rows}: error % signed / absolute / p90 {before} before, {after} after"
