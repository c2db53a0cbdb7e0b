"""The search space of a problem: regions with exact sizes, and the options of each network dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.diagram import Diagram
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.check import satisfied
from cosmic_opt.ir.model import Linear, LoweredModel
from cosmic_opt.ir.passes.rows import joint_rows
from cosmic_opt.psa.parameter_set import DesignBatch, ParameterSet
from cosmic_opt.psa.quantity import QuantityTerm
from cosmic_opt.search.objective import Objective, add_amounts, arguments_of
from cosmic_opt.search.owners import STRUCTURAL, Ownership, assign_owners
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator

KIND_LIMIT = 20_000_000
"""More structural choices that compute differently are refused: bounding them would take minutes."""
FACTOR_LIMIT = 4_000_000
"""More structural choices of one component are refused: they would take gigabytes."""
UNBOUNDED = 2**61

IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Regions:
    """Feasible choices of the structural columns.

    Attributes:
        codes: int32 [R, all columns of the lowered model]; the columns of options hold 0.
        sizes: Python integers [R], designs in each region.
    """

    codes: Codes
    sizes: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Regions:
        """Return the chosen regions."""
        return Regions(self.codes[rows], self.sizes[rows])


@dataclass(frozen=True)
class Factor:
    """The structural choices of one independent component: `rows` [n, columns] are codes of `columns`, with sizes."""

    columns: tuple[int, ...]
    rows: Codes
    sizes: NDArray[np.object_]


@dataclass(frozen=True)
class RegionProduct:
    """Every region, as the product of the choices of independent components; made only in the blocks asked for.

    The last factor varies fastest. Sizes of all regions sum to the feasible count. The factors from position `outer` on
    decide how regions communicate and nothing else: regions that differ in them alone compute alike and lie together.
    """

    first: Codes
    """The least allowed code of every column."""
    factors: tuple[Factor, ...]
    outer: int

    @cached_property
    def count(self) -> int:
        """The number of regions."""
        return math.prod(len(factor.rows) for factor in self.factors)

    @cached_property
    def alike(self) -> int:
        """How many regions side by side compute alike."""
        return math.prod(len(factor.rows) for factor in self.factors[self.outer :])

    @cached_property
    def designs_alike(self) -> int:
        """Designs per design of the outer factors."""
        return math.prod(int(factor.sizes.sum()) for factor in self.factors[self.outer :])

    def outer_sizes(self, numbers: IntArray) -> NDArray[np.object_]:
        """Return the designs of all regions alike to each of the given ones, which are the first of their kind."""
        numbers = numbers // self.alike
        sizes: NDArray[np.object_] = np.full(len(numbers), self.designs_alike, dtype=object)
        for factor in reversed(self.factors[: self.outer]):
            numbers, at = np.divmod(numbers, len(factor.rows))
            sizes = sizes * factor.sizes[at]
        return sizes

    def block(self, start: int, stop: int) -> Regions:
        """Return the regions numbered from `start` to before `stop`."""
        return self.take(np.arange(start, min(stop, self.count)))

    def take(self, numbers: IntArray) -> Regions:
        """Return the regions with these numbers."""
        codes = np.tile(self.first, (len(numbers), 1))
        sizes: NDArray[np.object_] = np.full(len(numbers), 1, dtype=object)
        for factor in reversed(self.factors):
            numbers, at = np.divmod(numbers, len(factor.rows))
            codes[:, list(factor.columns)] = factor.rows[at]
            sizes = sizes * factor.sizes[at]
        return Regions(codes, sizes)

    def distinct(self, columns: Sequence[int]) -> Codes:
        """Return every combination of codes that some columns take in a region, [n, all columns], others least."""
        combinations = self.first.reshape(1, -1)
        for factor in self.factors:
            read = [at for at, column in enumerate(factor.columns) if column in columns]
            if read:
                own = np.unique(factor.rows[:, read], axis=0)
                combinations = np.repeat(combinations, len(own), axis=0)
                rows = np.tile(own, (len(combinations) // len(own), 1))
                combinations[:, [factor.columns[at] for at in read]] = rows
        return combinations


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
    regions: RegionProduct
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

    def design(self, region: Codes, chosen: Sequence[int]) -> Codes:
        """Return the codes of a region's design with one option per dimension; inert columns take their least code."""
        codes = region.copy()
        for options, option in zip(self.options, chosen, strict=True):
            codes[list(options.columns)] = options.rows[option]
        return np.asarray(codes[: self.model.designs])

    @property
    def structural(self) -> tuple[int, ...]:
        """The columns that a region fixes, those with one code included."""
        return tuple(column for factor in self.regions.factors for column in factor.columns)

    # --- which options a region has ---------------------------------------------------------------------------

    @cached_property
    def _readers(self) -> list[int]:
        """The structural columns that decide which options a region has."""
        rules, promoted = self.ownership.with_structure, self.ownership.promoted
        read = {column for rule_list in rules.values() for rule in rule_list for column in rule.columns}
        open_read = {c for c in read if self.ownership.owner[c] == STRUCTURAL and len(self.model.allowed[c]) > 1}
        return sorted(open_read.union(*promoted.values()))

    @cached_property
    def _classes(self) -> tuple[Codes, IntArray]:
        """One representative of each combination of codes of the readers, in the order of their keys; and the keys."""
        representatives = self.regions.distinct(self._readers)
        keys = self._key(representatives)
        order = np.argsort(keys)
        return representatives[order], keys[order]

    def _key(self, codes: Codes) -> IntArray:
        sizes = [self.model.columns[column].size for column in self._readers]
        if math.prod(sizes) >= 2**62:
            raise LimitError(
                "the options of the network depend on too many structural parameters",
                hint="fix some of them (--fix), or search without a proof: solve --agent genetic --no-hybrid",
            )
        key = np.zeros(len(codes), dtype=np.int64)
        for column, size in zip(self._readers, sizes, strict=True):
            key = key * size + codes[:, column]
        return key

    def mask_of(self, codes: Codes) -> IntArray:
        """Return which of `masks` each region has."""
        return np.searchsorted(self._classes[1], self._key(codes)).astype(np.int64)

    def masks(self) -> NDArray[np.bool_]:
        """Return the masks [G, D, O]: the options that the structure of a region allows."""
        rules, promoted = self.ownership.with_structure, self.ownership.promoted
        representatives, _ = self._classes
        width = max(len(options) for options in self.options)
        masks = np.zeros((len(representatives), len(self.options), width), dtype=bool)
        for dimension, options in enumerate(self.options):
            masks[:, dimension, : len(options)] = True
            for column in promoted[dimension]:
                codes_of_options = options.rows[:, options.columns.index(column)]
                own = representatives[:, column]
                masks[:, dimension, : len(options)] &= own[:, None] == codes_of_options[None, :]
            for rule in rules[dimension]:
                for number, representative in enumerate(representatives):
                    codes = np.repeat(representative.reshape(1, -1), len(options), axis=0)
                    codes[:, list(options.columns)] = options.rows
                    masks[number, dimension, : len(options)] &= satisfied(rule, self.model, codes)
        return masks

    # --- sums over a region and one option per dimension -------------------------------------------------------

    def shares(self, rule: Linear) -> list[IntArray]:
        """Return a coupling rule's share per option of each dimension."""
        shares = [np.zeros(len(options), dtype=np.int64) for options in self.options]
        for column, weights in zip(rule.columns, rule.weights, strict=True):
            owner = self.ownership.owner[column]
            if len(self.model.allowed[column]) > 1 and owner != STRUCTURAL:
                options = self.options[owner]
                shares[owner] += np.array(weights, dtype=np.int64)[options.rows[:, options.columns.index(column)]]
        return shares

    def rests(self, rule: Linear, codes: Codes) -> tuple[IntArray, IntArray]:
        """Return what each region leaves of a coupling rule's bounds."""
        fixed = np.zeros(len(codes), dtype=np.int64)
        for column, weights in zip(rule.columns, rule.weights, strict=True):
            row, allowed = np.array(weights, dtype=np.int64), self.model.allowed[column]
            if len(allowed) == 1:
                fixed += row[int(allowed[0])]
            elif self.ownership.owner[column] == STRUCTURAL:
                fixed += row[codes[:, column]]
        low = np.full(len(fixed), -UNBOUNDED) if rule.lower is None else rule.lower - fixed
        high = np.full(len(fixed), UNBOUNDED) if rule.upper is None else rule.upper - fixed
        return low.astype(np.int64), high.astype(np.int64)

    def option_amounts(self, objective: Objective) -> list[IntArray]:
        """Return the objective's amount per option of each dimension."""
        amounts = [np.zeros(len(options), dtype=np.int64) for options in self.options]
        batches = [self.option_batch(dimension) for dimension in range(len(self.options))]
        for term, owner in self._owned_terms(objective):
            if owner != STRUCTURAL:
                part = term.evaluate(arguments_of(term.names, batches[owner]))
                add_amounts(amounts[owner], part, objective.name)
        return amounts

    def fixed_amounts(self, objective: Objective, codes: Codes) -> IntArray:
        """Return the part of the objective's amount that each region fixes."""
        fixed = np.zeros(len(codes), dtype=np.int64)
        if objective.amount is None:
            return fixed + 1
        structural = self.batch(self._with_settled(codes))
        for term, owner in self._owned_terms(objective):
            if owner == STRUCTURAL:
                add_amounts(fixed, term.evaluate(arguments_of(term.names, structural)), objective.name)
        return fixed

    def _owned_terms(self, objective: Objective) -> list[tuple[QuantityTerm, int]]:
        """Return each term of the amount with the dimension whose options it reads, or STRUCTURAL."""
        positions, allowed = self.parameter_set.positions, self.model.allowed
        found = []
        for term in objective.amount.terms if objective.amount else ():
            columns = [positions[name] for name in term.names if name in positions]
            (owner,) = {self.ownership.owner[c] for c in columns if len(allowed[c]) > 1} or {STRUCTURAL}
            found.append((term, owner))
        return found

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
    known: Sequence[Diagram] = (),
) -> Space:
    """Return the space of a feasible problem; diagrams of the model that are `known` need not be built again.

    Raises:
        LimitError: more structural choices than `FACTOR_LIMIT` in one component, or `KIND_LIMIT` in all.
    """
    positions = parameter_set.positions
    scopes = [frozenset(term.names) & positions.keys() for term in objective.amount.terms] if objective.amount else []
    ownership = assign_owners(parameter_set, model, dimensions, simulator.inert, scopes)
    structural = {c for c, owner in enumerate(ownership.owner) if owner == STRUCTURAL} - ownership.inert
    feasible = feasible_set(model, first=structural, known=known)
    silent = {positions[name] for name in simulator.communicating if name in positions}
    silent -= {positions[name] for scope in scopes for name in scope}
    silent -= {column for rules in ownership.with_structure.values() for rule in rules for column in rule.columns}
    silent -= {column for rule in ownership.coupling for column in rule.columns}
    regions = _regions(model, feasible, structural, silent)
    options = tuple(_dimension_options(model, ownership, dimension) for dimension in range(dimensions))
    return Space(parameter_set, model, feasible, ownership, regions, options)


def _regions(model: LoweredModel, feasible: FeasibleSet, structural: set[int], silent: set[int]) -> RegionProduct:
    """Return the product of the components' structural prefixes, those over `silent` columns only last."""
    outer: list[Factor] = []
    inner: list[Factor] = []
    for diagram in feasible.diagrams:
        depth = next((i for i, column in enumerate(diagram.order) if column not in structural), len(diagram.order))
        rows, sizes = diagram.prefixes(depth)
        if len(rows) > FACTOR_LIMIT:
            raise too_many_regions(FACTOR_LIMIT)
        factor = Factor(diagram.order[:depth], rows, sizes.astype(object))
        (inner if depth and silent.issuperset(factor.columns) else outer).append(factor)
    product = RegionProduct(first_codes(model), (*outer, *inner), len(outer))
    if product.count // product.alike > KIND_LIMIT:
        raise too_many_regions(KIND_LIMIT)
    return product


def too_many_regions(limit: int) -> LimitError:
    """Return the refusal of a problem with more regions than can be held."""
    return LimitError(
        f"the structural parameters alone have more than {limit:,} combinations",
        hint="fix some of them (--fix), or search without a proof: solve --agent genetic --no-hybrid",
    )


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
