"""Rows of Themis' figure 8: one all-reduce over 1,024 NPUs, per network, scheduler and size.

The figure's "1 GB" is 1,000 * 2^20 bytes. Its baseline leads every chunk in by reduce-scatters and out by
all-gathers, its simulator cuts a collective in 64 chunks (section 5), and its orders of service are planned.
"""

from __future__ import annotations

from collections.abc import Mapping
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

TIES = (
    "chunks that wait are served in the order planned without latencies: first come, first served; "
    "of chunks that come at one time the one that left its last dimension first"
)
"""The rule on which FIFO's times depend: it is not printed in the paper."""


def themis_rows(figure: object) -> list[object]:
    """Return one row per network, scheduler and size of the digitised figure; its value is in microseconds."""
    if not isinstance(figure, dict) or not isinstance(figure.get("time_us"), dict):
        return []
    rows = list[object]()
    for topology, schedulers in figure["time_us"].items():
        for scheduler, times in (schedulers if isinstance(schedulers, dict) else {}).items():
            for size, time in zip(figure.get("sizes_GB") or [], times or [], strict=False):
                rows.append({"id": f"{topology}/{scheduler}/{size}", "value": time})
    return rows


def predict_themis(row: Mapping[str, Any], measured: float | None) -> tuple[float | None, str | None]:
    """Return the time of a row in microseconds, and a note."""
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
