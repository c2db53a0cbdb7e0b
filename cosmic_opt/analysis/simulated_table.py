"""Simulated quantities as an exact table over the columns that decide them, for solvers that know no simulator.

The table has a row for every combination of these columns that some feasible design has. Columns proved to have no
effect on what is simulated are left out (see `dead_knobs`), and so are those that the rules leave one value; every
design with a row's combination takes the times of the row. A design that the simulator cannot run has no row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.dead_knobs import dead_knobs
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.job_kinds import ENERGY
from cosmic_opt.errors import LimitError, Where
from cosmic_opt.feasibility.diagram import Diagram, with_counts
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.model import IRColumn, LoweredModel, Origin, Table
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch, ParameterSet
from cosmic_opt.psa.term import RELATIONS, SAFE, Apply, ColumnTerm, Constant, Simulated, Term, simulated_names
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.objective import energy_of, is_inference, samples_of
from cosmic_opt.search.score import kernel_columns, simulator_of
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.solvers.base import Codes
from cosmic_opt.units import TICKS_PER_SECOND, Unit

IntArray = NDArray[np.int64]
Times = Mapping[str, IntArray]
"""Ticks per design, by simulated quantity; of a rate, those of the samples it counts (see `work_of`)."""

SIMULATED_ROWS = 1_000_000
"""More combinations than this are not simulated: a second or two, and a quarter of a gigabyte."""
BLOCK = 1 << 14
"""Combinations simulated between two looks at the clock: a third of a second at most."""
LONGEST = (0, SAFE - 1)
"""The range of a time: 46 days at most, within 62 bits."""
SHOWN = 4
"""Columns to fix that a refusal names."""
_INSTEAD = "'solve' and 'pareto' optimise what is simulated without a table"


@dataclass(frozen=True)
class SimulatedTable:
    """Every combination of `columns` that the rules on simulated quantities allow, and its times.

    `designs` [n, design columns] are codes: a feasible design with each combination. `some_run` tells whether any
    combination has times, also such as those rules forbid.
    """

    columns: tuple[int, ...]
    designs: Codes
    times: Times
    origin: Origin
    some_run: bool

    def __len__(self) -> int:
        return len(self.designs)

    @property
    def rows(self) -> Codes:
        """The combinations, [n, columns]."""
        return self.designs[:, list(self.columns)]

    def allow(self, model: LoweredModel) -> LoweredModel:
        """Return the model with the rows as a rule."""
        rule = Table(self.columns, self.rows, self.origin)
        return propagate(replace(model, constraints=(*model.constraints, rule)))

    def define(self, model: LoweredModel, name: str) -> tuple[LoweredModel, int, tuple[int, ...]]:
        """Return the model with a time as a helper column, that column, and the ticks of its codes, ascending."""
        at = len(model.columns)
        ticks, codes = np.unique(self.times[name], return_inverse=True)
        rows = np.column_stack([self.rows, codes.reshape(-1)]).astype(np.int32)
        size = max(1, len(ticks))
        wider = replace(
            model,
            columns=(*model.columns, IRColumn(name, size, helper=True)),
            allowed=(*model.allowed, np.arange(size, dtype=np.int32)),
            definitions=(*model.definitions, Table((*self.columns, at), rows, self.origin)),
        )
        return propagate(wider), at, tuple(ticks.tolist())


class OutOfTimeError(Exception):
    """The time was over before every combination was simulated."""


def simulated_table(
    instance: BoundInstance, model: LoweredModel, objective: str | None, budget: Budget | None = None
) -> SimulatedTable:
    """Return the table of a problem; `model` is its lowered, structural part, `objective` a simulated quantity or None.

    Raises:
        OutOfTimeError: the budget's time was over before the table was full.
        LimitError: more than a million combinations, or the rules entangle too many parameters to list them.
    """
    rules = simulated_rules(instance)
    names = frozenset({objective} if objective else ()).union(*(simulated_names(rule.term) for rule in rules))
    where = rules[0].where if rules else Where()
    texts = "; ".join(rule.text for rule in rules)
    origin = Origin(", ".join(rule.name for rule in rules) or str(objective), texts, where)
    budget = budget or Budget()
    columns = deciding_columns(instance, model, names, budget)
    designs = instance.parameter_set.batch(_representatives(model, columns))
    times = _simulated_in_time(instance, names, designs, budget)
    keep = obeyed(rules, designs, times)
    kept = {name: own[keep] for name, own in times.items()}
    return SimulatedTable(columns, designs.codes[keep], kept, origin, bool(obeyed((), designs, times).any()))


def _simulated_in_time(instance: BoundInstance, names: Collection[str], designs: DesignBatch, budget: Budget) -> Times:
    """Return the times of the designs; OutOfTimeError when the time is over before the last block."""
    blocks = []
    for start in range(0, max(1, len(designs)), BLOCK):
        if budget.out_of_time():
            raise OutOfTimeError
        rows = designs.codes[start : start + BLOCK]
        blocks.append(simulate(instance, names, designs.parameter_set.batch(rows)))
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def simulated_rules(instance: BoundInstance) -> list[Constraint]:
    """Return the rules on simulated quantities."""
    return [rule for rule in instance.parameter_set.constraints if rule.simulated]


def _without_rules(instance: BoundInstance, objective: str) -> BoundInstance:
    """Return the problem with another objective, and without rules on simulated quantities."""
    structural = tuple(rule for rule in instance.parameter_set.constraints if not rule.simulated)
    parameter_set = replace(instance.parameter_set, constraints=structural)
    return replace(instance, parameter_set=parameter_set, objective=objective)


def _one_of_each(instance: BoundInstance, names: Collection[str]) -> list[str]:
    """Return the quantities to simulate: of a training step, which has one time, any one."""
    return sorted(names) if is_inference(instance.parameter_set) else sorted(names)[:1]


def simulate(instance: BoundInstance, names: Collection[str], designs: DesignBatch) -> Times:
    """Return the times of the named quantities; NO_TIME for a design that cannot run."""
    found = {}
    for name in _one_of_each(instance, names):
        simulator = simulator_of(_without_rules(instance, name))
        found[name] = simulator.evaluate(kernel_columns(designs), strict=False).step_ticks
    return {name: found[name] if name in found else next(iter(found.values())) for name in names}


def obeyed(rules: Sequence[Constraint], designs: DesignBatch, times: Times) -> NDArray[np.bool_]:
    """Return which designs, with these times, can run and obey the rules on simulated quantities."""
    verdict = np.ones(len(designs), dtype=bool)
    for ticks in times.values():
        verdict &= ticks != NO_TIME
    tick = energy_of(1, designs.parameter_set) if ENERGY.name in times else Fraction(1)
    for rule in rules:
        term = in_ticks(rule.term, work_of(designs.parameter_set), tick)
        values = {**designs.value_columns(rule.term.columns), **times}
        verdict &= np.asarray(evaluate(term, values, len(designs)), dtype=bool)
    return verdict


def work_of(parameter_set: ParameterSet) -> int:
    """Return what, divided by the ticks of a rate, is the rate (samples per second)."""
    return samples_of(parameter_set) * TICKS_PER_SECOND


def is_rate(term: Term) -> bool:
    """Tell whether a term is a simulated rate; every other simulated quantity is a time, or an energy."""
    return isinstance(term, Simulated) and term.unit is Unit.NONE


def is_energy(term: Term) -> bool:
    """Tell whether a term is a simulated energy, which is a time at a known power."""
    return isinstance(term, Simulated) and term.unit is Unit.ENERGY


def in_ticks(term: Term, work: int, tick: Fraction = Fraction(1)) -> Term:
    """Return a rule with the times of simulated quantities as columns.

    A rate is `work` / ticks, and no whole number: throughput <= x means work <= x * ticks, exactly. Neither is an
    energy, where a `tick` is n / d microjoules: energy <= x means n * ticks <= d * x.
    """
    if isinstance(term, Simulated):
        return ColumnTerm(term.name, LONGEST, Unit.TIME)
    if not isinstance(term, Apply):
        return term
    if term.operator in RELATIONS and any(map(is_rate, term.operands)):
        left, right = term.operands
        return Apply(term.operator, _compared(left, right, work))
    if term.operator in RELATIONS and any(map(is_energy, term.operands)):
        left, right = term.operands
        return Apply(term.operator, (_scaled(left, work, tick), _scaled(right, work, tick)))
    return Apply(term.operator, tuple(in_ticks(operand, work, tick) for operand in term.operands), term.unit)


def _scaled(side: Term, work: int, tick: Fraction) -> Term:
    """Return a side of a comparison of energies, times the divisor of the energy of a tick."""
    factor = tick.numerator if is_energy(side) else tick.denominator
    return Apply("*", (Constant(factor), in_ticks(side, work, tick)))


def _compared(left: Term, right: Term, work: int) -> tuple[Term, Term]:
    """Return the sides of a comparison with a rate: both times its ticks, or of two rates the ticks the other way."""
    if is_rate(left) and is_rate(right):
        return in_ticks(right, work), in_ticks(left, work)
    if is_rate(left):
        return Constant(work), Apply("*", (right, in_ticks(left, work)))
    return Apply("*", (left, in_ticks(right, work))), Constant(work)


def deciding_columns(
    instance: BoundInstance, model: LoweredModel, names: Collection[str], budget: Budget
) -> tuple[int, ...]:
    """Return the open columns that may change one of the quantities, and those that a rule on them reads besides.

    Raises:
        OutOfTimeError: the time was over before each was examined.
    """
    columns = [column.name for column in instance.parameter_set.columns]
    dead = set(columns)
    for name in _one_of_each(instance, names):
        dead.intersection_update(dead_knobs(_without_rules(instance, name), budget=budget).dead)
        if budget.out_of_time():
            raise OutOfTimeError
    dead = dead.difference(*(rule.term.columns for rule in simulated_rules(instance)))
    return tuple(c for c in range(model.designs) if len(model.allowed[c]) > 1 and columns[c] not in dead)


# --- the combinations that occur ------------------------------------------------------------------------------


def _representatives(model: LoweredModel, columns: Collection[int]) -> Codes:
    """Return a feasible design with each combination of the columns that feasible designs have.

    With these columns first, the combinations are the diagram's prefixes, and the first path through a prefix is a
    design that has it.
    """
    feasible = feasible_set(model, first=columns)
    depths = [_depth(diagram, columns, model.designs) for diagram in feasible.diagrams]
    counts = [_prefixes(diagram, depth) for diagram, depth in zip(feasible.diagrams, depths, strict=True)]
    total = math.prod(counts)
    if total > SIMULATED_ROWS:
        raise too_many_rows(total, SIMULATED_ROWS, "are simulated", choices_of(model, columns))
    codes = np.zeros((total, len(model.columns)), dtype=np.int32)
    repeats = total
    for diagram, depth, count in zip(feasible.diagrams, depths, counts, strict=True):
        repeats //= max(1, count)
        _, sizes = diagram.prefixes(depth)
        first = np.cumsum(sizes) - sizes
        paths = np.repeat(diagram.unrank(first.astype(diagram.counts[0].dtype)), repeats, axis=0)
        codes[:, list(diagram.order)] = np.tile(paths, (total // max(1, len(paths)), 1))
    return codes[:, : model.designs]


def _depth(diagram: Diagram, columns: Collection[int], designs: int) -> int:
    """Return how many columns of a diagram come before the first design column that is not among the given ones."""
    others = (at for at, column in enumerate(diagram.order) if column < designs and column not in columns)
    return next(others, len(diagram.order))


def _prefixes(diagram: Diagram, depth: int) -> int:
    if depth == 0:
        return min(1, diagram.size)
    return with_counts(diagram.order[:depth], diagram.layers[:depth], diagram.counts[0].dtype).size


def choices_of(model: LoweredModel, columns: Collection[int]) -> Mapping[str, int]:
    """Return how many values each of the columns may have, by name."""
    return {model.columns[column].name: len(model.allowed[column]) for column in columns}


def too_many_rows(rows: int, limit: int, what: str, choices: Mapping[str, int]) -> LimitError:
    """Return the refusal of a table: how large it would be, which columns to fix, and what does without."""
    widest = sorted(choices, key=lambda name: -choices[name])[:SHOWN]
    shown = ", ".join(f"{name} ({choices[name]} values)" for name in widest)
    return LimitError(
        f"what is simulated depends on {len(choices)} free parameters in {rows:,} combinations; up to {limit:,} {what}",
        hint=f"fix some of them: {shown}; {_INSTEAD}" if widest else _INSTEAD,
    )
