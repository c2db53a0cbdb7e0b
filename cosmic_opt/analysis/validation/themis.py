"""Rows of Themis' figure 8: one all-reduce over 1,024 NPUs, per network, scheduler and size.

The figure's "1 GB" is 1,000 * 2^20 bytes. Its baseline leads every chunk in by reduce-scatters and out by
all-gathers, its simulator cuts a collective in 64 chunks (section 5), and its orders of service are planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from cosmic_opt.catalog.networks import load_network
from cosmic_opt.errors import CosmicError, SpecError, nearest
from cosmic_opt.simulation.events.collective import Group, schedule_collective
from cosmic_opt.units import TICKS_PER_SECOND

STUDY = "themis"
CHUNKS = 64
BYTES_PER_GB = 1000 * 2**20
SCHEDULERS = {
    "Baseline": ("blueconnect", "fifo"),
    "Themis+FIFO": ("themis", "fifo"),
    "Themis+SCF": ("themis", "smallest_first"),
}
"""The figure's names: how chunks are led, and which a dimension serves first."""

UNREADABLE = "unreadable"
"""The key under which a row says why it cannot be read."""
TIES = (
    "chunks that wait are served in the order planned without latencies: first come, first served; "
    "of chunks that come at one time the one that left its last dimension first"
)
"""The rule on which FIFO's times depend: it is not printed in the paper."""


def themis_rows(figure: object) -> list[object]:
    """Return one row per network, scheduler and size of the digitised figure; its value is in microseconds.

    What is malformed becomes a row that says so (`UNREADABLE`).
    """
    times = figure.get("time_us") if isinstance(figure, dict) else None
    sizes = figure.get("sizes_GB") if isinstance(figure, dict) else None
    if not isinstance(times, dict) or not isinstance(sizes, list | tuple):
        return [{"id": "all_reduce_time_us", UNREADABLE: "it has no 'time_us' by network, or no list 'sizes_GB'"}]
    rows = list[object]()
    for topology, schedulers in times.items():
        if not isinstance(schedulers, dict):
            rows.append({"id": topology, UNREADABLE: "its times are not given by scheduler"})
            continue
        for scheduler, column in schedulers.items():
            rows += _column(f"{topology}/{scheduler}", column, sizes)
    return rows


def _column(name: str, times: object, sizes: Sequence[object]) -> list[object]:
    if not isinstance(times, list | tuple):
        return [{"id": name, UNREADABLE: "its times are not a list"}]
    rows = list[object]()
    for index in range(max(len(times), len(sizes))):
        size = sizes[index] if index < len(sizes) else f"size {index}"
        row: dict[str, object] = {"id": f"{name}/{size}", "value": times[index] if index < len(times) else None}
        if index >= len(sizes):
            row[UNREADABLE] = f"there are {len(times)} times and {len(sizes)} sizes"
        rows.append(row)
    return rows


def predict_themis(row: Mapping[str, Any], measured: float | None) -> tuple[float | None, str | None]:
    """Return the time of a row in microseconds, and a note."""
    if UNREADABLE in row:
        return None, f"the row cannot be read: {row[UNREADABLE]}"
    try:
        topology, scheduler, size = _parts(str(row["id"]))
        return _time_us(topology, scheduler, size), TIES if scheduler == "Themis+FIFO" else None
    except CosmicError as error:
        return None, f"the row cannot be predicted: {error.message}"


def _parts(name: str) -> tuple[str, str, int]:
    """Return network, scheduler and bytes of `topology/scheduler/size`."""
    topology, scheduler, size = name.split("/") if name.count("/") == 2 else (name, "", "")
    if scheduler not in SCHEDULERS:
        raise SpecError(f"unknown scheduler {scheduler!r}", hint=nearest(scheduler, SCHEDULERS))
    try:
        size_bytes = round(float(size) * BYTES_PER_GB)
    except (ValueError, OverflowError):
        raise SpecError(f"{size!r} is not a size in GB", hint="for example 0.5") from None
    return topology, scheduler, size_bytes


@cache
def _time_us(topology: str, scheduler: str, size_bytes: int) -> float:
    named = load_network(STUDY, topology)
    lead, policy = SCHEDULERS[scheduler]
    done = schedule_collective(
        Group.whole(named.network, named.algorithms),
        "all_reduce",
        size_bytes,
        scheduler=lead,
        chunks=CHUNKS,
        policy=policy,
    )
    return done.time_ticks * 1e6 / TICKS_PER_SECOND
