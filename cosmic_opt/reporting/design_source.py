"""The designs of a problem in their fixed order, block by block, with what is asked to stand beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.feasibility.feasible_set import CHUNK, FeasibleSet
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.metric_columns import Measures, MetricColumn

SCHEMA = "cosmic-opt/designs@1"
MAX_TOKEN = 4000


@dataclass(frozen=True)
class Block:
    """The designs of ranks [`first`, `last`) that rules on the step allow; `offsets` are their ranks from `first`."""

    first: int
    last: int
    batch: DesignBatch
    metrics: tuple[MetricColumn, ...]
    offsets: NDArray[np.int64]

    def head(self, number: int) -> Block:
        """Return the first `number` designs; the block then ends right after the last of them."""
        if number >= len(self.batch):
            return self
        rows = slice(number)
        last = self.first + int(self.offsets[number - 1]) + 1
        metrics = tuple(column.take(rows) for column in self.metrics)
        return Block(self.first, last, self.batch.take(rows), metrics, self.offsets[rows])


@dataclass(frozen=True)
class DesignSource:
    """Every feasible design of a problem by rank, with metrics; rules on simulated quantities filter."""

    feasible: FeasibleSet
    measures: Measures

    @property
    def size(self) -> int:
        """The number of ranks: designs before rules on simulated quantities."""
        return self.feasible.size

    @cached_property
    def filtered(self) -> tuple[str, ...]:
        """The rules on simulated quantities."""
        rules = self.measures.instance.parameter_set.constraints
        return tuple(rule.text for rule in rules if rule.simulated)

    @cached_property
    def digest(self) -> str:
        """A hash of what decides which designs there are and their order."""
        parameter_set = self.measures.instance.parameter_set
        columns = [(column.name, [str(value) for value in column.values]) for column in parameter_set.columns]
        rules = [(rule.name, rule.text) for rule in parameter_set.constraints]
        data = sorted((name, str(value)) for name, value in parameter_set.data.items())
        order = [[self.feasible.model.columns[at].name for at in part.order] for part in self.feasible.diagrams]
        return hashlib.sha256(json.dumps([columns, rules, data, order]).encode()).hexdigest()[:16]

    def token(self, rank: int) -> str:
        """Return the text that names the first `rank` ranks."""
        return f"{rank}-{self.digest}"

    def read_token(self, token: str) -> int:
        """Return the rank to go on at.

        Raises:
            SpecError: not a token, one of another problem, or nothing is left.
        """
        where = Where("--resume-after")
        rank, _, digest = token.partition("-")
        if not rank.isascii() or not rank.isdecimal() or not digest or len(rank) > MAX_TOKEN:
            raise SpecError(
                f"{token[:60]!r} is not a token", where=where, hint="copy it from the end of an earlier run"
            )
        if digest != self.digest:
            raise SpecError(
                "the token belongs to another problem", where=where, hint="give the options of the first run"
            )
        if int(rank) >= self.size:
            raise SpecError("there are no designs after this token", where=where, hint="the enumeration is complete")
        return int(rank)

    def manifest(self, start: int) -> dict[str, object]:
        """Return what a file of designs from rank `start` on says of itself, so that only its own run goes on."""
        return {
            "schema": SCHEMA,
            "problem": self.digest,
            "designs": str(self.size),
            "start": str(start),
            "with": list(self.measures.names),
        }

    def block(self, first: int, last: int) -> Block:
        """Return the designs of ranks first, first + 1, …, last - 1."""
        batch = self.measures.instance.parameter_set.batch(self.feasible.span(first, last))
        offsets = np.arange(last - first)
        needed = self.measures.simulated or bool(self.filtered)
        evaluation = self.measures.evaluate(batch) if needed else None
        columns = self.measures.columns(batch, evaluation)
        if not self.filtered or evaluation is None:
            return Block(first, last, batch, columns, offsets)
        from cosmic_opt.search.limits import step_limit  # numba takes a second to load

        kept = np.flatnonzero(evaluation.step_ticks <= step_limit(batch.parameter_set))
        columns = tuple(MetricColumn(column.name, column.values[kept], column.known[kept]) for column in columns)
        return Block(first, last, batch.take(kept), columns, offsets[kept])

    def blocks(self, start: int, limit: int | None, chunk: int = CHUNK) -> Iterator[Block]:
        """Yield blocks from rank `start` on, `limit` designs in all; they end at multiples of `chunk`."""
        left = self.size - start if limit is None else limit
        stop = self.size if self.filtered else min(self.size, start + left)
        for first, last in spans(start, stop, chunk):
            block = self.block(first, last).head(left)
            yield block
            left -= len(block.batch)
            if left == 0:
                return

    def measured(self, batch: DesignBatch) -> tuple[MetricColumn, ...]:
        """Return the metrics of any designs of the problem."""
        return self.measures.columns(batch, self.measures.evaluate(batch) if self.measures.simulated else None)


def spans(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) between two ranks, cut at the multiples of `size`."""
    while start < stop:
        end = min(stop, (start // size + 1) * size)
        yield start, end
        start = end
