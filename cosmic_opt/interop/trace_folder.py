"""A whole traced workload: one Chakra trace per NPU and the communicator groups, in a folder or a `.tar.xz`.

Files are `NAME.RANK.et` for ranks 0 to n - 1, and one `*.json` of communicator groups where there are any. An
archive is read without writing its files; its members are read one at a time.
"""

from __future__ import annotations

import json
import lzma
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.interop.astra_sim import communicator_groups
from cosmic_opt.interop.chakra import read_operations, trace_bytes
from cosmic_opt.simulation.replay.trace import WORKLOAD_READERS, Operation, TraceWorkload

TRACE_NAME = re.compile(r"(?:.*/)?([^/]*)\.(\d{1,7})\.et")
MOST_TRACES = 2**16
MOST_OPERATIONS = 2**22
"""Of all traces together; more are refused while reading."""
MOST_GROUP_BYTES = 2**26
GROUPS_FILE = "comm_groups.json"

Open = Callable[[], IO[bytes]]


@WORKLOAD_READERS.register("chakra")
def read_workload(path: Path | str) -> TraceWorkload:
    """Return the workload in a folder or archive.

    Raises:
        SpecError: there is no such folder or archive, traces are missing, or one is malformed.
        LimitError: there are too many operations.
    """
    path = Path(path)
    if path.is_dir():
        return _workload({str(file): _opener(file) for file in sorted(path.rglob("*")) if file.is_file()}, str(path))
    if not path.is_file():
        raise SpecError("there are no traces here", where=Where(file=str(path)), hint="name a folder or a .tar.xz")
    with _archive(path) as files:
        return _workload(files, str(path))


def _opener(file: Path) -> Open:
    return lambda: file.open("rb")


@contextmanager
def _archive(path: Path) -> Iterator[Mapping[str, Open]]:
    """Open the regular files of a tar archive by name."""
    hint = "name a folder of traces, or a .tar.xz of one"
    try:
        with tarfile.open(path) as archive:
            members = {f"{path}/{member.name}": member for member in archive if member.isfile()}
            yield {name: _extractor(archive, member) for name, member in members.items()}
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise SpecError(f"the archive cannot be read: {error}", where=Where(file=str(path)), hint=hint) from error


def _extractor(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Open:
    return lambda: cast("IO[bytes]", archive.extractfile(member))


def _workload(files: Mapping[str, Open], place: str) -> TraceWorkload:
    named = [(name, match) for name in files if (match := TRACE_NAME.fullmatch(name))]
    traces = {int(match.group(2)): name for name, match in named}
    if len(traces) < len(named) or set(traces) != set(range(len(traces))) or not traces:
        raise SpecError(
            f"there are {len(named)} traces, which are not NAME.0.et to NAME.{max(len(named) - 1, 0)}.et",
            where=Where(file=place),
            hint="give one trace per NPU and nothing else",
        )
    if len(traces) > MOST_TRACES:
        raise LimitError("there are too many traces", where=Where(file=place), hint=f"at most {MOST_TRACES:,}")
    groups = dict[str, tuple[int, ...]]()
    for name in (name for name in files if name.endswith(".json")):
        with files[name]() as stream:
            groups.update(communicator_groups(_bounded(stream, name), name, len(traces)))
    ranks, total = list[tuple[Operation, ...]](), 0
    for rank in range(len(traces)):
        with files[traces[rank]]() as stream:
            ranks.append(read_operations(cast(BinaryIO, stream), traces[rank]))
        total += len(ranks[-1])
        if total > MOST_OPERATIONS:
            raise LimitError(
                "the traces have too many operations", where=Where(file=place), hint=f"at most {MOST_OPERATIONS:,}"
            )
    return TraceWorkload(tuple(ranks), groups)


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
