"""Quantities that remember their values, for questions that ask for the same designs again and again.

Shrinking a conflict lowers the same rules with one left out each time, and tabulates the same footprint each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import IntArray, QuantityTerm, Values
from cosmic_opt.psa.term import Apply, ColumnTerm, QuantityPart, Term

MOST_VALUES = 1 << 23
"""A quantity with more combinations of its columns (64 MiB of values) is computed anew each time."""


def remembering(parameter_set: ParameterSet) -> ParameterSet:
    """Return the same problem, whose quantities compute each combination of their columns once."""
    columns = {column.name: column.term for column in parameter_set.columns}
    parts: dict[QuantityPart, QuantityPart] = {}
    rules = (replace(rule, term=_remembering(rule.term, columns, parts)) for rule in parameter_set.constraints)
    return replace(parameter_set, constraints=tuple(rules))


def _remembering(term: Term, columns: Mapping[str, ColumnTerm], parts: dict[QuantityPart, QuantityPart]) -> Term:
    match term:
        case Apply(_, operands, _):
            return replace(term, operands=tuple(_remembering(each, columns, parts) for each in operands))
        case QuantityPart():
            if term not in parts:
                parts[term] = _with_memory(term, {name: columns[name] for name in term.columns})
            return parts[term]
        case _:
            return term


def _with_memory(part: QuantityPart, columns: Mapping[str, ColumnTerm]) -> QuantityPart:
    arrays = {name: column.array for name, column in columns.items()}
    if prod(map(len, arrays.values())) > MOST_VALUES or any(array.dtype == object for array in arrays.values()):
        return part
    return replace(part, term=QuantityTerm(part.term.names, _Memory(part.term, arrays).evaluate))


class _Memory:
    """The values of a quantity by combination of its columns' values (`columns`: int64 or text, by code)."""

    def __init__(self, term: QuantityTerm, columns: Mapping[str, Values]) -> None:
        self.term = term
        self.sorted = {name: np.unique(values) for name, values in columns.items()}
        size = prod(map(len, self.sorted.values()))
        self.values, self.known = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)

    def evaluate(self, arguments: Mapping[str, Values]) -> IntArray:
        """Return the quantity's value per row, each combination computed the first time it is asked for."""
        place = np.zeros(len(next(iter(arguments.values()))), dtype=np.int64)
        for name, values in self.sorted.items():
            code = np.searchsorted(values, arguments[name])
            assert np.array_equal(values[code], arguments[name]), f"a value of {name} outside its column"
            place = place * len(values) + code
        new = np.flatnonzero(~self.known[place])
        if len(new):
            self.values[place[new]] = self.term.evaluate({name: each[new] for name, each in arguments.items()})
            self.known[place[new]] = True
        return self.values[place]
