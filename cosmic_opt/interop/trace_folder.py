"""A whole traced workload: one Chakra trace per NPU and the communicator groups, in a folder or a `.tar.xz`.

Files are `NAME.RANK.et` for ranks 0 to n - 1, and one `*.json` of communicator groups where there are any. An
archive is read without writing its files; its members are read one at a time.
"""

from __future__ import annotations

import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.interop.astra_sim import communicator_groups
from cosmic_opt.interop.chakra import read_operations, trace_bytes
from cosmic_opt.simulation.replay.trace import WORKLOAD_READERS, Operation, TraceWorkload

TRACE_NAME = re.compile(r".*\.(\d{1,7})\.et")
MOST_TRACES = 2**16
MOST_OPERATIONS = 2**28
MOST_DISTINCT = 2**22
"""Of all traces together, and those that differ from each other; more are refused while reading."""
MOST_GROUP_BYTES = 2**26
GROUPS_FILE = "comm_groups.json"

File = tuple[str, IO[bytes]]
"""The name of a file and its content."""


@WORKLOAD_READERS.register("chakra")
def read_workload(path: Path | str) -> TraceWorkload:
    """Return the workload in a folder or archive.

    Raises:
        SpecError: there is no such folder or archive, traces are missing, or one is malformed.
        LimitError: there are too many operations.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _workload(_folder(path), str(path))
        if not path.is_file():
            raise SpecError("there are no traces here", where=Where(file=str(path)), hint="name a folder or a .tar.xz")
        with tarfile.open(path) as archive:
            return _workload(_archive(archive, path), str(path))
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise SpecError(
            f"the traces cannot be read: {error}",
            where=Where(file=str(path)),
            hint="name a folder of traces, or a .tar.xz of one",
        ) from error


def _folder(path: Path) -> Iterator[File]:
    for file in sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as stream:
                yield str(file), stream


def _archive(archive: tarfile.TarFile, path: Path) -> Iterator[File]:
    """Yield the regular files in the order of the archive: going back would unpack it again."""
    for member in archive:
        stream = archive.extractfile(member) if member.isfile() else None
        if stream is not None:
            yield f"{path}/{member.name}", stream


def _workload(files: Iterator[File], place: str) -> TraceWorkload:
    ranks, documents = dict[int, tuple[Operation, ...]](), dict[str, bytes]()
    known, total = dict[bytes, Operation](), 0
    for name, stream in files:
        match = TRACE_NAME.fullmatch(name)
        if name.endswith(".json"):
            documents[name] = _bounded(stream, name)
        elif match is not None:
            rank = int(match.group(1))
            if rank in ranks:
                raise SpecError(f"a second trace of NPU {rank}", where=Where(file=name), hint="give one per NPU")
            ranks[rank] = read_operations(cast(BinaryIO, stream), name, known)
            total += len(ranks[rank])
            check_size(len(ranks), total, len(known), Where(file=place))
    if not ranks or set(ranks) != set(range(len(ranks))):
        raise SpecError(
            f"there are {len(ranks)} traces, which are not NAME.0.et to NAME.{max(len(ranks) - 1, 0)}.et",
            where=Where(file=place),
            hint="give one trace per NPU, numbered from 0",
        )
    groups = dict[str, tuple[int, ...]]()
    for name, data in documents.items():
        groups.update(communicator_groups(data, name, len(ranks)))
    return TraceWorkload(tuple(ranks[rank] for rank in range(len(ranks))), groups)


def check_size(traces: int, operations: int, distinct: int, where: Where | None = None) -> None:
    """Refuse a workload that is too large to be held, be it read or exported.

    Raises:
        LimitError: says how large it may be.
    """
    if traces > MOST_TRACES or operations > MOST_OPERATIONS or distinct > MOST_DISTINCT:
        raise LimitError(
            f"the workload is too large: {traces:,} traces, {operations:,} operations, {distinct:,} different ones",
            where=where,
            hint=f"at most {MOST_TRACES:,} traces, {MOST_OPERATIONS:,} operations, {MOST_DISTINCT:,} different ones",
        )


def _bounded(stream: IO[bytes], name: str) -> bytes:
    data = stream.read(MOST_GROUP_BYTES + 1)
    if len(data) > MOST_GROUP_BYTES:
        raise LimitError("the file is too long", where=Where(file=name), hint=f"at most {MOST_GROUP_BYTES:,} bytes")
    return data


def write_workload(folder: Path | str, workload: TraceWorkload, name: str = "trace") -> None:
    """Write one trace per NPU and the communicator groups into a new or empty folder.

    Raises:
        SpecError: the folder has files already, or cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SpecError("the folder is not empty", where=Where(file=str(folder)), hint="name a new folder")
        for rank, operations in enumerate(workload.ranks):
            (folder / f"{name}.{rank}.et").write_bytes(trace_bytes(operations))
        groups = {group: list(npus) for group, npus in workload.groups.items()}
        (folder / GROUPS_FILE).write_text(json.dumps(groups), encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"the folder cannot be written: {error.strerror}", where=Where(file=str(folder)), hint="name a new folder"
        ) from error
