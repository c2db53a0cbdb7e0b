"""The numbers an instance gives by name: what may be set, in which unit, within which range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosmic_opt.catalog.board_power import MOST_WATTS
from cosmic_opt.catalog.calibrated_names import read_software
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.job_kinds import INFERENCE, JobKind
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.multidim import SCHEMES
from cosmic_opt.system.price import MOST_DEVICE_DOLLARS, SWITCH_LINKS
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.units import Unit, missing_unit, parse, show
from cosmic_opt.workloads.placement import ORDERS
from cosmic_opt.workloads.requests import MIXES
from cosmic_opt.workloads.serving_quantities import KNOBS as SERVING_KNOBS
from cosmic_opt.workloads.serving_quantities import POOLS, knob_name
from cosmic_opt.workloads.stack import CONTEXT_EXCHANGES, GRADIENT_OVERLAPS, TENSOR_OVERLAPS
from cosmic_opt.workloads.training import ATTENTION_KERNELS, OFFLOADS, RECOMPUTE
from cosmic_opt.workloads.training_designs import FRAMEWORK_RECOMPUTE, SCHEDULES

LARGEST = 10**18


@dataclass(frozen=True, slots=True)
class Datum:
    """One settable name. `choices` lists the categories of a text datum; numbers lie in [low, high]."""

    unit: Unit = Unit.NONE
    low: int = 1
    high: int = LARGEST
    choices: tuple[str, ...] = ()
    why: str = ""

    def read(self, name: str, text: str | int | float, where: Where) -> Value:
        """Return the value that `text` spells."""
        if self.choices:
            if text not in self.choices:
                raise SpecError(
                    f"{text!r} is not a value of {name!r}", where=where, hint=f"allowed: {', '.join(self.choices)}"
                )
            return str(text)
        value = parse(int(text) if isinstance(text, bool) else text, self.unit, where=where)
        if not self.low <= value <= self.high:
            raise SpecError(f"{name} = {text} is out of range", where=where, hint=f"allowed: {self._range()}")
        return value

    def _range(self) -> str:
        """Return the least and the greatest number, with their units."""
        if self.unit is Unit.NONE:
            return f"{self.low} to {self.high}"
        return f"{show(self.low, self.unit)} to {show(self.high, self.unit)}"


TRAINING_JOB: Mapping[str, Datum] = {
    "global_batch": Datum(high=10**9, why="sequences per optimizer step, over all NPUs"),
    "seq": Datum(high=10**8, why="tokens of a sequence"),
    "micro_batch": Datum(high=10**9, why="sequences one pipeline pass processes"),
    "recompute": Datum(choices=FRAMEWORK_RECOMPUTE, why="what backward runs again instead of keeping it"),
    "zero_stage": Datum(low=0, high=3, why="what is sharded over dp and sp"),
    "sequence_parallel": Datum(low=0, high=1, why="norms and residuals split over tp"),
    "interleave": Datum(high=10**6, why="pieces of consecutive layers that every pipeline stage is cut in"),
    "attention_kernel": Datum(choices=ATTENTION_KERNELS, why="flash keeps no attention scores"),
    "causal_half": Datum(low=0, high=1, why="causal attention computes half the square"),
    "overlap_gradients": Datum(low=0, high=1, why="gradient collectives run behind the backward pass"),
    "overlap_weights": Datum(low=0, high=1, why="ZeRO-3 weight gathers run behind the layer before"),
    "cosmic_layers": Datum(high=10**6, why="layers COSMIC's own footprint counts"),
}
REQUESTS: Mapping[str, Datum] = {
    "prompt": Datum(high=10**8, why="tokens of a prompt"),
    "output": Datum(high=10**8, why="tokens of an answer"),
}
MIX = Datum(choices=tuple(MIXES), why="requests that have a name; gives prompt and output")
JOB: Mapping[str, Datum] = {**TRAINING_JOB, **REQUESTS}
SYSTEM: Mapping[str, Datum] = {
    "npus": Datum(high=10**9, why="NPUs of the cluster"),
    "peak": Datum(Unit.FLOP_PER_S, why="dense peak of one NPU"),
    "memory_bandwidth": Datum(Unit.BYTES_PER_S, why="memory bandwidth of one NPU"),
    "memory_capacity": Datum(Unit.BYTES, why="memory of one NPU"),
    "host_capacity": Datum(Unit.BYTES, low=0, why="host memory for one NPU, 0 without any"),
    "host_bandwidth": Datum(Unit.BYTES_PER_S, why="link of one NPU to host memory, one direction"),
    "device_price": Datum(Unit.DOLLARS, low=0, high=MOST_DEVICE_DOLLARS, why="price of one NPU"),
    "device_power": Datum(Unit.POWER, high=MOST_WATTS, why="power of one NPU's board"),
    "price_rule": Datum(choices=tuple(SWITCH_LINKS), why="how a switch port is priced"),
    "in_network_reduction": Datum(low=0, high=1, why="whether switches add and copy messages (SHARP)"),
}
DEFAULTS: Mapping[str, Value] = {"in_network_reduction": 0}
"""Data that an instance without a stack or an engine has in any case, so that rules may name them."""
LATENCY = Datum(Unit.TIME, low=0, high=10**15, why="latency of one hop of a dimension")
KNOBS: Mapping[str, Datum] = {
    **{name: Datum(high=10**9) for name in ("dp", "tp", "pp", "sp", "cp", "ep", "chunks", "npus_per_dim")},
    **{
        name: TRAINING_JOB[name]
        for name in (
            "micro_batch",
            "recompute",
            "zero_stage",
            "sequence_parallel",
            "interleave",
            "overlap_gradients",
            "overlap_weights",
        )
    },
    **{name: Datum(low=0, high=1) for name in ("weight_sharded", *OFFLOADS)},
    **{knob_name(pool, knob): Datum(high=10**9) for pool in ("", *POOLS) for knob in SERVING_KNOBS},
    "bandwidth": Datum(Unit.BYTES_PER_S),
    "latency": LATENCY,
    "topology": Datum(choices=TOPOLOGIES.names()),
    "algorithm": Datum(choices=ALGORITHMS.names()),
    "multidim": Datum(choices=SCHEMES),
    "tensor_overlap": Datum(choices=TENSOR_OVERLAPS),
    "gradient_overlap": Datum(choices=GRADIENT_OVERLAPS),
    "context_exchange": Datum(choices=CONTEXT_EXCHANGES),
    "pipeline_schedule": Datum(choices=SCHEDULES),
    "reshard_after_forward": Datum(low=0, high=1),
    "prefetch": Datum(low=0, high=1),
    "shard_replicas": Datum(high=10**9),
    "recompute_layers": Datum(low=0, high=10**6),
    "expert_load_percent": Datum(low=100, high=10**6),
    "order": Datum(choices=ORDERS),
    "extent": Datum(high=10**9),
}
"""Parameters that quantities and the simulator read by name: what their values may be."""
PLACEMENT_KNOBS = ("order", "extent")
"""Where parallel groups lie: by a filling order, or freely. A problem opens one of them, never both."""
WORKLOAD = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocabulary")
"""Shape fields of a workload that rules may name and `set` may change."""
SHAPE = {
    **{name: Datum(high=10**9, low=int(name != "vocabulary")) for name in WORKLOAD},
    "mtp_layers": Datum(high=10**6, low=0, why="layers of multi-token prediction, which are trained and not served"),
}
"""All of them that `set` may change."""


def job_data(kind: JobKind) -> Mapping[str, Datum]:
    """Return what the job of an instance of this kind may give."""
    return {**REQUESTS, "mix": MIX} if kind is INFERENCE else TRAINING_JOB


def read_datum(kind: JobKind, name: str, text: str | int | float, where: Where) -> dict[str, Value]:
    """Return the data that one name of the job or the system gives; a mix gives its prompt and output."""
    value = {**job_data(kind), **SYSTEM}[name].read(name, text, where)
    if name != "mix":
        return {name: value}
    mix = MIXES[str(value)]
    return {"prompt": mix.prompt, "output": mix.output}


def check_knob(name: str, values: Sequence[Value], where: Where, *, calibrated: bool) -> None:
    """Refuse values without a meaning of a parameter that is read by name; any other parameter is free.

    Single modules run again only where the problem is `calibrated`, that is where a software stack decides.

    Raises:
        SpecError: the first such value, and what is allowed.
    """
    if name not in KNOBS:
        return
    datum = KNOBS[name]
    choices = RECOMPUTE if name == "recompute" and not calibrated else datum.choices
    for value in values:
        if choices and value not in choices:
            raise SpecError(f"{name!r} cannot be {value!r}", where=where, hint=f"allowed: {', '.join(choices)}")
        if not choices and not (isinstance(value, int) and datum.low <= value <= datum.high):
            hint = f"allowed: whole numbers from {datum.low} to {datum.high}"
            raise SpecError(f"{name!r} cannot be {value!r}", where=where, hint=hint)


def check_typed(text: str, unit: Unit, where: Where) -> None:
    """Refuse a number of bytes that a person typed without its unit.

    Raises:
        SpecError: it has none, and is too small to be one of bytes; or it is no number.
    """
    hint = missing_unit(text, unit, where=where)
    if hint is not None:
        raise SpecError(f"{text.strip()} what?", where=where, hint=hint)


def read_setting(name: str, text: str, spec: InstanceSpec) -> dict[str, Value]:
    """Return the data that one `--set name=value` changes (a family name sets every member)."""
    where = Where(f"--set {name}")
    if family_of(name) in spec.model.parameters:
        raise SpecError(f"{name!r} is a parameter, not data", where=where, hint=f"use --fix {name}={text}")
    job, software = job_data(spec.kind), spec.kind.software
    datum = Datum(Unit.BYTES_PER_S) if family_of(name) == "bandwidth" else {**job, **SYSTEM}.get(name, Datum())
    check_typed(text, datum.unit, where)
    if name in (*job, *SYSTEM):
        return read_datum(spec.kind, name, text, where)
    shape = WORKLOAD if spec.kind is INFERENCE else tuple(SHAPE)
    if name in shape:
        return {name: SHAPE[name].read(name, text, where)}
    if name in software:
        return {name: read_software(spec.kind, name, text, where)}
    latencies = [f"latency[{d}]" for d in range(len(spec.system.dimensions))]
    if name == "latency" or name in latencies:
        value = LATENCY.read(name, text, where)
        return dict.fromkeys(latencies if name == "latency" else [name], value)
    bandwidths = [f"bandwidth[{d}]" for d in range(len(spec.system.dimensions))]
    if name in bandwidths:
        return {name: Datum(Unit.BYTES_PER_S).read(name, text, where)}
    if name in SHAPE:
        raise SpecError(f"{name!r} has no meaning here: {SHAPE[name].why}", where=where, hint="set it where one trains")
    known = [*job, *SYSTEM, *shape, *software, "latency", *latencies, *bandwidths]
    raise SpecError(f"unknown datum {name!r}", where=where, hint=nearest(name, known))
