"""A lowered model as a 0-1 linear program with small integer coefficients, exactly. No solver library is used here.

Each code of each column is a binary. A table becomes one variable per row, a product a flow through its partial
products; both are the convex hull of what they stand for. A sum whose numbers a floating-point solver could not tell
apart is written digit by digit with carries, so that every coefficient stays below `DIRECT`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.ir.check import satisfied
from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Product, Rows, Table, Weights
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.fill import Arc, Block, DigitBlock, FlowBlock, Point, TableBlock

DIRECT = 2**20
"""A row whose total may reach this is split into digits: tolerances of 1e-6 stay below one unit."""
BASE = 2**12
"""The base of the digits; a digit's row stays well below `DIRECT`."""
ENTRY_LIMIT = 4_000_000
"""Tables with more entries than this are refused: building and solving would take minutes."""

Terms = dict[int, int]
"""A coefficient per variable."""

_SETTLED = -1
"""The partial product that no longer matters."""


@dataclass(frozen=True, slots=True)
class Row:
    """`lower <= sum of coefficient * variable <= upper`; None is no bound."""

    terms: Terms
    lower: int | None
    upper: int | None


@dataclass(frozen=True, slots=True)
class Goal:
    """Minimise the sum of `terms` (natural numbers); the objective is `sign * (offset + scale * sum)`.

    `largest` is the most the sum can be.
    """

    terms: Terms
    offset: int
    scale: int
    sign: int
    largest: int

    def value(self, total: int) -> int:
        """Return the value of the objective where the sum is `total`."""
        return self.sign * (self.offset + self.scale * total)

    def total(self, value: int) -> int:
        """Return the sum where the objective is `value`."""
        return (self.sign * value - self.offset) // self.scale


class Linearisation:
    """Variables from 0 to `upper` each, some integer; the rows; and the literal (a variable) of each column's code."""

    def __init__(self, model: LoweredModel) -> None:
        self.model = model
        self.upper: list[int] = []
        self.integer: list[bool] = []
        self.rows: list[Row] = []
        self.blocks: list[Block] = []
        self.infeasible = model.infeasible
        self.entries = 0
        self.literals: list[dict[int, int]] = []
        for column, codes in zip(model.columns, model.allowed, strict=True):
            literals = {int(code): self.variable(integer=not column.helper) for code in codes}
            self.literals.append(literals)
            self.row(dict.fromkeys(literals.values(), 1), 1, 1)
        for constraint in _without_covered_tables(model):
            self.add(constraint)

    # --- building blocks --------------------------------------------------------------------------------------

    def variable(self, upper: int = 1, *, integer: bool = False) -> int:
        """Return a new variable in [0, upper]."""
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.upper) - 1

    def row(self, terms: Terms, lower: int | None, upper: int | None) -> None:
        """Add a row; one without variables says whether anything is feasible at all."""
        if terms:
            self.rows.append(Row(terms, lower, upper))
        elif (lower is not None and lower > 0) or (upper is not None and upper < 0):
            self.infeasible = True

    def forbid(self, codes: Iterable[int]) -> None:
        """Exclude one design: not all its literals at once."""
        terms = {self.literals[column][int(code)]: 1 for column, code in enumerate(codes)}
        self.row(terms, None, len(terms) - 1)

    def point_of(self, codes: Sequence[int]) -> Point:
        """Return the value of every variable where a design (the codes of all columns) is; all rows hold there."""
        point = np.zeros(len(self.upper), dtype=np.int64)
        for literals, code in zip(self.literals, codes, strict=True):
            point[literals[code]] = 1
        for block in self.blocks:
            block.fill(codes, point)
        return point

    # --- constraints ------------------------------------------------------------------------------------------

    def add(self, constraint: Constraint, guard: int | None = None) -> None:
        """Add a constraint that holds where the code of the column `guard` (None: always) is 1."""
        match constraint:
            case Conditional(column, body, _):
                if 1 in self.literals[column]:
                    self.add(body, column)
            case Linear(columns, weights, lower, upper, _):
                if guard is None and lower is not None and lower == upper:
                    self.add_exactly(columns, weights, lower)
                    return
                if upper is not None:
                    self.add_at_most(columns, weights, upper, guard)
                if lower is not None:
                    negated = tuple(tuple(-weight for weight in row) for row in weights)
                    self.add_at_most(columns, negated, -lower, guard)
            case Product(columns, factors, lower, upper, _):
                self.add_product(columns, factors, lower, upper, guard)
            case Table(columns, rows, _):
                self.add_table(columns, rows, guard)

    def add_table(self, columns: Sequence[int], rows: Rows, guard: int | None) -> None:
        """One variable per row; those with a code sum to the literal of the code, so integral literals pick one row."""
        keep = np.ones(len(rows), dtype=bool)
        for position, column in enumerate(columns):
            keep &= np.isin(rows[:, position], list(self.literals[column]))
        rows = rows[keep]
        self.count_entries(rows.size)
        chosen = [self.variable() for _ in range(len(rows))]
        if chosen:
            self.blocks.append(TableBlock(columns, rows, chosen[0], guard))
        self.link_total(chosen, guard)
        for position, column in enumerate(columns):
            by_code: dict[int, list[int]] = defaultdict(list)
            for variable, code in zip(chosen, rows[:, position].tolist(), strict=True):
                by_code[code].append(variable)
            self.link_codes(column, by_code, guard)

    def add_product(
        self, columns: Sequence[int], factors: Weights, lower: int | None, upper: int | None, guard: int | None
    ) -> None:
        """A unit of flow from 1 through the partial products; the arcs that choose a code sum to its literal."""
        rest = self._rest(columns, factors)
        incoming: dict[int, list[int]] = {1: []}
        layers: list[list[Arc]] = []
        for position, (column, row) in enumerate(zip(columns, factors, strict=True)):
            outgoing: dict[int, list[int]] = {state: [] for state in incoming}
            by_code: dict[int, list[int]] = defaultdict(list)
            reached: dict[int, list[int]] = defaultdict(list)
            layers.append([])
            for state in incoming:
                for code in self.literals[column]:
                    new = _next_state(state, row[code], rest[position + 1], lower, upper)
                    if new is not None:
                        arc = self.variable()
                        layers[-1].append(Arc(arc, state, code, new))
                        outgoing[state].append(arc)
                        by_code[code].append(arc)
                        reached[new].append(arc)
            self.count_entries(sum(map(len, by_code.values())))
            for state, arcs in outgoing.items():
                if position == 0:
                    self.link_total(arcs, guard)
                else:
                    self.row({**dict.fromkeys(arcs, 1), **dict.fromkeys(incoming[state], -1)}, 0, 0)
            self.link_codes(column, by_code, guard)
            incoming = reached
        self.blocks.append(FlowBlock(columns, layers, guard))

    def _rest(self, columns: Sequence[int], factors: Weights) -> list[tuple[int, int]]:
        """Return the least and greatest product of the factors from each position on."""
        rest = [(1, 1)]
        for column, row in zip(reversed(columns), reversed(factors), strict=True):
            values = [row[code] for code in self.literals[column]]
            low, high = rest[-1]
            rest.append((low * min(values, default=0), high * max(values, default=0)))
        return rest[::-1]

    def link_total(self, variables: Iterable[int], guard: int | None) -> None:
        """Exactly one of the variables where the guard holds."""
        terms = dict.fromkeys(variables, 1)
        if guard is None:
            self.row(terms, 1, 1)
        else:
            self.row({**terms, self.literals[guard][1]: -1}, 0, 0)

    def link_codes(self, column: int, by_code: dict[int, list[int]], guard: int | None) -> None:
        """The variables that choose a code sum to its literal; under a guard that fails, to nothing."""
        for code, literal in self.literals[column].items():
            terms = {**dict.fromkeys(by_code.get(code, ()), 1), literal: -1}
            self.row(terms, 0 if guard is None else None, 0)

    def count_entries(self, entries: int) -> None:
        """Refuse tables too large to solve."""
        self.entries += entries
        if self.entries > ENTRY_LIMIT:
            raise LimitError(
                f"the tables of the rules have more than {ENTRY_LIMIT:,} entries, too many for the MILP solver",
                hint="use cp_sat, or shorten a domain",
            )

    # --- sums -------------------------------------------------------------------------------------------------

    def add_exactly(self, columns: Sequence[int], weights: Weights, value: int) -> None:
        """Make the sum equal to `value`."""
        groups, offset = self.groups(columns, weights)
        scale = _divide_by_gcd(groups)
        room, rest = divmod(value - offset, scale)
        if rest or not 0 <= room <= _most(groups):
            self.infeasible = True
        else:
            self.compare(groups, room, slack=False)

    def add_at_most(self, columns: Sequence[int], weights: Weights, upper: int, guard: int | None = None) -> None:
        """Make the sum at most `upper` where the guard holds: elsewhere the guard's weight makes room for anything."""
        groups, offset = self.groups(columns, weights)
        most = offset + _most(groups)
        if most <= upper:
            return
        if guard is not None:
            relief = tuple((most - upper) * (code == 1) for code in range(self.model.columns[guard].size))
            groups, offset = self.groups((*columns, guard), (*weights, relief))
            upper = most
        scale = _divide_by_gcd(groups)
        room = (upper - offset) // scale
        if room < 0:
            self.infeasible = True
        else:
            self.compare(groups, room, slack=True)

    def groups(self, columns: Sequence[int], weights: Weights) -> tuple[list[Terms], int]:
        """Return natural coefficients of the literals, a group per column with least coefficient 0, and the offset."""
        merged: dict[int, Terms] = {}
        for column, row in zip(columns, weights, strict=True):
            terms = merged.setdefault(column, dict.fromkeys(self.literals[column].values(), 0))
            for code, literal in self.literals[column].items():
                terms[literal] += row[code]
        offset = 0
        groups = []
        for terms in merged.values():
            least = min(terms.values(), default=0)
            offset += least
            groups.append({literal: weight - least for literal, weight in terms.items() if weight > least})
        return [group for group in groups if group], offset

    def compare(self, groups: list[Terms], room: int, *, slack: bool) -> None:
        """Add `sum <= room` (with slack) or `sum == room`; literals that alone pass it are excluded first."""
        for group in groups:
            for literal in [literal for literal, weight in group.items() if weight > room]:
                del group[literal]
                self.upper[literal] = 0
        if max(_most(groups), room) < DIRECT:
            terms = {literal: weight for group in groups for literal, weight in group.items()}
            self.row(terms, None if slack else room, room)
        else:
            self.compare_by_digits(groups, room, slack=slack)

    def compare_by_digits(self, groups: list[Terms], room: int, *, slack: bool) -> None:
        """Add `sum + slack == room` digit by digit: digits + slack digit + carry in == room's digit + BASE * carry out.

        Weighted by the powers of the base these rows add up to the sum itself, so its relaxation is not weakened.
        """
        carry: int | None = None
        most_carry = 0
        whole, total = {literal: weight for group in groups for literal, weight in group.items()}, room
        slacks: list[int | None] = []
        carries: list[int | None] = []
        while room or groups:
            digits = [{literal: weight % BASE for literal, weight in group.items()} for group in groups]
            groups = _nonzero([{literal: weight // BASE for literal, weight in group.items()} for group in groups])
            terms = {literal: digit for group in _nonzero(digits) for literal, digit in group.items()}
            if carry is not None:
                terms[carry] = 1
            slacks.append(self.variable(BASE - 1, integer=True) if slack else None)
            if slacks[-1] is not None:
                terms[slacks[-1]] = 1
            most_carry = (_most(digits) + slack * (BASE - 1) + most_carry) // BASE
            digit, room = room % BASE, room // BASE
            carry = self.variable(most_carry, integer=True) if room or groups else None
            carries.append(carry)
            if carry is not None:
                terms[carry] = -BASE
            self.row(terms, digit, digit)
        self.blocks.append(DigitBlock(whole, total, BASE, slacks, carries))

    # --- objective --------------------------------------------------------------------------------------------

    def goal(self, objective: LinearObjective) -> Goal:
        """Return a linear objective as a minimised sum of literals."""
        sign = -1 if objective.maximise else 1
        signed = tuple(tuple(sign * weight for weight in row) for row in objective.weights)
        groups, offset = self.groups(objective.columns, signed)
        scale = _divide_by_gcd(groups)
        terms = {literal: weight for group in groups for literal, weight in group.items()}
        return Goal(terms, offset + sign * objective.constant, scale, sign, _most(groups))


def _next_state(state: int, factor: int, rest: tuple[int, int], lower: int | None, upper: int | None) -> int | None:
    """Return the partial product after a factor, `_SETTLED` when any rest will do, None when no rest will."""
    if state == _SETTLED:
        return _SETTLED
    product = state * factor
    least, most = product * rest[0], product * rest[1]
    if (upper is not None and least > upper) or (lower is not None and most < lower):
        return None
    settled = (upper is None or most <= upper) and (lower is None or least >= lower)
    return _SETTLED if settled else product


def _divide_by_gcd(groups: list[Terms]) -> int:
    """Divide all coefficients, in place, by their greatest common divisor, and return it."""
    divisor = math.gcd(*(weight for group in groups for weight in group.values())) or 1
    for group in groups:
        for literal in group:
            group[literal] //= divisor
    return divisor


def _most(groups: Iterable[Terms]) -> int:
    return sum(max(group.values(), default=0) for group in groups)


def _nonzero(groups: Iterable[Terms]) -> list[Terms]:
    kept = [{literal: weight for literal, weight in group.items() if weight} for group in groups]
    return [group for group in kept if group]


def _without_covered_tables(model: LoweredModel) -> list[Constraint]:
    """Return the constraints with every table that a wider one covers folded into it: its rows are filtered instead."""
    tables = [constraint for constraint in model.all_constraints() if isinstance(constraint, Table)]
    others = [constraint for constraint in model.all_constraints() if not isinstance(constraint, Table)]
    kept: list[Table] = []
    for table in sorted(tables, key=lambda table: len(table.columns), reverse=True):
        host = next((at for at, wider in enumerate(kept) if set(table.columns) <= set(wider.columns)), None)
        if host is None or not table.columns:
            kept.append(table)
            continue
        wider = kept[host]
        full = np.zeros((len(wider.rows), len(model.columns)), dtype=np.int32)
        full[:, list(wider.columns)] = wider.rows
        kept[host] = replace(wider, rows=wider.rows[satisfied(table, model, full)])
    return [*kept, *others]
