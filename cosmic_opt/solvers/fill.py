"""What the variables of a linearisation are where a design is: the point that a solver starts from.

Literals follow from the codes alone. Each block of further variables (the rows of a table, the arcs of a product's
flow, the digits of a sum) knows how it follows from the codes and the literals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.ir.model import Rows

Point = NDArray[np.int64]
"""A value per variable."""


class Block(Protocol):
    """Variables that follow from the codes of a design, and how."""

    def fill(self, codes: Sequence[int], point: Point) -> None:
        """Set the block's variables where the codes (of all columns) and the literals are these."""


@dataclass(frozen=True, slots=True)
class TableBlock:
    """One variable per row, from `first` on: 1 for the row of the codes, unless a guard does not hold."""

    columns: Sequence[int]
    rows: Rows
    first: int
    guard: int | None

    def fill(self, codes: Sequence[int], point: Point) -> None:
        if self.guard is None or codes[self.guard] == 1:
            chosen = (self.rows == [codes[column] for column in self.columns]).all(axis=1)
            point[self.first : self.first + len(self.rows)] = chosen


@dataclass(frozen=True, slots=True)
class Arc:
    """A step of a flow: with this code of the layer's column the partial product goes from `state` to `new`."""

    variable: int
    state: int
    code: int
    new: int


@dataclass(frozen=True, slots=True)
class FlowBlock:
    """The arcs of each layer, one column each; the flow starts at the product 1, unless a guard does not hold."""

    columns: Sequence[int]
    layers: Sequence[Sequence[Arc]]
    guard: int | None

    def fill(self, codes: Sequence[int], point: Point) -> None:
        if self.guard is not None and codes[self.guard] != 1:
            return
        state = 1
        for column, arcs in zip(self.columns, self.layers, strict=True):
            taken = next((arc for arc in arcs if (arc.state, arc.code) == (state, codes[column])), None)
            if taken is None:
                return
            point[taken.variable] = 1
            state = taken.new


@dataclass(frozen=True, slots=True)
class DigitBlock:
    """A sum written in digits of `base`, `sum + slack == room`: the variable of each digit of the slack, each carry."""

    terms: dict[int, int]
    room: int
    base: int
    slacks: Sequence[int | None]
    carries: Sequence[int | None]

    def fill(self, codes: Sequence[int], point: Point) -> None:
        del codes  # the literals hold them
        weights = [weight for literal, weight in self.terms.items() if point[literal]]
        room, slack, carried = self.room, max(0, self.room - sum(weights)), 0
        for own, carry in zip(self.slacks, self.carries, strict=True):
            digits = sum(weight % self.base for weight in weights) + carried
            if own is not None:
                point[own] = slack % self.base
                digits += slack % self.base
            carried = (digits - room % self.base) // self.base
            if carry is not None:
                point[carry] = carried
            weights = [weight // self.base for weight in weights]
            room, slack = room // self.base, slack // self.base
