"""ASTRA-sim's reference rows: what a row describes, and what its two analytical backends report for it, in ns.

Units are ASTRA-sim's own: network bandwidth in 2^30 B/s, memory bandwidth in 10^9 B/s, latencies in ns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError, Where
from cosmic_opt.simulation.collective.astra_sim import AstraCase, AstraTiming, run_case
from cosmic_opt.simulation.replay import WORKLOAD_READERS, ReplayMachine, ReplayResult, TraceWorkload, replay

Row = Mapping[str, Any]
Prediction = tuple[float | None, str | None]
"""What is predicted, and a note; without a prediction the note says why."""
Traces = Callable[[str], TraceWorkload]

TOPOLOGY_NAMES = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switch"}
COLLECTIVE_NAMES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllToAll": "all_to_all",
}
MULTIDIM_NAMES = {"baseline": "baseline", "localBWAware": "blueconnect"}
SCHEDULING_NAMES = ("LIFO", "FIFO", "EXPLICIT")
PROFILES = {"unaware": "astra_sim", "aware": "astra_sim_aware"}
TRACE_FORMAT = "chakra"
ARCHIVES = ("", ".tar.xz", ".tar.gz", ".tar")
KEPT_WORKLOADS = 2
"""Workloads in memory at a time; rows of one workload stand together."""
MOST_REPLAYED = 2**21
"""Operations of all NPUs of a workload that is replayed, a minute or so."""


def predict_collective(record: Row, measured: float | None) -> Prediction:
    """Return the time of one collective."""
    try:
        profile = _translate("backend", _get(record, "backend"), PROFILES)
        timing = _run(astra_case(record), profile)
    except (InfeasibleError, LimitError) as error:
        return None, error.message
    except SpecError as error:
        return None, _unread(error)
    if "time_ns" not in record:
        return timing.time_ns, "the row has no 'time_ns'"
    if measured is None:
        return None, f"ASTRA-sim gave no time: {_crash(record)}"
    return timing.time_ns, _first_npu_note(record, timing)


def _unread(error: SpecError) -> str:
    hint = f" ({error.hint})" if error.hint else ""
    return f"the row cannot be read: {error.message}{hint}"


def _run(case: AstraCase, profile: str) -> AstraTiming:
    if profile == "astra_sim":
        return run_case(case)
    from cosmic_opt.simulation.collective.astra_sim.aware import run_aware_case  # compiled: loaded where it is used

    return run_aware_case(case)


def traces_in(folder: Path) -> Traces:
    """Return how to find the workload of a name: the folder or archive of that name in `folder`."""

    @lru_cache(maxsize=KEPT_WORKLOADS)
    def read(name: str) -> TraceWorkload:
        if not name or Path(name).name != name:
            raise SpecError(f"{name!r} is not the name of a workload", hint="write a plain name")
        for ending in ARCHIVES:
            if (folder / f"{name}{ending}").exists():
                return WORKLOAD_READERS.get(TRACE_FORMAT)(folder / f"{name}{ending}")
        raise SpecError(
            f"there are no traces of {name!r}", where=Where(str(folder)), hint=f"add {name}/ or {name}.tar.xz"
        )

    return read


def predict_workload(record: Row, measured: float | None, traces: Traces | None) -> Prediction:
    """Return when the last NPU finishes a traced workload; the note names any other time that differs."""
    if traces is None:
        return None, "the row needs the traces of its workload: give --traces"
    try:
        workload = traces(str(_get(record, "workload")))
        machine = replay_machine(record)
        if workload.operations > MOST_REPLAYED:
            return None, f"{workload.operations:,} operations are too many to replay: at most {MOST_REPLAYED:,}"
        result = replay(workload, machine)
    except (InfeasibleError, LimitError) as error:
        return None, error.message
    except SpecError as error:
        return None, _unread(error)
    return result.time_ns, _difference(record, result)


def _difference(record: Row, result: ReplayResult) -> str | None:
    predicted = {"first_npu_time_ns": result.first_npu_time_ns}
    for name, times in (
        ("exposed_comm", [npu.exposed_communication_ns for npu in result.npus]),
        ("compute_busy", [npu.compute_ns for npu in result.npus]),
        ("comm_busy", [npu.communication_ns for npu in result.npus]),
    ):
        predicted[f"{name}_ns_max"], predicted[f"{name}_ns_min"] = max(times), min(times)
    wrong = [
        f"{key} is predicted to be {value}, measured {record[key]}"
        for key, value in predicted.items()
        if record.get(key) is not None and record[key] != value
    ]
    return "; ".join(wrong) or None


def _crash(record: Row) -> str:
    """Return why ASTRA-sim may have failed on an input that its algorithms can finish."""
    if record.get("failure"):
        return str(record["failure"])
    if "direct" in str(record.get("algorithm_per_dim")) and record.get("collective") == "AllReduce":
        return "a direct all-reduce over unequal distances corrupts its heap"
    if record.get("comm_groups"):
        return "communicator groups that share a one-entry implementation list are freed twice"
    return "the row states no reason"


def _first_npu_note(record: Row, timing: AstraTiming) -> str | None:
    first = record.get("first_npu_time_ns")
    if first is None or first == timing.first_npu_time_ns:
        return None
    return f"the first NPU is predicted to finish at {timing.first_npu_time_ns} ns, measured {first} ns"


def replay_machine(record: Row) -> ReplayMachine:
    """Return the machine that a row of workload runs describes: one list of algorithms for all collectives.

    Raises:
        SpecError: a key is missing (the message names it), or a value means nothing.
    """
    _check_scheduling(record)
    algorithms = _list(record, "algorithm_per_dim")
    return ReplayMachine(
        topologies=tuple(_translate("topology", name, TOPOLOGY_NAMES) for name in _list(record, "topology")),
        npus_per_dim=_list(record, "npus_per_dim"),
        bandwidth_gib_per_s=_list(record, "bandwidth_GBps"),
        latency_ns=_list(record, "latency_ns"),
        algorithms=dict.fromkeys(COLLECTIVE_NAMES.values(), algorithms),
        chunks=_get(record, "chunks"),
        active_chunks=_get(record, "active_chunks_per_dim"),
        multidim=_translate("optimization", _get(record, "optimization"), MULTIDIM_NAMES),
        endpoint_delay_ns=_get(record, "endpoint_delay_ns"),
        memory_gb_per_s=_get(record, "local_mem_bw_GBps"),
        peak_tflops=_get(record, "peak_perf_TFLOPS"),
        profile=_translate("backend", _get(record, "backend"), PROFILES),
    )


def astra_case(record: Row) -> AstraCase:
    """Return the case that a row of reference runs describes. The scheduling policy has no effect on one collective.

    Raises:
        SpecError: a key is missing (the message names it), or a value means nothing.
    """
    _check_scheduling(record)
    flags = record.get("involved_dims")
    return AstraCase(
        topologies=tuple(_translate("topology", name, TOPOLOGY_NAMES) for name in _list(record, "topology")),
        npus_per_dim=_list(record, "npus_per_dim"),
        bandwidth_gib_per_s=_list(record, "bandwidth_GBps"),
        latency_ns=_list(record, "latency_ns"),
        algorithms=_list(record, "algorithm_per_dim"),
        collective=_translate("collective", _get(record, "collective"), COLLECTIVE_NAMES),
        size_bytes=_get(record, "bytes"),
        chunks=_get(record, "chunks"),
        active_chunks=_get(record, "active_chunks_per_dim"),
        multidim=_translate("optimization", _get(record, "optimization"), MULTIDIM_NAMES),
        endpoint_delay_ns=_get(record, "endpoint_delay_ns"),
        memory_gb_per_s=_get(record, "local_mem_bw_GBps"),
        involved_dims=None if flags is None else _list(record, "involved_dims"),
        groups=_groups(record),
    )


def _check_scheduling(record: Row) -> None:
    """Refuse an order that ASTRA-sim does not have; those that it has do not change these times."""
    if "scheduling" in record and record["scheduling"] not in SCHEDULING_NAMES:
        raise SpecError(f"'scheduling' is {record['scheduling']!r}", hint=f"known: {', '.join(SCHEDULING_NAMES)}")


def _get(record: Row, key: str) -> Any:
    if key not in record:
        raise SpecError(f"the row has no {key!r}", hint=f"add {key!r}")
    return record[key]


def _list(record: Row, key: str) -> tuple[Any, ...]:
    value = _get(record, key)
    if not isinstance(value, list):
        raise SpecError(f"{key!r} is {value!r}", hint="write a list")
    return tuple(value)


def _groups(record: Row) -> tuple[tuple[int, ...], ...]:
    if record.get("comm_groups") is None:
        return ()
    groups = _list(record, "comm_groups")
    if not all(isinstance(group, list) for group in groups):
        raise SpecError("'comm_groups' is not a list of lists", hint="write [[0, 1], [2, 3]]")
    return tuple(tuple(group) for group in groups if group)


def _translate(key: str, value: object, names: Mapping[str, str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise SpecError(f"{key!r} is {value!r}", hint=f"known: {', '.join(names)}")
    return names[value]
