"""Rows of Themis' figure 12: a training pass of a layer table, by network, workload and scheduler.

A bar is a share of its baseline's time. A reading that the paper does not print holds for all bars: times of the
tables, written for 60 * 2^40 FLOP/s, are multiplied by 60 / 234 (75 % of an A100's peak).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod
from pathlib import Path

from cosmic_opt.analysis.validation.kinds import Outcome, Row, clip, text
from cosmic_opt.analysis.validation.report import Ranked
from cosmic_opt.analysis.validation.themis import CHUNKS, SCHEDULERS, STUDY, TIES, UNREADABLE
from cosmic_opt.catalog.networks import NamedNetwork, load_network
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.events.table_collectives import buffer_bytes, table_collectives
from cosmic_opt.simulation.replay.training_loop import CollectiveTicks, LoopTimes, Scope, run_table
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.layer_table import LAYER_TABLE_READERS, LayerTable
from cosmic_opt.workloads.placement import nested_placement

COMPUTE_SCALE = Fraction(60, 234)
BASELINE, IDEAL = "Baseline", "Ideal"
BARS = (*SCHEDULERS, IDEAL)
PASSES = {"all_reduce": 2}
"""Times the buffer crosses the network; every other collective once."""
TABLE_FORMAT, ENDING = "layer_table", ".txt"
PARTS = {"fwd": "forward", "bwd": "backward", "mp": "model", "dp": "data"}
"""The figure's parts of a bar, and ours."""


def bar_rows(bars: object) -> list[object]:
    """Return one row per bar; its value is the bar's total, its id `network/workload/scheduler`."""
    if not isinstance(bars, list):
        return [{"id": "end_to_end_breakdown", UNREADABLE: "it is not a list of bars"}]
    return [_named(bar) if isinstance(bar, dict) else bar for bar in bars]


def _named(bar: Row) -> Row:
    name = "/".join(str(bar.get(key, "?")) for key in ("topology", "workload", "scheduler"))
    return {"id": name, **bar, "value": bar.get("total")}


def predict_bar(row: Row, tables: Path | None) -> Outcome:
    """Return the total of a bar over that of its baseline; `tables` holds `WORKLOAD.txt` for other workloads.

    Raises:
        SpecError: the row lacks an input, or names an unknown network, workload or scheduler.
    """
    if UNREADABLE in row:
        raise SpecError(str(row[UNREADABLE]), hint="give a list of bars")
    topology, workload, scheduler = (text(row, key) for key in ("topology", "workload", "scheduler"))
    if scheduler not in BARS:
        raise SpecError(f"unknown scheduler {clip(scheduler)}", hint=nearest(scheduler, BARS))
    table = _table_path(workload, tables)
    baseline = _times(topology, table, BASELINE)
    if not baseline.ticks:
        raise SpecError("the table takes no time", hint="give a table with computation or collectives")
    times = _times(topology, table, scheduler)
    total = times.ticks / baseline.ticks
    groups = () if scheduler == BASELINE else (f"end to end, {scheduler} over {BASELINE}",)
    ranked = Ranked(groups, (("events", total),), absolute=scheduler != BASELINE)
    return Outcome(
        total, _note(row, times, baseline.ticks, scheduler), "end to end", STUDY, _npus(topology), True, ranked
    )


def _npus(topology: str) -> int:
    return load_network(STUDY, topology).network.npus


def _note(row: Row, times: LoopTimes, whole: int, scheduler: str) -> str:
    """Return the parts of a bar, each beside the figure's where it has one."""
    parts = []
    for key, name in PARTS.items():
        figure = row.get(key)
        shown = f" ({figure:.4f})" if isinstance(figure, int | float) else ""
        parts.append(f"{key} {getattr(times, name) / whole:.4f}{shown}")
    note = "parts, in brackets the figure's: " + ", ".join(parts)
    if scheduler == BASELINE:
        note += "; a baseline is the unit of its bars: its parts are what is predicted"
    return f"{note}; {TIES}" if scheduler == "Themis+FIFO" else note


def _table_path(workload: str, tables: Path | None) -> Path:
    """Return the file of a workload's table: in a folder of the user's, or shipped."""
    if Path(workload).name != workload:
        raise SpecError(f"{clip(workload)} is not the name of a workload", hint="write a plain name")
    shipped = data_root() / "benchmarks" / "data" / STUDY
    for folder in (tables, shipped):
        path = None if folder is None else folder / f"{workload}{ENDING}"
        if path is not None and path.is_file():
            return path
    known = [path.stem for path in shipped.glob(f"*{ENDING}")]
    raise SpecError(
        f"there is no layer table of {clip(workload)}",
        hint=f"add {workload}{ENDING} to the folder of --traces, or take one of {nearest(workload, known)}",
    )


@cache
def _times(topology: str, path: Path, scheduler: str) -> LoopTimes:
    named = load_network(STUDY, topology)
    table: LayerTable = LAYER_TABLE_READERS.get(TABLE_FORMAT)(path)
    if scheduler == IDEAL:
        ticks: CollectiveTicks = _Ideal(named, _groups(named, table.model_npus))
    else:
        ticks = _scheduled(named, table.model_npus, scheduler)
    return run_table(table, ticks, compute_scale=COMPUTE_SCALE)


def _scheduled(named: NamedNetwork, model_npus: int, scheduler: str) -> CollectiveTicks:
    lead, policy = SCHEDULERS[scheduler]
    return table_collectives(
        named.network, named.algorithms, model_npus=model_npus, scheduler=lead, chunks=CHUNKS, policy=policy
    )


def _groups(named: NamedNetwork, model_npus: int) -> dict[Scope, tuple[int, ...]]:
    """Return how far the groups of each scope reach into the dimensions."""
    sizes = tuple(dimension.npus for dimension in named.network.dimensions)
    model, data = nested_placement((model_npus, named.network.npus // model_npus), sizes)
    return {Scope.ALL: sizes, Scope.MODEL: model, Scope.DATA: data}


@dataclass(frozen=True, slots=True)
class _Ideal:
    """Every dimension of a group busy all the time, without latency (Themis, section 5)."""

    named: NamedNetwork
    groups: dict[Scope, tuple[int, ...]]

    def __call__(self, collective: str, size_bytes: int, scope: Scope) -> int:
        extents = self.groups[scope]
        npus = prod(extents)
        rate = sum(
            dimension.bandwidth_bytes_per_s
            for dimension, extent in zip(self.named.network.dimensions, extents, strict=True)
            if extent > 1
        )
        if npus == 1:
            return 0
        whole = buffer_bytes(collective, size_bytes, npus)
        moved = Fraction(PASSES.get(collective, 1) * whole * (npus - 1), npus)
        return round(moved * TICKS_PER_SECOND / rate)
