"""Shared parts an instance refers to by name: devices, systems, prices, workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cosmic_opt._registry import Registry
from cosmic_opt.catalog.amounts import positive
from cosmic_opt.catalog.board_power import POWER, board_power
from cosmic_opt.catalog.device_names import boards_named, device_named
from cosmic_opt.catalog.store import names_file, read_document, shared_names, shared_path
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.psa.document import Entry
from cosmic_opt.psa.domain import Value
from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.price import MOST_DEVICE_DOLLARS, TierPrice, parse_prices
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.units import Unit, show

MAX_DIMENSIONS = 8
DIMENSION_UNITS = {"npus": Unit.NONE, "bandwidth": Unit.BYTES_PER_S, "latency": Unit.TIME}
DIMENSION_LIMITS = {"npus": 10**9, "bandwidth": 10**18, "latency": 10**15}
"""In base units: a billion NPUs, an exabyte a second, a thousand seconds a hop."""
DIMENSION_TEXTS = ("topology", "algorithm", "tier")
HOST_UNITS = {"capacity": Unit.BYTES, "bandwidth": Unit.BYTES_PER_S}
"""Host memory of a system, by NPU; bandwidth in one direction."""
COLLECTIVES = "collectives"
COLLECTIVE_SETTINGS = ("scheduling_policy", "chunks", "multidim")
SystemReader = Callable[[Entry, Path, bool], dict[str, Any]]
"""Reads what a format's key holds (paths are relative to the file) as the plain content of a system file.

The flag says that the file has a `device:` of its own, which the reader need not find.
"""
SYSTEM_READERS: Registry[SystemReader] = Registry("system format")
"""Readers of other tools' systems by the key that names their files; `interop` enters them."""


@dataclass(frozen=True)
class Device:
    """An NPU's numbers in base units; `own` is what the user wrote of it, in a file or in place: None of a shipped one.

    `power` is that of the board in watts, None where it is not known; `board` the device that a calibrated one was
    calibrated from, whose price it has.
    """

    name: str
    peak: int
    memory_bandwidth: int
    memory_capacity: int
    own: Entry | None = field(default=None, compare=False)
    power: int | None = None
    board: str = ""


@dataclass(frozen=True)
class Prices:
    """Dollars of what a system is made of: of network parts by tier, and of whole devices by name."""

    tiers: Mapping[str, TierPrice] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """A device, network dimensions (innermost first; each a mapping of the file's keys), collective settings, host.

    `host` is an NPU's share of host memory in base units, empty where the system has none: `HOST_UNITS`.
    """

    name: str
    device: Device
    prices: Prices
    dimensions: tuple[Mapping[str, Value], ...]
    collectives: Mapping[str, Value]
    host: Mapping[str, Value]

    @property
    def npus(self) -> int:
        """The number of NPUs of all dimensions together."""
        total = 1
        for dimension in self.dimensions:
            total *= int(dimension["npus"])
        return total

    @property
    def device_price(self) -> int | None:
        """Dollars of one device; None without a price."""
        prices = self.prices.devices
        return prices.get(self.device.name, prices.get(self.device.board))


def open_part(kind: str, entry: Entry, beside: Path) -> tuple[Entry, Path]:
    """Return the document a key refers to: written in place as a mapping, or by name."""
    if isinstance(entry.value, dict):
        return entry, beside
    path = shared_path(kind, entry.text(), beside, entry.where)
    return read_document(path, kind if kind == "prices" else kind.removesuffix("s")), path


def _is_shipped(kind: str, entry: Entry) -> bool:
    return isinstance(entry.value, str) and entry.text() in shared_names(kind)


def _known_device(entry: Entry, beside: Path) -> Entry:
    """Return the entry with the shipped device that a name means, as people and drivers spell it.

    Raises:
        SpecError: no such device, or a name of several boards at once.
    """
    if isinstance(entry.value, dict) or _is_shipped("devices", entry):
        return entry
    name = entry.text()
    if names_file(name, beside.parent / name):
        return entry
    if boards_named(name)[1] is not None:
        raise entry.fail(f"{name!r} counts boards", "name one board: 'npus' of the dimensions count them")
    return replace(entry, value=device_named(name, where=entry.where))


def read_device(entry: Entry, beside: Path) -> Device:
    """Return the device that `entry` names or holds."""
    entry = _known_device(entry, beside)
    root, _ = open_part("devices", entry, beside)
    fields = root.fields(
        required=("name", "peak", "memory_bandwidth", "memory_capacity"),
        optional=(
            *("schema", "source", "aliases", "kernels", "fabric", "installed_memory", "memory_type"),
            *("compute_capability", "calibrated", POWER),
        ),
    )
    units = {"peak": Unit.FLOP_PER_S, "memory_bandwidth": Unit.BYTES_PER_S, "memory_capacity": Unit.BYTES}
    numbers = {key: positive(fields[key], unit) for key, unit in units.items()}
    own = None if _is_shipped("devices", entry) else root
    origin = fields["calibrated"].mapping().get("from") if "calibrated" in fields else None
    board = "" if origin is None else origin.text()
    return Device(fields["name"].text(), **numbers, own=own, power=board_power(root), board=board)


def read_system(entry: Entry, beside: Path) -> System:
    """Return the system that `entry` names or holds."""
    root, path = open_part("systems", entry, beside)
    root = _converted(root, path)
    fields = root.fields(
        required=("name", "device", "dimensions"), optional=("schema", "prices", "collectives", "host", "source")
    )
    dimensions = tuple(_dimension(item) for item in fields["dimensions"].items())
    if not 1 <= len(dimensions) <= MAX_DIMENSIONS:
        raise fields["dimensions"].fail(f"{len(dimensions)} dimensions", f"allowed: 1 to {MAX_DIMENSIONS}")
    settings = fields["collectives"].fields(optional=COLLECTIVE_SETTINGS) if "collectives" in fields else {}
    collectives = {key: _plain(value) for key, value in settings.items()}
    device = read_device(fields["device"], path)
    prices = _prices(fields["prices"], path, device) if "prices" in fields else Prices()
    tiers = prices.tiers
    for item, dimension in zip(fields["dimensions"].items(), dimensions, strict=True):
        if tiers and dimension.get("tier", next(iter(tiers))) not in tiers:
            raise item.fail(f"no prices for the tier {dimension['tier']!r}", nearest(str(dimension["tier"]), tiers))
    host = _host(fields["host"]) if "host" in fields else {}
    return System(fields["name"].text(), device, prices, dimensions, collectives, host)


def _converted(root: Entry, path: Path) -> Entry:
    """Return a system whose network is another tool's files, as if they had been imported; its own keys win."""
    own = root.mapping()
    key = next((key for key in own if key in SYSTEM_READERS), None)
    if key is None:
        return root
    if "dimensions" in own:
        raise own["dimensions"].fail("the network is given twice", f"keep 'dimensions' or {key!r}")
    plain = {name: entry.value for name, entry in own.items() if name != key}
    read = SYSTEM_READERS.get(key)(own[key], path, "device" in own)
    settings = plain.get(COLLECTIVES)
    if isinstance(settings, dict):
        plain[COLLECTIVES] = {**read[COLLECTIVES], **settings}
    return replace(root, value={**read, **plain})


def _host(entry: Entry) -> Mapping[str, Value]:
    fields = entry.fields(required=tuple(HOST_UNITS))
    return {key: positive(fields[key], unit) for key, unit in HOST_UNITS.items()}


def _dimension(entry: Entry) -> Mapping[str, Value]:
    fields = entry.fields(required=("topology", "npus", "bandwidth", "latency"), optional=("algorithm", "tier"))
    topology = fields["topology"].text()
    if topology not in TOPOLOGIES:
        raise fields["topology"].fail(f"unknown topology {topology!r}", nearest(topology, TOPOLOGIES))
    if "algorithm" in fields and fields["algorithm"].text() not in ALGORITHMS:
        algorithm = fields["algorithm"].text()
        raise fields["algorithm"].fail(f"unknown algorithm {algorithm!r}", nearest(algorithm, ALGORITHMS))
    values: dict[str, Value] = {key: fields[key].text() for key in DIMENSION_TEXTS if key in fields}
    for key, unit in DIMENSION_UNITS.items():
        values[key] = fields[key].quantity(unit) if key == "latency" else positive(fields[key], unit)
        if int(values[key]) < 0:
            raise fields[key].fail(f"{fields[key].value!r} is negative")
        if int(values[key]) > DIMENSION_LIMITS[key]:
            raise fields[key].fail(
                f"{fields[key].value!r} is too large", f"at most {show(DIMENSION_LIMITS[key], unit)}"
            )
    return values


def _prices(entry: Entry, beside: Path, device: Device) -> Prices:
    """Return the prices that `entry` names or holds; shipped ones price shipped devices, not one's own of that name."""
    root, _ = open_part("prices", entry, beside)
    fields = root.fields(required=("name", "tiers"), optional=("schema", "source", "devices"))
    tiers = {
        tier: {part: _price(price) for part, price in parts.mapping().items()}
        for tier, parts in fields["tiers"].mapping().items()
    }
    devices = _device_prices(fields["devices"], device) if "devices" in fields else {}
    if _is_shipped("prices", entry) and device.own is not None:
        devices = {name: price for name, price in devices.items() if name != device.name}
    try:
        return Prices(parse_prices(tiers), devices)
    except SpecError as error:
        raise SpecError(error.message, where=fields["tiers"].where, hint=error.hint) from None


def _device_prices(entry: Entry, own: Device) -> Mapping[str, int]:
    """Return dollars by device: of shipped ones, and of the system's own."""
    known, prices = {*shared_names("devices"), own.name}, dict[str, int]()
    for name, price in entry.mapping().items():
        if name not in known:
            raise price.fail(f"unknown device {name!r}", nearest(name, known))
        prices[name] = price.quantity(Unit.DOLLARS)
        if not 0 <= prices[name] <= MOST_DEVICE_DOLLARS:
            limit = show(MOST_DEVICE_DOLLARS, Unit.DOLLARS)
            raise price.fail(f"{price.value!r} is no price of a device", f"allowed: 0 to {limit}")
    return prices


def _price(entry: Entry) -> str | int | float:
    if not isinstance(entry.value, str | int | float):
        raise entry.fail("expected a price", "write for example '7.8 $'")
    return entry.value


def _plain(entry: Entry) -> Value:
    return entry.text() if isinstance(entry.value, str) else entry.integer(low=1)


def read_workload(entry: Entry, beside: Path) -> tuple[dict[str, object], Entry]:
    """Return the plain fields of a workload, and the entry that holds them."""
    root, _ = open_part("workloads", entry, beside)
    fields = {key: value for key, value in root.mapping().items() if key != "schema"}
    kind = fields.get("kind")
    if kind is not None and kind.text() != "transformer":
        raise kind.fail(f"unknown kind of workload {kind.value!r}", "known: transformer")
    return {key: value.value for key, value in fields.items()}, root
