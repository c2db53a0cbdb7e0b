"""ASTRA-sim's files of a design's machine: network (YAML), system and remote memory (JSON), in its own units."""

from __future__ import annotations

import json
from collections.abc import Mapping

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.interop.astra_sim import COLLECTIVES, IMPLEMENTATIONS, MULTIDIM, TOPOLOGIES
from cosmic_opt.psa.domain import Value
from cosmic_opt.simulation.replay.machine import ReplayMachine
from cosmic_opt.system.npu import Npu

BYTES_PER_GIB = 2**30
TICKS_PER_NS = 1000
ENDPOINT_DELAY_NS = 10
"""ASTRA-sim's default, and what a group smaller than the machine has in any case."""
ALGORITHMS = {
    "ring": "ring",
    "direct": "direct",
    "halving_doubling": "halvingDoubling",
    "double_binary_tree": "doubleBinaryTree",
}
POLICIES = ("fifo", "lifo")
"""The orders of service that both programs have."""
LEAST_NPUS = 2


def machine_of(design: Mapping[str, Value], dimensions: int, npu: Npu) -> ReplayMachine:
    """Return the machine of a design (a value per column and datum) without its dimensions of one NPU.

    Raises:
        SpecError: one NPU in all; an algorithm, an order of dimensions or of service that ASTRA-sim does not have.
    """
    dims = [dim for dim in range(dimensions) if int(design[f"npus_per_dim[{dim}]"]) >= LEAST_NPUS]
    if not dims:
        raise SpecError("ASTRA-sim has no machine of one NPU", hint="export a design of two NPUs or more")
    multidim = str(design["multidim"])
    own = {f"algorithm[{dim}]": str(design[f"algorithm[{dim}]"]) for dim in dims}
    known = dict.fromkeys(own, tuple(ALGORITHMS))
    known |= {"multidim": tuple(MULTIDIM.values()), "scheduling_policy": POLICIES}
    for key, name in {**own, "multidim": multidim, "scheduling_policy": policy_of(design)}.items():
        if name not in known[key]:
            hint = f"export a design with one of {', '.join(known[key])}"
            raise SpecError(f"ASTRA-sim has no {name!r}", where=Where(key=key), hint=hint)
    algorithms = tuple(ALGORITHMS[name] for name in own.values())
    return ReplayMachine(
        topologies=tuple(str(design[f"topology[{dim}]"]) for dim in dims),
        npus_per_dim=tuple(int(design[f"npus_per_dim[{dim}]"]) for dim in dims),
        bandwidth_gib_per_s=tuple(int(design[f"bandwidth[{dim}]"]) / BYTES_PER_GIB for dim in dims),
        latency_ns=tuple(int(design[f"latency[{dim}]"]) / TICKS_PER_NS for dim in dims),
        algorithms=dict.fromkeys(COLLECTIVES, algorithms),
        chunks=int(design["chunks"]),
        multidim=multidim,
        endpoint_delay_ns=ENDPOINT_DELAY_NS,
        memory_gb_per_s=npu.memory_bytes_per_s / 1e9,
        peak_tflops=npu.peak_flop_per_s / 1e12,
    )


def policy_of(design: Mapping[str, Value]) -> str:
    """Return the order of service of a design, fifo where it does not say."""
    return str(design.get("scheduling_policy", POLICIES[0]))


def network_text(machine: ReplayMachine) -> str:
    """Return the network file: bandwidths in 2^30 B/s, latencies in ns, innermost dimension first."""
    blocks = {block: name for name, block in TOPOLOGIES.items()}
    rows = {
        "topology": [blocks[topology] for topology in machine.topologies],
        "npus_count": machine.npus_per_dim,
        "bandwidth": map(_plain, machine.bandwidth_gib_per_s),
        "latency": map(_plain, machine.latency_ns),
    }
    units = {"bandwidth": "  # 2^30 B/s", "latency": "  # ns"}
    lines = [f"{key}: [ {', '.join(map(str, values))} ]{units.get(key, '')}" for key, values in rows.items()]
    return "\n".join(lines) + "\n"


def _plain(value: float) -> str:
    """Return a number that reads back the same, without an exponent, which YAML would read as text."""
    shown = repr(float(value))
    return shown if "e" not in shown else f"{value:.30f}".rstrip("0")


def system_text(machine: ReplayMachine, policy: str) -> str:
    """Return the system file; `policy` is fifo or lifo."""
    schemes = {ours: theirs for theirs, ours in MULTIDIM.items()}
    entries: dict[str, object] = {
        "scheduling-policy": policy.upper(),
        "endpoint-delay": machine.endpoint_delay_ns,
        "active-chunks-per-dimension": machine.active_chunks,
        "preferred-dataset-splits": machine.chunks,
        **{IMPLEMENTATIONS[name]: list(algorithms) for name, algorithms in machine.algorithms.items()},
        "collective-optimization": schemes[machine.multidim],
        "local-mem-bw": machine.memory_gb_per_s,
        "peak-perf": machine.peak_tflops,
        "roofline-enabled": 1,
    }
    return json.dumps(entries, indent=2) + "\n"


def memory_text() -> str:
    """Return the remote-memory file of a machine without any."""
    return json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}, indent=2) + "\n"
