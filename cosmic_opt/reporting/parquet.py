"""Designs as Parquet: a folder of parts, each written beside its place and renamed whole, or one file of samples.

A part's name carries the first rank it speaks of and its metadata the rank after the last; parts are cut at multiples
of one size, so that a killed run goes on where its last whole part ends, with no design lost or repeated. Parameters
are dictionary-encoded: the stored index is the code, the dictionary holds values in base units or categories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.design_source import Block, spans
from cosmic_opt.reporting.line_file import Position
from cosmic_opt.reporting.metric_columns import MetricColumn

if TYPE_CHECKING:
    import pyarrow as pa

PART_DESIGNS = 1 << 18
MANIFEST = "_cosmic_opt.json"
OUT = Where("--out")
LAST = b"cosmic_opt.last"
"""Metadata of a part: the rank after the last that it speaks of."""


@dataclass(frozen=True)
class PartFolder:
    """A data set being written, from rank `start` on. `size` is the number of ranks of the problem."""

    path: Path
    manifest: Mapping[str, object]
    start: int
    size: int
    chunk: int = PART_DESIGNS

    def open(self, *, resume: bool) -> Position:
        """Make the folder, or check that it holds the same problem; return the first rank that is still missing.

        Raises:
            SpecError: the folder exists and `resume` is off, holds another problem, or cannot be written.
        """
        manifest = {**self.manifest, "part": self.chunk}
        try:
            if self.path.exists() and not self.path.is_dir():
                raise SpecError(
                    f"cannot use {str(self.path)!r}: it is a file, no folder", where=OUT, hint="give another name"
                )
            if not resume or not self.path.exists():
                self.path.mkdir()
                (self.path / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
                return Position(self.start, 0, 0, self.start)
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            if found == manifest:
                return self._reopen()
        except FileExistsError:
            hint = "add --resume to go on with it, or give another name"
            raise SpecError(f"{str(self.path)!r} exists", where=OUT, hint=hint) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a folder of designs"
            hint = "give another name: only a folder that 'enumerate' made can go on"
            raise SpecError(f"cannot use {str(self.path)!r}: {reason}", where=OUT, hint=hint) from None
        hint = "the instance, its rules and every option must be those of the first run"
        raise SpecError(f"{str(self.path)!r} holds the designs of another problem", where=OUT, hint=hint)

    def _reopen(self) -> Position:
        """Remove what a killed run left half written; return where the last whole part ends."""
        for leftover in self.path.glob(".part-*.tmp"):
            leftover.unlink()
        names = sorted(part.name for part in self.path.glob("part-*.parquet"))
        expected = list(islice(spans(self.start, self.size, self.chunk), len(names)))
        for at, name in enumerate(names):
            if at >= len(expected) or name != self._name(expected[at][0]):
                where, hint = Where(str(self.path / name)), "move it away, or write to another folder"
                raise SpecError("a part is missing before this one, or it is none of ours", where=where, hint=hint)
        rank, designs = self.start, 0
        for name, (_, end) in zip(names, expected, strict=True):
            last, rows = _ranks_and_rows(self.path / name)
            if last < end:  # a run with a smaller --limit ended inside this part: it is written again
                return Position(rank, designs, designs + rows, last)
            rank, designs = end, designs + rows
        return Position(rank, designs, designs, rank)

    @staticmethod
    def _name(rank: int) -> str:
        return f"part-{rank:020d}.parquet"

    def add(self, block: Block, designs: int) -> None:
        """Write the part of a block: whole, or not at all. There are `designs` before it.

        Raises:
            SpecError: the folder cannot be written, or the disk is full.
        """
        del designs  # each part counts its own
        table = arrow_table(block.batch, block.metrics).replace_schema_metadata({LAST: str(block.last)})
        hint = "free some space and add --resume: whole parts are kept"
        write_whole(table, self.path / self._name(block.first), hint)

    def finish(self) -> None:
        """Nothing is left to do: every part is in its place."""

    def discard(self) -> None:
        """Remove what was begun: there is no design."""
        for part in (*self.path.glob("part-*.parquet"), self.path / MANIFEST):
            part.unlink()
        self.path.rmdir()


def write_whole(table: pa.Table, path: Path, hint: str) -> None:
    """Write a table beside its place and move it there.

    Raises:
        SpecError: the folder cannot be written, or the disk is full.
    """
    import pyarrow.parquet as parquet  # half a second to load

    temporary = path.with_name(f".{path.name}.tmp")
    try:
        parquet.write_table(table, temporary, compression="zstd", write_statistics=False)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SpecError(f"cannot write {str(path)!r}: {error.strerror or error}", where=OUT, hint=hint) from None


def _ranks_and_rows(path: Path) -> tuple[int, int]:
    """Return the rank after the last that a part speaks of, and its number of designs.

    Raises:
        SpecError: the file is no part of ours.
    """
    import pyarrow.parquet as parquet

    try:
        metadata = parquet.read_metadata(path)
        return int(metadata.metadata[LAST]), int(metadata.num_rows)
    except (OSError, ValueError, KeyError, TypeError):
        hint = "remove it and add --resume: it is written again"
        raise SpecError("this is not a whole part of ours", where=Where(str(path)), hint=hint) from None


def arrow_table(batch: DesignBatch, metrics: Sequence[MetricColumn] = ()) -> pa.Table:
    """Return designs as an Arrow table: dictionary columns, then metrics, null where not known."""
    import pyarrow as pa

    arrays = []
    for position, column in enumerate(batch.parameter_set.columns):
        narrow = np.int8 if len(column.values) <= 127 else np.int32
        codes = pa.array(batch.codes[:, position].astype(narrow))
        arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(list(column.values))))
    arrays += [pa.array(column.values, mask=~column.known) for column in metrics]
    return pa.Table.from_arrays(arrays, names=[*batch.parameter_set.positions, *(column.name for column in metrics)])
