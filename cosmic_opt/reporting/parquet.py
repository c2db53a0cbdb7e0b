"""Designs as a Parquet data set: a folder of parts, each written beside its place and renamed whole.

A part's name carries the rank of its first design, and every part but the last holds the same number, so that a
killed run goes on where its last whole part ends, with no design lost or repeated. Columns are dictionary-encoded:
the stored index is the code, the dictionary holds values in base units or categories.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet

if TYPE_CHECKING:
    import pyarrow as pa

PART_DESIGNS = 1 << 18
MANIFEST = "_cosmic_opt.json"
SCHEMA = "cosmic-opt/designs@1"


def digest_of(parameter_set: ParameterSet) -> str:
    """Return a hash of what decides which designs there are and their order: columns, values, rules and data."""
    columns = [(column.name, [str(value) for value in column.values]) for column in parameter_set.columns]
    rules = [(rule.name, rule.text) for rule in parameter_set.constraints]
    data = sorted((name, str(value)) for name, value in parameter_set.data.items())
    return hashlib.sha256(json.dumps([columns, rules, data]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PartFolder:
    """A data set being written. `size` is the number of designs of the problem."""

    path: Path
    parameter_set: ParameterSet
    size: int

    def open(self, *, resume: bool) -> int:
        """Make the folder, or check that it holds the same problem; return the first rank that is still missing.

        Raises:
            SpecError: the folder exists and `resume` is off, holds another problem, or cannot be written.
        """
        where = Where("--out")
        digest = digest_of(self.parameter_set)
        manifest = {"schema": SCHEMA, "problem": digest, "designs": str(self.size), "part": PART_DESIGNS}
        try:
            if not resume or not self.path.exists():
                self.path.mkdir()
                (self.path / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
                return 0
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileExistsError:
            hint = "add --resume to go on with it, or give another name"
            raise SpecError(f"{str(self.path)!r} exists", where=where, hint=hint) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a folder of designs"
            raise SpecError(f"cannot use {str(self.path)!r}: {reason}", where=where, hint="give another name") from None
        if found != manifest:
            hint = "the instance, its rules and every option must be those of the first run"
            raise SpecError(f"{str(self.path)!r} holds the designs of another problem", where=where, hint=hint)
        return self._clean()

    def _clean(self) -> int:
        """Remove what a killed run left half written; return the rank after the last whole part."""
        for leftover in self.path.glob(".*.tmp"):
            leftover.unlink()
        ranks = sorted(int(part.stem.partition("-")[2]) for part in self.path.glob("part-*.parquet"))
        expected = [position * PART_DESIGNS for position in range(len(ranks))]
        if ranks != expected:
            missing = next(rank for rank in expected if rank not in ranks)
            hint = "write to another folder"
            raise SpecError(f"the part of rank {missing:,} is missing", where=Where("--out"), hint=hint)
        if not ranks:
            return 0
        last = self.path / self._name(ranks[-1])
        if _rows_of(last) < min(PART_DESIGNS, self.size - ranks[-1]):
            last.unlink()  # a run with a smaller --limit ended inside this part
            return ranks[-1]
        return min(self.size, ranks[-1] + PART_DESIGNS)

    @staticmethod
    def _name(rank: int) -> str:
        return f"part-{rank:020d}.parquet"

    def write(self, rank: int, batch: DesignBatch) -> None:
        """Write the part that starts at `rank`: whole, or not at all.

        Raises:
            SpecError: the folder cannot be written, or the disk is full.
        """
        import pyarrow.parquet as parquet  # half a second to load

        temporary = self.path / f".{self._name(rank)}.tmp"
        try:
            parquet.write_table(arrow_table(batch), temporary, compression="zstd", write_statistics=False)
            temporary.replace(self.path / self._name(rank))
        except OSError as error:
            temporary.unlink(missing_ok=True)
            hint = "free some space and add --resume: whole parts are kept"
            raise SpecError(
                f"cannot write to {str(self.path)!r}: {error.strerror or error}", where=Where("--out"), hint=hint
            ) from None


def _rows_of(path: Path) -> int:
    import pyarrow.parquet as parquet

    try:
        return int(parquet.ParquetFile(path).metadata.num_rows)
    except (OSError, ValueError):
        return 0


def arrow_table(batch: DesignBatch) -> pa.Table:
    """Return designs as an Arrow table with dictionary columns."""
    import pyarrow as pa

    arrays = []
    for position, column in enumerate(batch.parameter_set.columns):
        narrow = np.int8 if len(column.values) <= 127 else np.int32
        codes = pa.array(batch.codes[:, position].astype(narrow))
        arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(list(column.values))))
    return pa.Table.from_arrays(arrays, names=list(batch.parameter_set.positions))


def parts(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the (first, last + 1) ranks of the parts between two ranks; parts start at multiples of their size."""
    while start < stop:
        end = min(stop, (start // PART_DESIGNS + 1) * PART_DESIGNS)
        yield start, end
        start = end
