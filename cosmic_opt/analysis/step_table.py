"""The simulated step as an exact table over the columns that decide it, for solvers that know no simulator.

The table has a row for every combination of these columns that some feasible design has. Columns proved to have no
effect on the step are left out (see `dead_knobs`), and so are those that the rules leave one value; every design with
a row's combination takes the step of the row. A design that the simulator cannot run has no row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.dead_knobs import dead_knobs
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.feasibility.diagram import Diagram, with_counts
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.model import IRColumn, LoweredModel, Origin, Table
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.psa.term import RELATIONS, SAFE, Apply, ColumnTerm, Constant, Simulated, Term
from cosmic_opt.search.score import kernel_columns, simulator_of
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.solvers.base import Codes
from cosmic_opt.units import TICKS_PER_SECOND, Unit

IntArray = NDArray[np.int64]

STEP, THROUGHPUT = "step_time", "throughput"
SIMULATED_ROWS = 1_000_000
"""More combinations than this are not simulated: a second or two, and a quarter of a gigabyte."""
LONGEST = (0, SAFE - 1)
"""The range of a step: 46 days at most, within 62 bits."""
SHOWN = 4
"""Columns to fix that a refusal names."""
_INSTEAD = "'solve' and 'pareto' optimise the step itself without a table"


@dataclass(frozen=True)
class StepTable:
    """The step in ticks of every combination of `columns` that the rules on simulated quantities allow.

    `designs` [n, design columns] are codes: a feasible design for each.
    """

    columns: tuple[int, ...]
    designs: Codes
    ticks: IntArray
    origin: Origin

    def __len__(self) -> int:
        return len(self.designs)

    @property
    def rows(self) -> Codes:
        """The combinations, [n, columns]."""
        return self.designs[:, list(self.columns)]

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The different steps, ascending: what the codes of the step's column stand for."""
        return tuple(np.unique(self.ticks).tolist())

    def allow(self, model: LoweredModel) -> LoweredModel:
        """Return the model with the rows as a rule."""
        rule = Table(self.columns, self.rows, self.origin)
        return propagate(replace(model, constraints=(*model.constraints, rule)))

    def define(self, model: LoweredModel) -> tuple[LoweredModel, int]:
        """Return the model with the step as a helper column, and the position of that column."""
        at = len(model.columns)
        codes = np.searchsorted(np.array(self.values, dtype=np.int64), self.ticks)
        rows = np.column_stack([self.rows, codes]).astype(np.int32)
        size = max(1, len(self.values))
        wider = replace(
            model,
            columns=(*model.columns, IRColumn(STEP, size, helper=True)),
            allowed=(*model.allowed, np.arange(size, dtype=np.int32)),
            definitions=(*model.definitions, Table((*self.columns, at), rows, self.origin)),
        )
        return propagate(wider), at


def step_table(instance: BoundInstance, model: LoweredModel) -> StepTable:
    """Return the table of a problem; `model` is its lowered, structural part.

    Raises:
        SpecError: the job has no step: it is no training job.
        LimitError: more than a million combinations, or the rules entangle too many parameters to list them.
    """
    parameter_set = instance.parameter_set
    if STEP not in parameter_set.quantities:
        raise SpecError("only the step of a training job is tabulated for a solver", hint="use solve")
    rules = [rule for rule in parameter_set.constraints if rule.simulated]
    origin = Origin(
        ", ".join(rule.name for rule in rules) or STEP, "; ".join(rule.text for rule in rules), _where(rules)
    )
    columns = deciding_columns(instance, model)
    designs = parameter_set.batch(_representatives(model, columns))
    ticks = simulator_of(instance).evaluate(kernel_columns(designs), strict=False).step_ticks
    keep = obeyed(rules, designs, ticks)
    return StepTable(columns, designs.codes[keep], ticks[keep], origin)


def obeyed(rules: Sequence[Constraint], designs: DesignBatch, ticks: IntArray) -> NDArray[np.bool_]:
    """Return which designs, with steps of so many ticks, can run and obey the rules on simulated quantities."""
    verdict = np.asarray(ticks != NO_TIME)
    batch = int(designs.parameter_set.data["global_batch"])
    for rule in rules:
        term = in_steps(rule.term, batch * TICKS_PER_SECOND)
        values = {**designs.value_columns(rule.term.columns), STEP: ticks}
        verdict &= np.asarray(evaluate(term, values, len(designs)), dtype=bool)
    return verdict


def in_steps(term: Term, work: int) -> Term:
    """Return a rule with the step as a column, in ticks.

    Throughput is `work` / step, and no whole number: throughput <= x means work <= x * step, exactly.
    """
    if isinstance(term, Simulated):
        assert term.name == STEP, "a throughput is only ever compared"
        return ColumnTerm(STEP, LONGEST, Unit.TIME)
    if not isinstance(term, Apply):
        return term
    if term.operator in RELATIONS and any(_is_throughput(operand) for operand in term.operands):
        return Apply(term.operator, tuple(_times_step(operand, work) for operand in term.operands))
    return Apply(term.operator, tuple(in_steps(operand, work) for operand in term.operands), term.unit)


def _is_throughput(term: Term) -> bool:
    return isinstance(term, Simulated) and term.name == THROUGHPUT


def _times_step(term: Term, work: int) -> Term:
    """Return one side of a comparison with a throughput, times the step."""
    if _is_throughput(term):
        return Constant(work)
    return Apply("*", (term, ColumnTerm(STEP, LONGEST, Unit.NONE)))


def deciding_columns(instance: BoundInstance, model: LoweredModel) -> tuple[int, ...]:
    """Return the open columns that may change the step, and those that a rule on it reads besides."""
    parameter_set = instance.parameter_set
    structural = tuple(rule for rule in parameter_set.constraints if not rule.simulated)
    plain = replace(instance, parameter_set=replace(parameter_set, constraints=structural), objective=STEP)
    dead = set(dead_knobs(plain).dead)
    for rule in parameter_set.constraints:
        if rule.simulated:
            dead -= rule.term.columns
    names = [column.name for column in parameter_set.columns]
    return tuple(c for c in range(model.designs) if len(model.allowed[c]) > 1 and names[c] not in dead)


def _where(rules: Sequence[Constraint]) -> Where:
    return rules[0].where if rules else Where()


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
        raise too_many_rows(total, SIMULATED_ROWS, "is simulated", choices_of(model, columns))
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
        f"the step depends on {len(choices)} free parameters in {rows:,} combinations; up to {limit:,} {what}",
        hint=f"fix some of them: {shown}; {_INSTEAD}" if widest else _INSTEAD,
    )
