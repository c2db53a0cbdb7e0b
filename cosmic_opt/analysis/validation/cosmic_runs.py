"""Runs that COSMIC's authors logged (design to cycles, 1 ns each), by the order of their steps.

The traces that were run are not public, so only ranks are compared: their computation counts multiply-accumulates,
their bytes are element counts. How such a run uses its network is known from ASTRA-sim and its trace generator: ranks
count dp, tp, sp, pp from the innermost dimension on, a group smaller than the machine is one flat ring whatever its
algorithms, and a message has the listed bandwidth to itself (that of a link). A bandwidth here is a dimension's, so
that every block is read as a ring of that rate; a pipeline is fed sequence by sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, clip, number, whole
from cosmic_opt.analysis.validation.report import Ranked
from cosmic_opt.analysis.validation.row_keys import COSMIC_RUN_KEYS
from cosmic_opt.errors import InfeasibleError, LimitError, SpecError, nearest
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.system.npu import Npu
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.transformer import Transformer

ALL_RUNS = "logged runs"
DEVICE = "astra-sim"
ORDER = "dp_tp_sp_pp"
MULTIDIM = {"baseline": "baseline", "localBWAware": "blueconnect"}
POLICIES = {"LIFO": "lifo", "FIFO": "fifo"}
TOPOLOGIES = ("Ring", "FullyConnected", "Switch")
MOST_DIMENSIONS = 8
MOST = {"layers": 1024, "sequences": 2**20, "npus": 2**20, "width": 2**20, "chunks": 256}
"""What of a run is simulated at most."""
NS_PER_S, NS_TICKS = 10**9, TICKS_PER_SECOND // 10**9
MOST_CHUNKS = 2**20
"""Chunks that pass a layer of a stage in a step, over all its sequences: seconds of events."""
UNLIMITED_BYTES = 10**18

Value = int | str


def predict_cosmic_run(row: Row) -> Outcome:
    """Return the step of a logged run in ns: the analytical one, and the events' for ranks.

    Raises:
        SpecError: the row lacks an input, or one means nothing.
        InfeasibleError: the degrees do not fill the machine.
        LimitError: the step is too long.
    """
    workload, system, network = (_part(row, key) for key in ("workload", "system", "network"))
    constants = _network(network) | _collectives(system)
    dimensions = sum(name.startswith("topology") for name in constants)
    degrees = _degrees(workload, prod(int(constants[f"npus_per_dim[{dim}]"]) for dim in range(dimensions)))
    constants |= degrees
    model, job = _model(workload), _job(workload)
    _refuse_long(model, job, constants)
    analytical = AnalyticalSimulator(model, job, _npu(system), dimensions, constants, {})
    bound_ns = int(analytical.evaluate({}).step_ticks[0]) / NS_TICKS
    events_ns = EventSimulator(analytical, constants).simulate({}).step_ticks / NS_TICKS
    npus = int(degrees["npus"])
    group = f"{ALL_RUNS}, {npus:,} NPUs, width {model.hidden:,}, {model.layers} layers"
    ranked = Ranked((ALL_RUNS, group), (("analytical", bound_ns), ("events", events_ns)), absolute=False)
    note = f"by events {events_ns:,.0f} ns; the trace is not public: compare ranks, not times"
    return Outcome(bound_ns, note, ALL_RUNS, DEVICE, npus, False, ranked)


def _part(row: Row, key: str) -> Mapping[str, Any]:
    value = row.get(key)
    if not isinstance(value, dict):
        raise SpecError(f"{key!r} is {clip(value)}", hint=f"give the run's {key} as an object")
    return value


def _name(part: Row, key: str, names: Mapping[str, str]) -> str:
    value = part.get(key)
    if not isinstance(value, str) or value not in names:
        hint = nearest(value, names) if isinstance(value, str) else f"known: {', '.join(names)}"
        raise SpecError(f"{key!r} is {clip(value)}", hint=hint)
    return names[value]


def _network(network: Row) -> dict[str, Value]:
    """Return every dimension as a ring of the rate that one message has."""
    columns = {key: _column(network, key) for key in ("topology", "npus_count", "bandwidth", "latency")}
    if len({len(column) for column in columns.values()}) > 1 or not columns["topology"]:
        lengths = ", ".join(f"{key} {len(column)}" for key, column in columns.items())
        raise SpecError(f"the network's lists differ in length, or are empty: {lengths}", hint="one entry a dimension")
    constants = dict[str, Value]()
    for dim in range(len(columns["topology"])):
        here = {key: column[dim] for key, column in columns.items()}
        _name(here, "topology", dict(zip(TOPOLOGIES, TOPOLOGIES, strict=True)))
        constants[f"npus_per_dim[{dim}]"] = whole(here, "npus_count")
        constants[f"topology[{dim}]"] = constants[f"algorithm[{dim}]"] = "ring"
        constants[f"bandwidth[{dim}]"] = max(1, round(number(here, "bandwidth") * NS_PER_S))
        latency_ns = 0.0 if here["latency"] == 0 else number(here, "latency")
        constants[f"latency[{dim}]"] = round(latency_ns * NS_TICKS)
    return constants


def _column(network: Row, key: str) -> list[Any]:
    value = network.get(key)
    if not isinstance(value, list) or len(value) > MOST_DIMENSIONS:
        raise SpecError(f"{key!r} is {clip(value)}", hint=f"a list of at most {MOST_DIMENSIONS} dimensions")
    return value


def _collectives(system: Row) -> dict[str, Value]:
    return {
        "chunks": _at_most(system, "preferred-dataset-splits", MOST["chunks"]),
        "multidim": _name(system, "collective-optimization", MULTIDIM),
        "scheduling_policy": _name({"scheduling-policy": "FIFO", **system}, "scheduling-policy", POLICIES),
        "order": ORDER,
    }


def _degrees(workload: Row, npus: int) -> dict[str, Value]:
    """Return the parallel degrees; tp is what is left of the NPUs (COSMIC, table 1)."""
    if npus > MOST["npus"]:
        raise SpecError(f"{npus:,} NPUs", hint=f"at most {MOST['npus']:,} are simulated")
    if "num_npus" in workload and whole(workload, "num_npus") != npus:
        raise SpecError(f"num_npus is {workload['num_npus']}, the network has {npus}", hint="make them agree")
    dp, sp, pp = (whole(workload, key) for key in ("dp", "sp", "pp"))
    if npus % (dp * sp * pp):
        raise InfeasibleError(
            f"dp {dp} * sp {sp} * pp {pp} do not divide {npus} NPUs", hint="tp is NPUs / (dp * sp * pp)"
        )
    sharded = workload.get("weight_sharded", 0)
    if sharded not in (0, 1):
        raise SpecError(f"'weight_sharded' is {clip(sharded)}", hint="write 0 or 1")
    tp = npus // (dp * sp * pp)
    return {"npus": npus, "dp": dp, "sp": sp, "pp": pp, "tp": tp, "weight_sharded": int(sharded)}


def _at_most(part: Row, key: str, most: int) -> int:
    value = whole(part, key)
    if value > most:
        raise SpecError(f"{key!r} is {value:,}", hint=f"at most {most:,} are simulated")
    return value


def _refuse_long(model: Transformer, job: Mapping[str, Value], constants: Mapping[str, Value]) -> None:
    passes = model.layers * int(job["global_batch"]) // (int(constants["dp"]) * int(constants["pp"]))
    if passes * int(constants["chunks"]) > MOST_CHUNKS:
        raise LimitError(
            f"{passes:,} passes of a layer in {constants['chunks']:,} chunks are too many to be simulated by events",
            hint=f"at most {MOST_CHUNKS:,} chunks",
        )


def _model(workload: Row) -> Transformer:
    hidden, heads = _at_most(workload, "dmodel", MOST["width"]), _at_most(workload, "head", MOST["width"])
    if heads > hidden:
        raise SpecError(f"{heads:,} heads of a width of {hidden:,}", hint="give at most as many heads as the width")
    return Transformer(
        name=ALL_RUNS,
        layers=_at_most(workload, "num_stacks", MOST["layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=_at_most(workload, "dff", 16 * MOST["width"]),
        sequence=_at_most(workload, "seq", MOST["sequences"]),
        vocabulary=_at_most({"din": hidden, **workload}, "din", MOST["width"]),
    )


def _job(workload: Row) -> dict[str, int | str]:
    batch, sequence = (_at_most(workload, key, MOST["sequences"]) for key in ("batch", "seq"))
    return {"global_batch": batch, "sequence": sequence, "micro_batch": 1}


def _npu(system: Row) -> Npu:
    peak, memory = number(system, "peak-perf"), number(system, "local-mem-bw")
    return Npu(DEVICE, max(1, round(peak * 10**12)), max(1, round(memory * NS_PER_S)), UNLIMITED_BYTES)


def _is_run(row: Row) -> bool:
    return "cycles_ns" in row or all(isinstance(row.get(key), dict) for key in ("workload", "system", "network"))


ROW_KINDS.register("cosmic_runs")(RowKind(_is_run, predict_cosmic_run, COSMIC_RUN_KEYS))
