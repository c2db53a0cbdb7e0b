"""Text files of designs that a killed run goes on with: written beside their place, moved there when complete.

What is written so far is `.NAME.part`; `.NAME.state` says, after every block, how much of it counts. Both are there
only while the file is not complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.feasibility.feasible_set import CHUNK
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.design_source import Block
from cosmic_opt.reporting.metric_columns import MetricColumn

Encode = Callable[[DesignBatch, Sequence[MetricColumn]], str]


@dataclass(frozen=True)
class Position:
    """How far a file of designs is: the rank to go on writing at, and the designs before it.

    Where the block that begins at `rank` is there in part, and written again, `held` counts its designs too, and
    `reached` is the rank after the last of them; else it is `rank`.
    """

    rank: int
    designs: int
    held: int
    reached: int


@dataclass(frozen=True)
class LineFile:
    """A text file being written: `encode` gives the lines of designs, `header` those before the first."""

    path: Path
    manifest: Mapping[str, object]
    start: int
    encode: Encode
    header: str = ""
    chunk: int = CHUNK

    @property
    def part(self) -> Path:
        """Where the lines are until they are complete."""
        return self.path.with_name(f".{self.path.name}.part")

    @property
    def state(self) -> Path:
        """Where it says how much of `part` counts."""
        return self.path.with_name(f".{self.path.name}.state")

    def open(self, *, resume: bool) -> Position:
        """Begin, or (`resume`) cut what a stopped run left half written, and return where to go on.

        Raises:
            SpecError: the folder cannot be written, or what is there is of another problem or no such file.
        """
        try:
            if resume and self.state.exists():
                return self._reopen()
            self.part.write_text(self.header, encoding="utf-8", newline="")
        except OSError as error:
            raise self._refused(error) from None
        self._note(Position(self.start, 0, 0, self.start))
        return Position(self.start, 0, 0, self.start)

    def _reopen(self) -> Position:
        where = Where("--resume")
        try:
            found = json.loads(self.state.read_text(encoding="utf-8"))
            rank, designs, size = int(found["rank"]), int(found["designs"]), int(found["bytes"])
            problem = found["manifest"]
        except (ValueError, KeyError, TypeError):
            hint = "remove it, or give another name"
            raise SpecError(f"{str(self.state)!r} is not a state of ours", where=where, hint=hint) from None
        if problem != self.manifest:
            hint = "give the options of the first run, or another name"
            raise SpecError(f"{str(self.part)!r} holds the designs of another problem", where=where, hint=hint)
        if not self.part.exists() or self.part.stat().st_size < size:
            hint = f"remove {str(self.state)!r} to begin again"
            raise SpecError(f"{str(self.part)!r} is shorter than its state says", where=where, hint=hint)
        os.truncate(self.part, size)
        return Position(rank, designs, designs, rank)

    def add(self, block: Block, designs: int) -> None:
        """Append a block; there are `designs` before it.

        Raises:
            SpecError: the disk is full.
        """
        try:
            with self.part.open("a", encoding="utf-8", newline="") as file:
                file.write(self.encode(block.batch, block.metrics))
            done = designs + len(block.batch)
            self._note(Position(block.last, done, done, block.last))
        except OSError as error:
            raise self._refused(error) from None

    def _note(self, position: Position) -> None:
        """Write down that all of `part` counts, whole or not at all."""
        keys = {
            "manifest": self.manifest,
            "rank": str(position.rank),
            "designs": str(position.designs),
            "bytes": self.part.stat().st_size,
        }
        temporary = self.state.with_name(f"{self.state.name}.tmp")
        temporary.write_text(json.dumps(keys), encoding="utf-8")
        temporary.replace(self.state)

    def finish(self) -> None:
        """Move the complete file to its place.

        Raises:
            SpecError: the disk is full.
        """
        try:
            with self.part.open("rb+") as file:
                os.fsync(file.fileno())
            self.part.replace(self.path)
            self.state.unlink()
        except OSError as error:
            raise self._refused(error) from None

    def discard(self) -> None:
        """Remove what was begun: there is no design."""
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)

    def _refused(self, error: OSError) -> SpecError:
        kept = self.state.exists()
        hint = "free some space and add --resume" if kept else "give a file in a folder you may write"
        return SpecError(f"cannot write {str(self.path)!r}: {error.strerror}", where=Where("--out"), hint=hint)
