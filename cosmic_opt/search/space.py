"""The search space of a problem: regions with exact sizes, and the options of each network dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.check import satisfied
from cosmic_opt.ir.model import Linear, LoweredModel
from cosmic_opt.ir.passes.rows import joint_rows
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.search.objective import Objective, arguments_of
from cosmic_opt.search.owners import STRUCTURAL, Ownership, assign_owners
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator

REGION_LIMIT = 2_000_000
UNBOUNDED = 2**61

IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Regions:
    """Every feasible choice of the structural columns.

    Attributes:
        codes: int32 [R, all columns of the lowered model]; the columns of options hold 0.
        sizes: Python integers [R], designs in each region; they sum to the feasible count.
    """

    codes: Codes
    sizes: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True)
class DimensionOptions:
    """The options of one dimension: `rows` [O, columns] are codes of `columns` (design columns and helpers).

    Option columns that had to become structural are among them; a region's mask then keeps the rows that agree.
    """

    columns: tuple[int, ...]
    rows: Codes

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Space:
    """A problem cut into regions and options."""

    parameter_set: ParameterSet
    model: LoweredModel
    feasible: FeasibleSet
    ownership: Ownership
    regions: Regions
    options: tuple[DimensionOptions, ...]

    def batch(self, codes: Codes) -> DesignBatch:
        """Return designs from codes of all columns of the lowered model."""
        return self.parameter_set.batch(codes[:, : self.model.designs])

    def option_batch(self, dimension: int) -> DesignBatch:
        """Return one design per option of a dimension; columns it does not own hold their first allowed value."""
        options = self.options[dimension]
        codes = np.tile(first_codes(self.model), (len(options), 1))
        codes[:, list(options.columns)] = options.rows
        return self.batch(codes)

    def designs(self, region: int, chosen: Sequence[int]) -> Codes:
        """Return the design codes of a region with one option per dimension; inert columns take their least code."""
        codes = self.regions.codes[region].copy()
        for options, option in zip(self.options, chosen, strict=True):
            codes[list(options.columns)] = options.rows[option]
        return np.asarray(codes[: self.model.designs])

    def masks(self) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return which mask each region has, and the masks [G, D, O]: the options its structure allows."""
        rules, promoted = self.ownership.with_structure, self.ownership.promoted
        read = {column for rule_list in rules.values() for rule in rule_list for column in rule.columns}
        open_read = {c for c in read if self.ownership.owner[c] == STRUCTURAL and len(self.model.allowed[c]) > 1}
        readers = sorted(open_read.union(*promoted.values()))
        width = max(len(options) for options in self.options)
        _, first, group = np.unique(self.regions.codes[:, readers], axis=0, return_index=True, return_inverse=True)
        masks = np.zeros((len(first), len(self.options), width), dtype=bool)
        for dimension, options in enumerate(self.options):
            masks[:, dimension, : len(options)] = True
            for column in promoted[dimension]:
                codes_of_options = options.rows[:, options.columns.index(column)]
                own = self.regions.codes[first, column]
                masks[:, dimension, : len(options)] &= own[:, None] == codes_of_options[None, :]
            for rule in rules[dimension]:
                for number, representative in enumerate(first):
                    codes = np.repeat(self.regions.codes[representative : representative + 1], len(options), axis=0)
                    codes[:, list(options.columns)] = options.rows
                    masks[number, dimension, : len(options)] &= satisfied(rule, self.model, codes)
        return group.reshape(-1).astype(np.int64), masks

    def shares(self, rule: Linear) -> tuple[list[IntArray], IntArray, IntArray]:
        """Return a coupling rule's share per option of each dimension, and what each region leaves of its bounds."""
        owner, allowed = self.ownership.owner, self.model.allowed
        shares = [np.zeros(len(options), dtype=np.int64) for options in self.options]
        fixed = np.zeros(len(self.regions), dtype=np.int64)
        for column, weights in zip(rule.columns, rule.weights, strict=True):
            row = np.array(weights, dtype=np.int64)
            if len(allowed[column]) == 1:
                fixed += row[int(allowed[column][0])]
            elif owner[column] == STRUCTURAL:
                fixed += row[self.regions.codes[:, column]]
            else:
                options = self.options[owner[column]]
                shares[owner[column]] += row[options.rows[:, options.columns.index(column)]]
        low = np.full(len(fixed), -UNBOUNDED) if rule.lower is None else rule.lower - fixed
        high = np.full(len(fixed), UNBOUNDED) if rule.upper is None else rule.upper - fixed
        return shares, low.astype(np.int64), high.astype(np.int64)

    def amounts(self, objective: Objective) -> tuple[list[IntArray], IntArray]:
        """Return the objective's amount per option of each dimension, and the part each region fixes."""
        shares = [np.zeros(len(options), dtype=np.int64) for options in self.options]
        fixed = np.zeros(len(self.regions), dtype=np.int64)
        if objective.amount is None:
            return shares, fixed + 1
        structural = self.batch(self._with_settled(self.regions.codes))
        batches = [self.option_batch(dimension) for dimension in range(len(self.options))]
        for term in objective.amount.terms:
            owners = {
                self.ownership.owner[self.parameter_set.positions[name]]
                for name in term.names
                if name in self.parameter_set.positions
                and len(self.model.allowed[self.parameter_set.positions[name]]) > 1
            } or {STRUCTURAL}
            (owner,) = owners
            batch = structural if owner == STRUCTURAL else batches[owner]
            values = np.asarray(term.evaluate(arguments_of(term.names, batch)), dtype=np.int64)
            if owner == STRUCTURAL:
                fixed += values
            else:
                shares[owner] += values
        return shares, fixed

    def _with_settled(self, codes: Codes) -> Codes:
        """Return region codes in which option columns hold an allowed value (terms that read them are not asked)."""
        codes = codes.copy()
        for column, owner in enumerate(self.ownership.owner):
            if owner != STRUCTURAL:
                codes[:, column] = self.model.allowed[column][0]
        return codes


def first_codes(model: LoweredModel) -> Codes:
    """Return the least allowed code of every column."""
    return np.array([int(codes[0]) for codes in model.allowed], dtype=np.int32)


def build_space(
    parameter_set: ParameterSet,
    model: LoweredModel,
    simulator: AnalyticalSimulator,
    dimensions: int,
    objective: Objective,
) -> Space:
    """Return the space of a feasible problem.

    Raises:
        LimitError: more than two million regions.
    """
    positions = parameter_set.positions
    scopes = [frozenset(term.names) & positions.keys() for term in objective.amount.terms] if objective.amount else []
    ownership = assign_owners(parameter_set, model, dimensions, simulator.inert, scopes)
    structural = {c for c, owner in enumerate(ownership.owner) if owner == STRUCTURAL} - ownership.inert
    feasible = feasible_set(model, first=structural)
    regions = _regions(model, feasible, structural)
    options = tuple(_dimension_options(model, ownership, dimension) for dimension in range(dimensions))
    return Space(parameter_set, model, feasible, ownership, regions, options)


def _regions(model: LoweredModel, feasible: FeasibleSet, structural: set[int]) -> Regions:
    """Return the product of the components' structural prefixes."""
    codes = first_codes(model).reshape(1, -1)
    sizes: NDArray[np.object_] = np.array([1], dtype=object)
    for diagram in feasible.diagrams:
        depth = next((i for i, column in enumerate(diagram.order) if column not in structural), len(diagram.order))
        prefix, counts = diagram.prefixes(depth)
        if len(codes) * len(prefix) > REGION_LIMIT:
            raise LimitError(
                f"the structural parameters alone have more than {REGION_LIMIT:,} combinations",
                hint="fix some of them (--fix), or search with an agent alone (--agent genetic)",
            )
        rows = np.repeat(np.arange(len(codes)), len(prefix))
        codes = codes[rows]
        codes[:, list(diagram.order[:depth])] = np.tile(prefix, (len(rows) // len(prefix), 1))
        sizes = np.repeat(sizes, len(prefix)) * np.tile(counts.astype(object), len(rows) // len(prefix))
    return Regions(codes, sizes)


def _dimension_options(model: LoweredModel, ownership: Ownership, dimension: int) -> DimensionOptions:
    """Return every combination of a dimension's option columns that the rules within it allow."""
    owned = [c for c in ownership.columns(dimension) if len(model.allowed[c]) > 1]
    columns = [*ownership.promoted[dimension], *owned]
    rules = ownership.within[dimension]
    rows = joint_rows(columns, model.columns, model.allowed, rules)
    keep = np.ones(len(rows), dtype=bool)
    full = np.tile(first_codes(model), (len(rows), 1))
    full[:, columns] = rows
    for rule in rules:
        keep &= satisfied(rule, model, full)
    return DimensionOptions(tuple(columns), rows[keep].astype(np.int32))
