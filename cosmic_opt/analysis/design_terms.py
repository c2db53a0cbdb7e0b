"""Terms of a design by name: its columns, the numbers of the instance, and products of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant, Term


class DesignTerms:
    """Columns and numbers by name; what neither names is 1, as to the simulator."""

    def __init__(self, columns: Mapping[str, ColumnTerm], data: Mapping[str, Value]) -> None:
        self.columns, self.data = columns, data

    def knows(self, name: str) -> bool:
        """Tell whether a column or a number has this name."""
        return name in self.columns or name in self.data

    def of(self, name: str) -> Term:
        """Return the column or the number."""
        return self.columns[name] if name in self.columns else Constant(int(self.data.get(name, 1)))


def product_of(terms: Collection[Term]) -> Term:
    """Return the product; numbers are multiplied at once."""
    number = prod(int(term.value) for term in terms if isinstance(term, Constant))
    others = [term for term in terms if not isinstance(term, Constant)]
    factors: list[Term] = [*others, *([Constant(number)] if number != 1 or not others else [])]
    return factors[0] if len(factors) == 1 else Apply("*", tuple(factors))
