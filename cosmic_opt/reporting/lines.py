"""Designs as lines of text, half a million a second: what a value writes is looked up by its code."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.metric_columns import MetricColumn

_MARK = "\x01"


@dataclass(frozen=True)
class JsonLines:
    """Lines of JSON of one problem's designs; metrics stand after the parameters."""

    parameter_set: ParameterSet

    @cached_property
    def _slots(self) -> tuple[list[tuple[int, list[str]]], str]:
        """Return, in order of writing, each column and the text its codes write; and the text after the last.

        The text around the values is that of a design whose values are marks.
        """
        columns = self.parameter_set.columns
        marked = [replace(column, values=(f"{_MARK}{at}{_MARK}",)) for at, column in enumerate(columns)]
        empty = replace(self.parameter_set, columns=tuple(marked)).batch(np.zeros((1, len(marked)), dtype=np.int32))
        line = json.dumps(next(designs_keys(empty))).removesuffix("}")
        *pieces, tail = re.split(r'"\\u0001(\d+)\\u0001"', line)
        slots = []
        for before, position in zip(pieces[::2], pieces[1::2], strict=True):
            values = columns[int(position)].values
            slots.append((int(position), [f"{before}{json.dumps(value)}" for value in values]))
        return slots, tail

    def text(self, batch: DesignBatch, metrics: Sequence[MetricColumn] = ()) -> str:
        """Return one line per design, each with its end."""
        slots, tail = self._slots
        parts = [map(texts.__getitem__, batch.codes[:, at].tolist()) for at, texts in slots]
        for column in metrics:
            before = f"{tail}, {json.dumps(column.name)}: "
            tail = ""
            parts.append(map(before.__add__, map(json.dumps, column.plain())))
        end = f"{tail}}}\n"
        return "".join(f"{''.join(row)}{end}" for row in zip(*parts, strict=True))


@dataclass(frozen=True)
class CsvLines:
    """Rows of CSV of one problem's designs under a header of column names; null is empty."""

    parameter_set: ParameterSet

    def header(self, metrics: Sequence[str]) -> str:
        """Return the first line."""
        return _rows([(*self.parameter_set.positions, *metrics)])

    def text(self, batch: DesignBatch, metrics: Sequence[MetricColumn] = ()) -> str:
        """Return one line per design, each with its end."""
        columns = self.parameter_set.columns
        lists = [map(column.values.__getitem__, batch.codes[:, at].tolist()) for at, column in enumerate(columns)]
        return _rows(zip(*lists, *(column.plain() for column in metrics), strict=True))


def _rows(rows: object) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)  # type: ignore[arg-type]
    return file.getvalue()
