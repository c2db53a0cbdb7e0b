"""Networks of published studies, by name: dimensions and the algorithm that runs on each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from cosmic_opt.catalog.amounts import positive
from cosmic_opt.catalog.store import data_root, read_document
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.psa.document import Entry
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.units import Unit

FIELDS = ("topology", "npus", "bandwidth", "latency", "algorithm")


@dataclass(frozen=True, slots=True)
class NamedNetwork:
    """A network and the algorithm of each of its dimensions, innermost first."""

    network: Network
    algorithms: tuple[str, ...]


def load_network(study: str, name: str) -> NamedNetwork:
    """Return a network of a study's file, `instances/_networks/<study>.yaml`.

    Raises:
        SpecError: the study has no network of that name.
    """
    networks = _networks(study)
    if name not in networks:
        raise SpecError(f"{study} has no network {name!r}", hint=nearest(name, networks))
    return networks[name]


@cache
def _networks(study: str) -> dict[str, NamedNetwork]:
    path = data_root() / "instances" / "_networks" / f"{study}.yaml"
    root = read_document(path, "networks")
    fields = root.fields(required=("schema", "networks", "source"))
    return {name: _network(entry) for name, entry in fields["networks"].mapping().items()}


def _network(entry: Entry) -> NamedNetwork:
    rows = [dimension.fields(required=FIELDS) for dimension in entry.items()]
    return NamedNetwork(Network(tuple(_dimension(row) for row in rows)), tuple(row["algorithm"].text() for row in rows))


def _dimension(row: dict[str, Entry]) -> Dimension:
    return Dimension(
        row["topology"].text(),
        row["npus"].integer(low=1),
        positive(row["bandwidth"], Unit.BYTES_PER_S),
        row["latency"].quantity(Unit.TIME),
    )
