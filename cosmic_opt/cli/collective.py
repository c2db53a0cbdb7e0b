"""`collective`: the time of one collective on a given network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, TypedDict

import typer

from cosmic_opt.catalog.data import LATENCY, Datum
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import LimitError, SpecError, Where, nearest
from cosmic_opt.reporting.collectives import TICKS_PER_NS, collective_keys, collective_text
from cosmic_opt.simulation.collective import PROFILES, AstraSimOptions, simulate_collective
from cosmic_opt.simulation.events import POLICIES
from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.collectives.base import COLLECTIVES
from cosmic_opt.system.multidim import MULTIDIM, SCHEMES, THEMIS
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.units import Unit, missing_unit, parse_exact

IN_NETWORK = "in_network"
NATURAL = {"ring": "ring", "fully_connected": "direct", "switch": "halving_doubling"}
"""The algorithm that uses all of a block's links: COSMIC's pairing."""
BYTES_PER_GB = 10**9
NPUS = Datum(high=1_000_000)
MOST_PAIRS = 8192**2
"""Messages of one step between all pairs of a dimension; more would not fit in memory."""
BANDWIDTH = Datum(Unit.BYTES_PER_S)
SIZE = Datum(Unit.BYTES, low=0)


def _whole_bytes(size: str) -> int:
    """Return the size that a text spells.

    Raises:
        SpecError: no size, a bare number that a person can hardly mean in bytes, or a fraction of a byte.
    """
    where, bare = Where("--size"), size.strip()
    if missing_unit(size, Unit.BYTES, where=where) is not None:
        raise SpecError(f"{bare} what?", where=where, hint=f"write '{bare}MB', or '{bare}B' for bytes")
    return int(SIZE.read("the size", size, where))


BANDWIDTHS = typer.Option("--bandwidth", help="Per NPU and direction: '200 GB/s,50 GB/s' (10^9) or '50 GiB/s' (2^30).")
MULTIDIMS = typer.Option("--multidim", help="blueconnect, baseline or (profile link) themis.")


def collective(
    topology: Annotated[str, typer.Option("--topology", help="Block of each dimension, innermost first.")],
    npus: Annotated[str, typer.Option("--npus", help="NPUs of each dimension: 4,8.")],
    bandwidth: Annotated[str, BANDWIDTHS],
    latency: Annotated[str, typer.Option("--latency", help="Of one hop of each dimension: '500 ns,1 us'.")],
    size: Annotated[str, typer.Option("--size", help="Full buffer per NPU: 256MB. astra_sim: its comm_size.")],
    kind: Annotated[str, typer.Option("--collective", help=", ".join(COLLECTIVES))] = "all_reduce",
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", help="Of each dimension; default: the one that suits its block.")
    ] = None,
    multidim: Annotated[str, MULTIDIMS] = "blueconnect",
    policy: Annotated[
        str | None, typer.Option("--scheduling-policy", help=f"themis serves chunks: {', '.join(POLICIES)} (fifo).")
    ] = None,
    in_network: Annotated[
        bool,
        typer.Option("--in-network-reduction", help="Switches add and copy messages: by default they run in_network."),
    ] = False,
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="Pieces the buffer is cut in.")] = 1,
    profile: Annotated[str, typer.Option("--profile", help="link, astra_sim or astra_sim_aware.")] = "link",
    active_chunks: Annotated[
        int | None, typer.Option("--active-chunks", min=1, help="astra_sim: chunks in flight per dimension (1).")
    ] = None,
    endpoint_delay: Annotated[
        str | None, typer.Option("--endpoint-delay", help="astra_sim: delay of an NPU per message ('10 ns').")
    ] = None,
    memory_bandwidth: Annotated[
        str | None, typer.Option("--memory-bandwidth", help="astra_sim: what reductions go through (no limit).")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Time one collective on a network. Every list has one entry per dimension, innermost first."""
    profile, kind = word(profile, PROFILES, "--profile"), word(kind, COLLECTIVES, "--collective")
    topologies = [word(name, TOPOLOGIES, "--topology") for name in split(topology, "--topology")]
    network = read_network(topologies, npus, bandwidth, latency)
    if in_network:
        network = _reducing(network, algorithm, profile)
    algorithms, ways = _algorithms(algorithm, network, profile), _ways(multidim, policy, profile)
    size_bytes = _whole_bytes(size)
    options = _astra_sim(active_chunks, endpoint_delay, memory_bandwidth)
    result = simulate_collective(
        network, kind, algorithms, size_bytes, chunks=chunks, profile=profile, astra_sim=options, **ways
    )
    output, asked = Output(as_json, quiet), _echo(network, profile, kind, size_bytes, ways, algorithms)
    output.log(_note(algorithm is None, profile, algorithms))
    output.result("collective", collective_keys(result, asked), collective_text(result, asked))
    return DONE


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("collective", cls=Command)(collective)


class Ways(TypedDict):
    """How chunks are led over dimensions, and in which order they are served."""

    multidim: str
    policy: str


def _ways(multidim: str, policy: str | None, profile: str) -> Ways:
    """Return both as asked, the order by default.

    Raises:
        SpecError: an unknown name, or an order that has no effect.
    """
    multidim = word(multidim, SCHEMES if profile == "link" else MULTIDIM, "--multidim")
    if policy is not None and multidim != THEMIS:
        raise SpecError("only themis serves by a policy", where=Where("--scheduling-policy"), hint="--multidim themis")
    return {
        "multidim": multidim,
        "policy": word(POLICIES[0] if policy is None else policy, POLICIES, "--scheduling-policy"),
    }


def _note(chosen: bool, profile: str, algorithms: Sequence[str]) -> str:
    """Return what a person must know about the defaults and units in force."""
    note = f"algorithms {', '.join(algorithms)}" + (" (each suits its block)" if chosen else "")
    if profile != "link":
        note += f"\n{profile}: --size is its comm_size; GB/s is 10^9 B/s here, write GiB/s for its own 'GB/s' (2^30)"
    return note


def _echo(
    network: Network, profile: str, kind: str, size_bytes: int, ways: Ways, algorithms: Sequence[str]
) -> dict[str, object]:
    """Return what was asked, defaults included, under its JSON keys."""
    dimensions = network.dimensions
    asked: dict[str, object] = {
        "profile": profile,
        "collective": kind,
        "size_bytes": size_bytes,
        "multidim": ways["multidim"],
        "topology": [dimension.topology for dimension in dimensions],
        "npus_per_dim": [dimension.npus for dimension in dimensions],
        "bandwidth_bytes_per_s": [dimension.bandwidth_bytes_per_s for dimension in dimensions],
        "latency_ns": [dimension.latency_ticks / TICKS_PER_NS for dimension in dimensions],
        "algorithm": list(algorithms),
    }
    return asked | ({"scheduling_policy": ways["policy"]} if ways["multidim"] == THEMIS else {})


def split(text: str, option: str) -> list[str]:
    """Return the entries of a list such as "ring,switch"."""
    entries = [entry.strip() for entry in text.split(",")]
    if not all(entries):
        raise SpecError(f"{text!r} has an empty entry", where=Where(option), hint="one entry per dimension: a,b")
    return entries


def word(text: str, known: Iterable[str], option: str) -> str:
    """Return a name, "all-reduce" read as "all_reduce"."""
    name = text.strip().lower().replace("-", "_")
    if name not in known:
        raise SpecError(f"{text!r} is not known here", where=Where(option), hint=nearest(name, known))
    return name


def read_network(topologies: Sequence[str], npus: str, bandwidth: str, latency: str) -> Network:
    """Return the network that four lists of equal length describe."""
    bandwidths = [_bandwidth(text) for text in split(bandwidth, "--bandwidth")]
    latencies = [int(LATENCY.read("the latency", text, Where("--latency"))) for text in split(latency, "--latency")]
    extents = [int(NPUS.read("the number of NPUs", text, Where("--npus"))) for text in split(npus, "--npus")]
    lists = {"--npus": extents, "--bandwidth": bandwidths, "--latency": latencies}
    for option, values in lists.items():
        if len(values) != len(topologies):
            raise SpecError(
                f"{option} has {len(values)} entries, --topology {len(topologies)}",
                where=Where(option),
                hint="give every list one entry per dimension, innermost first",
            )
    rows = zip(topologies, extents, bandwidths, latencies, strict=True)
    return Network(tuple(Dimension(*row) for row in rows))


def _reducing(network: Network, algorithm: str | None, profile: str) -> Network:
    """Return the network with switches that reduce.

    Raises:
        SpecError: nothing would come of it.
    """
    where = Where("--in-network-reduction")
    if profile != "link":
        raise SpecError(f"the profile {profile!r} has no switch that reduces", where=where, hint="leave it out")
    if not any(TOPOLOGIES.get(dimension.topology).switched for dimension in network.dimensions):
        raise SpecError("no dimension has a switch", where=where, hint="leave it out")
    if algorithm is not None and IN_NETWORK not in (
        word(name, ALGORITHMS, "--algorithm") for name in _names(algorithm)
    ):
        raise SpecError(
            f"no dimension runs the algorithm {IN_NETWORK}, so that nothing changes",
            where=where,
            hint=f"name {IN_NETWORK} for a switch, or leave --algorithm out",
        )
    return Network(
        tuple(
            replace(dimension, in_network_reduction=TOPOLOGIES.get(dimension.topology).switched)
            for dimension in network.dimensions
        )
    )


def _bandwidth(text: str) -> int:
    where = Where("--bandwidth")
    if parse_exact(text, where=where)[1] is Unit.NONE:
        raise SpecError(
            f"{text!r} needs a unit", where=where, hint=f"write '{text} GB/s' (10^9) or '{text} GiB/s' (2^30)"
        )
    return int(BANDWIDTH.read("the bandwidth", text, where))


def _algorithms(text: str | None, network: Network, profile: str) -> list[str]:
    """Return the algorithms as asked (ASTRA-sim has names of its own), or those that suit the blocks."""
    names = [_natural(dimension) for dimension in network.dimensions] if text is None else _names(text)
    if profile != "link":
        return names
    if len(names) != len(network.dimensions):
        raise SpecError(
            f"--algorithm has {len(names)} entries, --topology {len(network.dimensions)}",
            where=Where("--algorithm"),
            hint="give every list one entry per dimension, innermost first",
        )
    algorithms = [word(name, ALGORITHMS, "--algorithm") for name in names]
    _refuse_large(network, algorithms)
    return algorithms


def _names(text: str) -> list[str]:
    return split(text, "--algorithm")


def _refuse_large(network: Network, algorithms: Sequence[str]) -> None:
    for dimension, algorithm in zip(network.dimensions, algorithms, strict=True):
        all_pairs = algorithm == "direct" or dimension.topology == "fully_connected"
        if all_pairs and dimension.npus**2 > MOST_PAIRS:
            raise LimitError(
                f"{algorithm} on a {dimension.topology} of {dimension.npus:,} NPUs looks at every pair of them",
                where=Where("--npus"),
                hint="at most 8,192 NPUs in such a dimension; use the algorithm ring, or more dimensions",
            )


def _natural(dimension: Dimension) -> str:
    if dimension.in_network_reduction:
        return IN_NETWORK
    power_of_two = dimension.npus & (dimension.npus - 1) == 0
    return NATURAL[dimension.topology] if power_of_two or dimension.topology != "switch" else "direct"


def _astra_sim(active_chunks: int | None, endpoint_delay: str | None, memory: str | None) -> AstraSimOptions | None:
    if active_chunks is None and endpoint_delay is None and memory is None:
        return None
    chosen = AstraSimOptions()
    if active_chunks is not None:
        chosen = replace(chosen, active_chunks=active_chunks)
    if endpoint_delay is not None:
        ticks = int(LATENCY.read("the delay", endpoint_delay, Where("--endpoint-delay")))
        if ticks % TICKS_PER_NS:
            raise SpecError(
                f"{endpoint_delay!r} is not whole ns", where=Where("--endpoint-delay"), hint="write '10 ns'"
            )
        chosen = replace(chosen, endpoint_delay_ns=ticks // TICKS_PER_NS)
    if memory is not None:
        rate = BANDWIDTH.read("the bandwidth", memory, Where("--memory-bandwidth"))
        chosen = replace(chosen, memory_gb_per_s=int(rate) / BYTES_PER_GB)
    return chosen
