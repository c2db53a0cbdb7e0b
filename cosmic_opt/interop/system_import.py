"""ASTRA-sim's network and system files as a system file of ours: what an instance's `system:` names.

Bandwidths become bytes/s exactly (theirs count 2^30 B/s), latencies whole picoseconds. What has no counterpart here is
noted, and refused where leaving it out would change which dimensions take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.interop.astra_sim import IMPLEMENTATIONS, NetworkFile, SystemFile, read_network, read_system
from cosmic_opt.interop.export_files import ALGORITHMS, BYTES_PER_GIB, ENDPOINT_DELAY_NS, TICKS_PER_NS

OURS = {theirs: ours for ours, theirs in ALGORITHMS.items()}
UNLIMITED_BYTES = 10**18
"""The capacity of a memory that is never full, as ASTRA-sim's: an exabyte."""


@dataclass(frozen=True, slots=True)
class DeviceNumbers:
    """Numbers of an NPU that stand in for the files': FLOP/s, bytes/s, bytes; None takes the files' own."""

    peak_flop_per_s: int | None = None
    memory_bytes_per_s: int | None = None
    memory_capacity_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ImportedSystem:
    """The text of a system file, its dimensions and NPUs, and what of the files has no counterpart."""

    text: str
    dimensions: int
    npus: int
    notes: tuple[str, ...]


def import_astra_sim(network: Path, system: Path, name: str, device: DeviceNumbers) -> ImportedSystem:
    """Return the system that ASTRA-sim's two files describe, as a system file called `name`.

    Raises:
        SpecError: a file is malformed; an algorithm, a list of algorithms or a number has no meaning here.
    """
    dimensions, layer = read_network(network), read_system(system)
    algorithms = _algorithms(layer, len(dimensions.npus_per_dim), system)
    peak, memory = _rates(layer, device, system)
    capacity = UNLIMITED_BYTES if device.memory_capacity_bytes is None else device.memory_capacity_bytes
    npus = prod(dimensions.npus_per_dim)
    source = f"ASTRA-sim: {network.name}, {system.name}"
    lines = [
        f"# {npus:,} NPUs, read from ASTRA-sim's network and system files.",
        "schema: cosmic-opt/system@1",
        f"name: {_quoted(name)}",
        "device:",
        f"  name: {_quoted(name)}",
        f"  peak: {_short(peak, {'TFLOPS': 10**12, 'FLOP/s': 1})}",
        f"  memory_bandwidth: {_short(memory, {'GB/s': 10**9, 'B/s': 1})}",
        f"  memory_capacity: {_short(capacity, {'GB': 10**9, 'B': 1})}",
        "dimensions:  # innermost first",
        *_dimensions(dimensions, algorithms),
        f"collectives: {{chunks: {layer.chunks}, multidim: {layer.multidim}}}",
        f"source: {{system: {_quoted(source)}}}",
    ]
    return ImportedSystem("\n".join(lines) + "\n", len(algorithms), npus, tuple(_notes(layer, device)))


def _algorithms(layer: SystemFile, dimensions: int, path: Path) -> tuple[str, ...]:
    """Return our names of the all-reduce's algorithms, which its reduce-scatters and all-gathers run, too."""
    where = Where(str(path), key=IMPLEMENTATIONS["all_reduce"])
    if "all_reduce" not in layer.algorithms:
        raise SpecError("the all-reduce has no implementation", where=where, hint="add its list")
    given = layer.algorithms["all_reduce"]
    if len(given) != dimensions:
        raise SpecError(
            f"{len(given)} algorithms for {dimensions} dimensions: ASTRA-sim leaves out the rest",
            where=where,
            hint="give one per dimension",
        )
    for algorithm in given:
        if algorithm not in OURS:
            hint = f"these have one: {', '.join(OURS)}"
            raise SpecError(f"{algorithm!r} has no counterpart here", where=where, hint=hint)
    return tuple(OURS[algorithm] for algorithm in given)


def _rates(layer: SystemFile, device: DeviceNumbers, path: Path) -> tuple[int, int]:
    """Return FLOP/s and bytes/s of an NPU."""
    peak, memory = device.peak_flop_per_s, device.memory_bytes_per_s
    if peak is None:
        peak = round((layer.peak_tflops or 0) * 10**12)
    if memory is None:
        memory = round(layer.memory_gb_per_s * 10**9)
    if peak < 1:
        raise SpecError(
            "the file gives no peak of an NPU: its roofline is off", where=Where(str(path)), hint="give --peak"
        )
    if memory < 1:
        raise SpecError(
            "the file gives no memory bandwidth (local-mem-bw)", where=Where(str(path)), hint="give --memory-bandwidth"
        )
    return peak, memory


def _dimensions(network: NetworkFile, algorithms: Sequence[str]) -> list[str]:
    rows = zip(
        network.topologies,
        network.npus_per_dim,
        network.bandwidth_gib_per_s,
        network.latency_ns,
        algorithms,
        strict=True,
    )
    return [
        f"  - {{topology: {topology}, npus: {npus}, "
        f"bandwidth: {_short(round(bandwidth * BYTES_PER_GIB), {'GB/s': 10**9, 'GiB/s': BYTES_PER_GIB, 'B/s': 1})}, "
        f"latency: {_short(round(latency * TICKS_PER_NS), {'ns': TICKS_PER_NS, 'ps': 1})}, algorithm: {algorithm}}}"
        for topology, npus, bandwidth, latency, algorithm in rows
    ]


def _short(value: int, units: Mapping[str, int]) -> str:
    """Return a whole number of base units in the first unit that divides it."""
    symbol, factor = next((symbol, factor) for symbol, factor in units.items() if value % factor == 0)
    return f"{value // factor} {symbol}"


def _notes(layer: SystemFile, device: DeviceNumbers) -> list[str]:
    notes = []
    if len(set(layer.algorithms.values())) > 1:
        notes.append("Collectives have different algorithms: the all-reduce's hold for all.")
    if layer.active_chunks > 1:
        notes.append(f"{layer.active_chunks} active chunks per dimension have no counterpart: one is served at a time.")
    if layer.endpoint_delay_ns != ENDPOINT_DELAY_NS:
        notes.append(f"The endpoint delay of {layer.endpoint_delay_ns} ns has no counterpart.")
    if device.memory_capacity_bytes is None:
        notes.append("The memory is never full, as ASTRA-sim's: give --memory-capacity for a limit.")
    return notes


def _quoted(text: str) -> str:
    cleaned = "".join(character if character.isprintable() else " " for character in text)
    return '"' + cleaned.replace("\\", "/").replace('"', "'") + '"'
