"""ASTRA-sim's network and system files as a system file of ours: what an instance's `system:` names.

Bandwidths become bytes/s exactly (theirs count 2^30 B/s), latencies whole picoseconds. What has no counterpart here is
noted, and refused where leaving it out would change which dimensions take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from cosmic_opt.catalog.amounts import positive
from cosmic_opt.catalog.parts import SYSTEM_READERS
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.interop.astra_sim import IMPLEMENTATIONS, NetworkFile, SystemFile, read_network, read_system
from cosmic_opt.interop.export_files import ALGORITHMS, BYTES_PER_GIB, ENDPOINT_DELAY_NS, POLICIES, TICKS_PER_NS
from cosmic_opt.psa.document import Entry, read_yaml
from cosmic_opt.units import Unit

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
        f"collectives: {{{_policy(layer)}chunks: {layer.chunks}, multidim: {layer.multidim}}}",
        f"source: {{system: {_quoted(source)}}}",
    ]
    return ImportedSystem("\n".join(lines) + "\n", len(algorithms), npus, tuple(_notes(layer, device)))


DEVICE_UNITS = {
    "peak": Unit.FLOP_PER_S,
    "memory_bandwidth": Unit.BYTES_PER_S,
    "memory_capacity": Unit.BYTES,
}
"""What an instance may give of the NPU beside the files, as `import` takes it by option."""
UNREAD = DeviceNumbers(1, 1, 1)
"""Stands in for a device that is replaced."""


@SYSTEM_READERS.register("astra_sim")
def read_astra_sim(entry: Entry, beside: Path, has_device: bool) -> dict[str, Any]:
    """Return the system that an instance or a system file names by ASTRA-sim's files, as `import_astra_sim` writes it.

    Raises:
        SpecError: a key is unknown or missing, a number of the NPU stands beside a device, or as `import_astra_sim`.
    """
    if not isinstance(entry.value, dict):
        raise entry.fail("ASTRA-sim's two files are not named", "write {network: net.yml, system: sys.json}")
    fields = entry.fields(required=("network", "system"), optional=tuple(DEVICE_UNITS))
    numbers = {key: positive(fields[key], unit) for key, unit in DEVICE_UNITS.items() if key in fields}
    if has_device and numbers:
        key = next(iter(numbers))
        raise fields[key].fail("the NPU is given twice: the system has a device", f"keep 'device' or {key!r}")
    network, system = (beside.parent / _file(fields[key]) for key in ("network", "system"))
    given = DeviceNumbers(*(numbers.get(key) for key in DEVICE_UNITS))
    text = import_astra_sim(network, system, network.stem, UNREAD if has_device else given).text
    document: dict[str, Any] = read_yaml(text, str(network)).value
    return document


def _file(entry: Entry) -> str:
    name = entry.value
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise entry.fail(f"{name!r} is no file", "write the path of a file, relative to this one")
    return name


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
            "the file gives no peak of an NPU: its roofline is off",
            where=Where(str(path)),
            hint="give --peak, or 'peak' beside the files",
        )
    if memory < 1:
        raise SpecError(
            "the file gives no memory bandwidth (local-mem-bw)",
            where=Where(str(path)),
            hint="give --memory-bandwidth, or 'memory_bandwidth' beside the files",
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


def _policy(layer: SystemFile) -> str:
    """Return the order of service as a key with a comma; nothing where the files give none that is ours, too."""
    ours = layer.policy is not None and layer.policy.lower() in POLICIES
    return f"scheduling_policy: {layer.policy.lower()}, " if ours and layer.policy else ""


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
    if layer.policy is not None and not _policy(layer):
        notes.append(
            f"The order of service {layer.policy} has no counterpart: fifo, where a model has none of its own."
        )
    if layer.endpoint_delay_ns != ENDPOINT_DELAY_NS:
        notes.append(f"The endpoint delay of {layer.endpoint_delay_ns} ns has no counterpart.")
    if device.memory_capacity_bytes is None:
        notes.append("The memory is never full, as ASTRA-sim's: give --memory-capacity for a limit.")
    return notes


def _quoted(text: str) -> str:
    cleaned = "".join(character if character.isprintable() else " " for character in text)
    return '"' + cleaned.replace("\\", "/").replace('"', "'") + '"'
