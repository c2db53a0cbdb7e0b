"""Writes a complete ASTRA-sim run of one design of a training instance: `export_astra_sim`.

Every NPU has its trace; a stage is encoded once and filled in NPU by NPU, so that memory does not grow with the number
of NPUs. The folder appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import CosmicError, LimitError, SpecError, Where
from cosmic_opt.interop.chakra import encode_operation, trace_header
from cosmic_opt.interop.export_files import machine_of, memory_text, network_text, policy_of, system_text
from cosmic_opt.interop.export_groups import CommunicatorGroups, Placement, extents_of
from cosmic_opt.interop.export_readme import readme_text
from cosmic_opt.interop.export_trace import Shapes, differs, filled, stage_operations
from cosmic_opt.interop.trace_folder import GROUPS_FILE, check_size
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.score import analytical_of, simulator_of
from cosmic_opt.simulation.analytical.inputs import DEFAULTS
from cosmic_opt.simulation.replay import Operation, ReplayMachine, TraceWorkload, replay
from cosmic_opt.workloads.graph import TrainingGraph, training_graph
from cosmic_opt.workloads.parallelism import Parallelism
from cosmic_opt.workloads.training import OFFLOADS, training_job

MOST_NPUS = 2**16
MOST_BYTES = 2**35
"""Of all traces together; more are refused before anything is written."""
MOST_REPLAYED = 2**18
"""Operations of all NPUs up to which the export says what ASTRA-sim will report."""
WORKLOAD, TRACE = "workload", "trace"
SMALLER = "export fewer: --set layers=4, --set global_batch=..., or a smaller system"


@dataclass(frozen=True)
class AstraSimRun:
    """A design as ASTRA-sim runs it.

    Attributes:
        name: Of the instance.
        policy: fifo or lifo, without effect there.
    """

    name: str
    machine: ReplayMachine
    policy: str
    placement: Placement
    graph: TrainingGraph
    shapes: Shapes

    @cached_property
    def groups(self) -> CommunicatorGroups:
        """The communicator groups that the placement needs."""
        return CommunicatorGroups.of(self.placement)

    @cached_property
    def stages(self) -> tuple[tuple[Operation, ...], ...]:
        """The template of each pipeline stage.

        Raises:
            LimitError: a trace is too long.
        """
        return tuple(
            stage_operations(self.graph, stage, self.shapes, self.placement) for stage in range(len(self.graph.stages))
        )

    @property
    def operations(self) -> int:
        """The operations of all NPUs together."""
        return sum(map(len, self.stages)) * (self.placement.npus // len(self.stages))

    @property
    def distinct(self) -> int:
        """The operations of all NPUs that differ from each other, counting those of two stages apart."""
        each = self.placement.npus // len(self.stages)
        return sum(self._variants(operation, each) for stage in self.stages for operation in stage)

    def _variants(self, operation: Operation, each: int) -> int:
        if not differs(operation):
            return 1
        return each // self.placement.degree(operation.group) if operation.group else each

    def rank(self, rank: int) -> tuple[Operation, ...]:
        """Return the operations of one NPU."""
        return tuple(filled(operation, rank, self.groups) for operation in self.stages[self.placement.stage(rank)])

    def workload(self) -> TraceWorkload:
        """Return the traces of all NPUs, in memory."""
        return TraceWorkload(tuple(map(self.rank, range(self.placement.npus))), self.groups.members)

    def time_ns(self) -> int | None:
        """Return what ASTRA-sim's congestion-unaware backend reports; None for a run too large to replay here.

        Raises:
            InfeasibleError: ASTRA-sim does not bring the run to an end; the message says why.
        """
        if self.operations > MOST_REPLAYED:
            return None
        return replay(self.workload(), self.machine).time_ns


def astra_sim_run(instance: BoundInstance, design: DesignBatch) -> AstraSimRun:
    """Return one design of a training instance as ASTRA-sim runs it.

    Raises:
        SpecError: one NPU, or interleaved stages or offloading, which are not written; an instance with a stack.
        LimitError: more NPUs than files are written for.
    """
    analytical_of(simulator_of(instance))
    point = {**DEFAULTS, **instance.data, **instance.job, **next(design.points())}
    parallelism = Parallelism(*(int(point[name]) for name in ("dp", "tp", "pp", "sp")))
    if parallelism.npus > MOST_NPUS:
        raise LimitError(f"{parallelism.npus:,} NPUs need as many traces", hint=f"at most {MOST_NPUS:,} are written")
    job = training_job(instance.workload, point)
    if job.interleave > 1:
        raise SpecError("interleaved pipeline stages are not exported", hint="export with --fix interleave=1")
    offloaded = [name for name in OFFLOADS if getattr(job, name)]
    if offloaded:
        fixes = " ".join(f"--fix {name}=0" for name in offloaded)
        raise SpecError("traffic to host memory is not exported", hint=f"export with {fixes}")
    npus_per_dim = tuple(int(point[f"npus_per_dim[{dim}]"]) for dim in range(instance.dimensions))
    graph = training_graph(
        instance.workload,
        job,
        parallelism,
        overlap_gradients=bool(point["overlap_gradients"]),
        overlap_weights=bool(point["overlap_weights"]),
    )
    chunks, causal_half = int(point["chunks"]), bool(point["causal_half"])
    return AstraSimRun(
        name=instance.name,
        machine=machine_of(point, instance.dimensions, instance.npu),
        policy=policy_of(point),
        placement=Placement(npus_per_dim, extents_of(point, npus_per_dim)),
        graph=graph,
        shapes=Shapes(instance.workload, job, parallelism, instance.npu, chunks, causal_half),
    )


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        groups: Communicator groups.
        time_ns: What ASTRA-sim will report; None for a run too large to replay here.
        notes: What ASTRA-sim does not express of this design.
    """

    npus: int
    operations: int
    trace_bytes: int
    groups: int
    time_ns: int | None
    notes: tuple[str, ...]


def export_astra_sim(run: AstraSimRun, folder: Path, design: Mapping[str, object]) -> Exported:
    """Write `run` into a new or empty folder; `design` is what the README says of it.

    Raises:
        SpecError: the folder has files already, or cannot be written.
        InfeasibleError: ASTRA-sim would not bring the run to an end.
        LimitError: the traces are too large, for this program to write or to read back, or for the disk.
    """
    where = Where(str(folder))
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise SpecError("there is something here already", where=where, hint="name a new or an empty folder")
        check_size(run.placement.npus, run.operations, run.distinct)
        templates = [_encode(stage, run.groups) for stage in run.stages]
        size = _total_bytes(run, templates)
        _refuse_large(size, folder)
        time_ns = run.time_ns()
        readme = readme_text(run.name, run.machine, run.placement, design, time_ns)
        result = Exported(run.placement.npus, run.operations, size, len(run.groups.names), time_ns, tuple(readme.notes))
        _write_whole(run, templates, folder, readme.text)
    except OSError as error:
        raise SpecError(
            f"the folder cannot be written: {error.strerror}", where=where, hint="name a folder that you may write"
        ) from error
    return result


Template = tuple[bytes | str | Operation, ...]
"""A trace in pieces: bytes that all ranks of a stage share, roles whose groups' names go there, and messages."""


def _encode(stage: tuple[Operation, ...], groups: CommunicatorGroups) -> Template:
    pieces: list[bytes | str | Operation] = []
    shared = [trace_header()]
    for operation in stage:
        if not differs(operation):
            shared.append(encode_operation(operation))
            continue
        if operation.group:  # names are equally long, and the last bytes of an operation
            named = filled(operation, 0, groups)
            encoded = encode_operation(named)
            assert encoded.endswith(named.group.encode()), "the name of a group comes last"
            pieces += [b"".join(shared) + encoded[: -len(named.group)], operation.group]
        else:
            pieces += [b"".join(shared), operation]
        shared = []
    return (*pieces, b"".join(shared))


def _pieces(template: Template, rank: int, groups: CommunicatorGroups) -> Iterator[bytes]:
    names = {role: groups.name(rank, role).encode() for role in groups.roles}
    for piece in template:
        if isinstance(piece, bytes):
            yield piece
        elif isinstance(piece, str):
            yield names[piece]
        else:
            yield encode_operation(filled(piece, rank, groups))


def _total_bytes(run: AstraSimRun, templates: list[Template]) -> int:
    """Return the bytes of all traces, counting each stage as its first rank's."""
    first = {run.placement.stage(rank): rank for rank in reversed(range(run.placement.npus))}
    sizes = [sum(map(len, _pieces(template, first[at], run.groups))) for at, template in enumerate(templates)]
    return sum(sizes) * (run.placement.npus // len(templates))


def _refuse_large(size: int, folder: Path) -> None:
    if size > MOST_BYTES:
        raise LimitError(f"the traces would take {size:,} bytes", hint=f"at most {MOST_BYTES:,} are written: {SMALLER}")
    beside = next(parent for parent in folder.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(beside).free
    if size > free:
        raise LimitError(f"the traces take {size:,} bytes, and the disk has {free:,} left", hint=SMALLER)


def _write_whole(run: AstraSimRun, templates: list[Template], folder: Path, readme: str) -> None:
    """Write beside the place and move there, so that a run that was stopped leaves no half of one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(mkdtemp(prefix=f".{folder.name[:100]}.", suffix=".part", dir=folder.parent))
    try:
        (beside / WORKLOAD).mkdir()
        for rank in range(run.placement.npus):
            with (beside / WORKLOAD / f"{TRACE}.{rank}.et").open("wb") as file:
                file.writelines(_pieces(templates[run.placement.stage(rank)], rank, run.groups))
        members = {name: list(npus) for name, npus in run.groups.members.items()}
        (beside / WORKLOAD / GROUPS_FILE).write_text(json.dumps(members) + "\n", encoding="utf-8")
        texts = {
            "network.yml": network_text(run.machine),
            "system.json": system_text(run.machine, run.policy),
            "memory.json": memory_text(),
            "README.md": readme,
        }
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8")
        beside.chmod(0o777 & ~_umask())
        beside.replace(folder)
    except (OSError, CosmicError, KeyboardInterrupt):
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
