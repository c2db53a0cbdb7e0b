"""The README of an exported run: how to start ASTRA-sim on it, what it will report, and what it cannot express."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from cosmic_opt.interop.export_groups import MEMBERS, Placement
from cosmic_opt.simulation.replay.machine import ReplayMachine

COMMAND = (
    "AstraSim_Analytical_Congestion_Unaware",
    "--workload-configuration=workload/trace",
    "--comm-group-configuration=workload/comm_groups.json",
    "--system-configuration=system.json",
    "--network-configuration=network.yml",
    "--remote-memory-configuration=memory.json",
)
ALWAYS = (
    "Nothing contends: every message has the whole bandwidth of its dimension, and one over several dimensions is "
    "charged in the innermost one that differs.",
    "An NPU has one collective or message in flight; communication beside computation waits for its turn.",
    "Reductions go through the memory of an NPU, and every step of a collective has an endpoint delay of 10 ns.",
    "The memory of an NPU has no capacity.",
    "The service order of chunks (scheduling-policy) has no effect.",
)
TREES = "doubleBinaryTree runs an all-reduce also where a reduce-scatter or an all-gather is asked for."


@dataclass(frozen=True, slots=True)
class Readme:
    """The text of the file, and the notes on what ASTRA-sim cannot express of this design."""

    text: str
    notes: tuple[str, ...]


def readme_text(
    name: str, machine: ReplayMachine, placement: Placement, design: Mapping[str, object], time_ns: int | None
) -> Readme:
    """Return the README of a run; `time_ns` is what ASTRA-sim will report, None where that is not known."""
    notes = (*_group_notes(placement), *_network_notes(machine, placement))
    lines = [
        f"# {name}, a training step on {placement.npus:,} NPUs",
        "",
        "Run in this folder, with the congestion-unaware analytical backend of ASTRA-sim 2.0:",
        "",
        "```",
        " \\\n  ".join(COMMAND),
        "```",
        "",
        _expected(time_ns),
        "",
        "| file | content |",
        "|---|---|",
        "| `workload/trace.N.et` | the Chakra execution trace of NPU N |",
        "| `workload/comm_groups.json` | communicator groups smaller than the dimensions they lie in |",
        "| `network.yml` | dimensions, innermost first; bandwidths in 2^30 B/s, latencies in ns |",
        "| `system.json` | collectives, roofline and memory bandwidth (10^12 FLOP/s, 10^9 B/s) |",
        "| `memory.json` | no remote memory |",
        "",
        "## What ASTRA-sim does not express",
        "",
        *(f"- {note}" for note in (*notes, *ALWAYS)),
        "",
        "## The design",
        "",
        "```json",
        json.dumps(dict(design), indent=1),
        "```",
    ]
    return Readme("\n".join(lines) + "\n", notes)


def _expected(time_ns: int | None) -> str:
    if time_ns is None:
        return "The run is too large to be replayed where it was written; what ASTRA-sim will report is not known."
    return f"The last NPU finishes after {time_ns:,} ns: the replay of these files gives what ASTRA-sim will report."


def _group_notes(placement: Placement) -> list[str]:
    notes = []
    for role, groups in MEMBERS.items():
        degree = placement.degree(role)
        if degree > 1 and placement.whole_dims(role) is None:
            what = " and ".join(groups)
            notes.append(
                f"Groups of {degree} NPUs ({role} parallelism, {what}) span a part of a dimension: they run as flat "
                "rings, whatever the algorithms."
            )
    return notes


def _network_notes(machine: ReplayMachine, placement: Placement) -> list[str]:
    notes = []
    algorithms = next(iter(machine.algorithms.values()))
    ones = sum(npus == 1 for npus in placement.npus_per_dim)
    if ones:
        notes.append(f"{ones} dimension(s) of one NPU are left out, which ASTRA-sim does not have.")
    if "switch" in machine.topologies:
        notes.append("A switch is two hops, so that its latency counts twice.")
    if "direct" in algorithms:
        notes.append("`direct` sends to all peers at the same time, each with the whole bandwidth.")
    if "doubleBinaryTree" in algorithms:
        notes.append(TREES)
    return notes
