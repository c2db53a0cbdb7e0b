"""ASTRA-sim's own files: network (YAML), system, remote memory and communicator groups (JSON).

Units are ASTRA-sim's: network bandwidth in 2^30 B/s, memory bandwidth in 10^9 B/s, times in ns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cosmic_opt.catalog.store import read_text
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry, read_yaml
from cosmic_opt.psa.json_document import read_json
from cosmic_opt.simulation.replay.machine import MEMORY_TYPES, RemoteMemory, ReplayMachine

Read = TypeVar("Read")

TOPOLOGIES = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switch"}
MULTIDIM = {"baseline": "baseline", "localBWAware": "blueconnect"}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
POLICIES = ("LIFO", "FIFO", "EXPLICIT")

LARGEST_INT = 2**31 - 1
"""Of a whole number in a system file."""
REQUIRED = ("preferred-dataset-splits", "collective-optimization")
IMPLEMENTATIONS = {collective: f"{collective.replace('_', '-')}-implementation" for collective in COLLECTIVES}
READ = ("scheduling-policy", "endpoint-delay", "active-chunks-per-dimension", "local-mem-bw", "peak-perf")
INERT = (
    *("boost-mode", "intra-dimension-scheduling", "inter-dimension-scheduling", "L", "o", "g", "G"),
    *("local-reduction-delay", "trace-enabled", "track-local-mem", "local-mem-trace-filename"),
)
"""Keys that do not change the time of a run."""
SWITCHED_OFF = ("model-shared-bus", "replay-only")
"""Keys that may only be 0: what they turn on is not replayed."""


@dataclass(frozen=True, slots=True)
class NetworkFile:
    """A network file: one entry per dimension, innermost first."""

    topologies: tuple[str, ...]
    npus_per_dim: tuple[int, ...]
    bandwidth_gib_per_s: tuple[float, ...]
    latency_ns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SystemFile:
    """What of a system file changes the time of a run; `peak_tflops` is None without a roofline.

    `policy`, the order of service, changes none, as an NPU has one collective in flight; None where none is given.
    """

    algorithms: dict[str, tuple[str, ...]]
    chunks: int
    active_chunks: int
    multidim: str
    endpoint_delay_ns: int
    memory_gb_per_s: float
    peak_tflops: float | None
    policy: str | None


def read_machine(
    network: Path | str,
    system: Path | str,
    remote_memory: Path | str | None = None,
    *,
    profile: str = "astra_sim",
) -> ReplayMachine:
    """Return the machine that ASTRA-sim's files describe.

    Raises:
        SpecError: names the file, the key, what is wrong and what to write.
    """
    dimensions, layer = read_network(network), read_system(system)
    return ReplayMachine(
        topologies=dimensions.topologies,
        npus_per_dim=dimensions.npus_per_dim,
        bandwidth_gib_per_s=dimensions.bandwidth_gib_per_s,
        latency_ns=dimensions.latency_ns,
        algorithms=layer.algorithms,
        chunks=layer.chunks,
        active_chunks=layer.active_chunks,
        multidim=layer.multidim,
        endpoint_delay_ns=layer.endpoint_delay_ns,
        memory_gb_per_s=layer.memory_gb_per_s,
        peak_tflops=layer.peak_tflops,
        remote_memory=RemoteMemory() if remote_memory is None else read_remote_memory(remote_memory),
        profile=profile,
    )


def read_network(path: Path | str) -> NetworkFile:
    """Return the network of a YAML file.

    Raises:
        SpecError: an unknown or missing key, or lists of different length.
    """
    keys = ("topology", "npus_count", "bandwidth", "latency")
    root = read_yaml(read_text(Path(path)), str(path), if_empty=f"write ASTRA-sim's network: {', '.join(keys)}")
    entries = root.fields(required=keys)
    columns = [entries[key].items() for key in keys]
    if not columns[0] or len({len(column) for column in columns}) > 1:
        raise root.fail("the lists differ in length, or are empty", "give every list one entry per dimension")
    topologies, npus, bandwidths, latencies = columns
    return NetworkFile(
        topologies=tuple(_translate(entry, TOPOLOGIES) for entry in topologies),
        npus_per_dim=tuple(entry.integer(low=2, high=2**20) for entry in npus),
        bandwidth_gib_per_s=tuple(_number(entry, above=0) for entry in bandwidths),
        latency_ns=tuple(_number(entry) for entry in latencies),
    )


def read_system(path: Path | str) -> SystemFile:
    """Return the system layer of a JSON file.

    Raises:
        SpecError: a key is unknown, missing or has no meaning, or turns on something that is not replayed.
    """
    root = _read_json(path)
    optional = (*READ, "roofline-enabled", *IMPLEMENTATIONS.values(), *INERT, *SWITCHED_OFF)
    entries = root.fields(required=REQUIRED, optional=optional)
    for key in SWITCHED_OFF:
        if key in entries and entries[key].value != 0:
            raise entries[key].fail(f"{key} is not replayed", "set it to 0")
    algorithms = {
        collective: tuple(entry.text() for entry in entries[key].items())
        for collective, key in IMPLEMENTATIONS.items()
        if key in entries
    }
    if not algorithms:
        raise root.fail("no collective has an implementation", f"add {IMPLEMENTATIONS['all_reduce']!r}")
    roofline = _optional(entries, "roofline-enabled", 0, lambda entry: entry.integer(low=0, high=1))
    return SystemFile(
        algorithms=algorithms,
        chunks=entries["preferred-dataset-splits"].integer(low=1, high=LARGEST_INT),
        active_chunks=_optional(
            entries, "active-chunks-per-dimension", 1, lambda entry: entry.integer(low=1, high=LARGEST_INT)
        ),
        multidim=_translate(entries["collective-optimization"], MULTIDIM),
        endpoint_delay_ns=_optional(
            entries, "endpoint-delay", 10, lambda entry: entry.integer(low=0, high=LARGEST_INT)
        ),
        memory_gb_per_s=_optional(entries, "local-mem-bw", 0.0, _number),
        peak_tflops=_optional(entries, "peak-perf", 0.0, _number) if roofline else None,
        policy=_optional(
            entries, "scheduling-policy", None, lambda entry: _translate(entry, {name: name for name in POLICIES})
        ),
    )


def read_remote_memory(path: Path | str) -> RemoteMemory:
    """Return the remote memory of a JSON file.

    Raises:
        SpecError: a key is unknown, missing or has no meaning.
    """
    numbers = ("remote-mem-latency", "remote-mem-bw")
    optional = (*numbers, "num-nodes", "num-npus-per-node")
    entries = _read_json(path).fields(required=("memory-type",), optional=optional)
    kind = _translate(entries["memory-type"], {name: name for name in MEMORY_TYPES})
    return RemoteMemory(
        kind=kind,
        latency_ns=_optional(entries, "remote-mem-latency", 0, lambda entry: entry.integer(low=0)),
        bytes_per_ns=_optional(entries, "remote-mem-bw", 1.0, lambda entry: _number(entry, above=0)),
    )


def read_communicator_groups(path: Path | str, npus: int) -> dict[str, tuple[int, ...]]:
    """Return the members of each communicator group of a JSON file, in order, for a machine of `npus`.

    Raises:
        SpecError: not an object of lists, an NPU that is not there or is listed twice.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SpecError(
            f"the file cannot be read: {error.strerror}", where=Where(str(path)), hint="give an existing file"
        ) from error
    return communicator_groups(data, str(path), npus)


def communicator_groups(data: bytes, name: str, npus: int) -> dict[str, tuple[int, ...]]:
    """Return the communicator groups in JSON text; errors call it `name`."""
    groups = dict[str, tuple[int, ...]]()
    for group, entry in _parse_json(data, name).mapping().items():
        members = tuple(member.integer(low=0, high=npus - 1) for member in entry.items())
        if len(set(members)) < len(members) or not members:
            raise entry.fail("the group is empty or lists an NPU twice", "list each NPU once")
        groups[group] = members
    return groups


def _read_json(path: Path | str) -> Entry:
    return _parse_json(read_text(Path(path)).encode(), str(path))


def _parse_json(data: bytes, name: str) -> Entry:
    return Entry(read_json(data, name, hint="give a JSON object"), Where(name), {})


def _optional(entries: dict[str, Entry], key: str, default: Read, read: Callable[[Entry], Read]) -> Read:
    return read(entries[key]) if key in entries else default


def _number(entry: Entry, above: float | None = None) -> float:
    """Return a finite number of at least 0, or above a bound."""
    value = entry.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2.0**63:
        raise entry.fail("expected a number", "write a number such as 50 or 0.5")
    if value < 0 or (above is not None and value <= above) or math.isnan(value):
        raise entry.fail(f"{value} is out of range", "write a larger number")
    return value


def _translate(entry: Entry, names: dict[str, str]) -> str:
    name = entry.text()
    if name not in names:
        raise entry.fail(f"{name!r} is not known here", nearest(name, names))
    return names[name]
