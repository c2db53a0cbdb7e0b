"""The cheapest changes that leave a design: rules dropped, numbers changed, values allowed; each proved cheapest.

Sets of dropped rules are tried in order of their number, since any change on top only adds to the cost. With the
other rules in force tables stay small, and the least change of numbers and domains is a look at each design, or one
solve where there are too many.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, count, product

import numpy as np

from cosmic_opt.analysis.blocked import Block, Left, Looks, block_of, other_keys
from cosmic_opt.analysis.change import Allow, Change, Drop, Relaxation, Renumber, change_key
from cosmic_opt.analysis.relaxed_problem import Costs, Relaxable, RelaxedProblem, relax
from cosmic_opt.analysis.relaxed_table import RelaxedTable
from cosmic_opt.errors import EngineDisagreement, LimitError, Where
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.check import recheck
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Linear, LoweredModel, Origin
from cosmic_opt.ir.passes.propagate import propagate
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Constraint
from cosmic_opt.solvers.base import Limits, SolveStatus
from cosmic_opt.solvers.registry import choose_solver, load_solver

MOST_BLOCKS = 64
"""After so many relaxations that leave nothing which runs, the search ends."""


@dataclass(frozen=True)
class Relaxations:
    """Relaxations in order of cost.

    `left_out` counts those that leave designs and none that runs; `complete` says that the search went on until there
    were enough, or no more.
    """

    found: tuple[Relaxation, ...]
    left_out: int = 0
    complete: bool = True


def cheapest_relaxations(
    relaxable: Relaxable, costs: Costs, limit: int, *, time_limit_s: float | None = None, looks: Looks | None = None
) -> Relaxations:
    """Return up to `limit` relaxations in order of cost; none contains all the changes of one before it.

    Listed are those that cost at most as much as the cheapest, or as one dropped rule where that is more; and, at any
    cost, the cheapest that drops no rule. When the time is spent, the list ends with what was not proved. With `looks`,
    those that leave nothing which runs are passed over, and what contains their changes is searched instead.
    """
    search = _Search(relaxable, costs, Limits(seconds=time_limit_s), looks)
    search.run(limit)
    return Relaxations(tuple(search.found), len(search.blocks), search.complete)


_UNASKED, _FOUND, _MORE = range(3)
"""What is known of a node: nothing; its next relaxation; that its drops alone are not enough, so that it costs more."""


@dataclass
class _Node:
    """A set of dropped rules, and the relaxed problem of the others, as a table or a model, once it is needed."""

    relaxable: Relaxable
    dropped: tuple[Constraint, ...]
    table: RelaxedTable | None = None
    tabulated: bool = False
    problem: RelaxedProblem | None = None
    model: LoweredModel | None = None
    cut: int = 0
    """How many of the relaxations found are excluded from `model`."""
    blocked: int = 0
    """How many of the blocks are."""

    @property
    def drops(self) -> frozenset[str]:
        """The keys of the dropped rules."""
        return frozenset(change_key(Drop(rule)) for rule in self.dropped)


@dataclass
class _Search:
    """Best-first over sets of dropped rules.

    An entry of the heap is a lower bound of what its node still holds, with the relaxation that attains it where one
    was found. Among equal costs fewer changes come first.
    """

    relaxable: Relaxable
    costs: Costs
    limits: Limits
    looks: Looks | None = None
    found: list[Relaxation] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    complete: bool = True
    unsettled: Fraction | None = None
    """A lower bound of the relaxations that a limit kept from being settled."""

    def run(self, limit: int) -> None:
        """Find relaxations until there are enough of them, or no more."""
        for relaxation in self.in_order():
            left = Left.RUNS if self.looks is None else self.looks.after(relaxation)
            if left is Left.RUNS:
                self.found.append(relaxation)
            else:
                self._block(relaxation, left)
            if len(self.found) == limit:
                return
            if len(self.blocks) == MOST_BLOCKS:
                self.complete = False
                return

    def _block(self, relaxation: Relaxation, left: Left) -> None:
        """Keep in mind that nothing runs after a relaxation; from there on, what rests on a sample is not proved."""
        assert self.looks is not None, "what leaves nothing which runs was looked at"
        block = block_of(self.relaxable, relaxation, left, self.looks, self.blocks, self.limits.out_of_time)
        self.blocks.append(block)
        if not block.exact:
            self._give_up(relaxation.cost)

    def _hopeless(self, dropped: frozenset[str]) -> bool:
        """Tell whether nothing runs after any relaxation that drops these rules and no others."""
        return any(dropped | self._other_keys <= block.covered for block in self.blocks)

    def _blocked(self, changed: frozenset[str]) -> bool:
        """Tell whether nothing runs after these changes, whatever to."""
        return any(changed <= block.covered for block in self.blocks)

    @cached_property
    def _other_keys(self) -> frozenset[str]:
        return other_keys(self.relaxable)

    def in_order(self) -> Iterator[Relaxation]:
        """Yield relaxations in order of cost; the caller puts each in `found` or in `blocks` before the next."""
        serial = count()
        heap: list[tuple[Fraction, int, int, int, _Node, Relaxation | None]] = []
        level = 0
        while True:
            while self._opens(level, heap[0][0] if heap else None):
                for node in self._nodes(level):
                    heapq.heappush(heap, (level * self.costs.drop, _UNASKED, 0, next(serial), node, None))
                level += 1
            if not heap or self._hopeless(frozenset(change_key(Drop(rule)) for rule in self.relaxable.droppable)):
                return
            if self.limits.out_of_time():
                self.complete = False
                yield from self._unproved(relaxation for *_, relaxation in sorted(heap) if relaxation is not None)
                return
            bound, state, _, _, node, relaxation = heapq.heappop(heap)
            if self._is_listed(bound, node) and relaxation is not None and not self._known(relaxation.changed):
                yield replace(relaxation, proved=self.unsettled is None or self.unsettled >= relaxation.cost)
            if self._known(node.drops) or not self._is_listed(bound, node, more=state == _MORE):
                continue
            if self._hopeless(node.drops):
                continue
            try:
                better = self._drops_alone(node, bound) if state == _UNASKED else self._cheapest_of(node)
            except LimitError:
                if state == _UNASKED:  # too entangled to count: the solver may still tell
                    heapq.heappush(heap, (bound, _MORE, 0, next(serial), node, None))
                else:
                    self._give_up(bound)
                continue
            if better is not None:
                heapq.heappush(heap, (better.cost, _FOUND, len(better.changes), next(serial), node, better))
            elif state == _UNASKED:
                heapq.heappush(heap, (bound, _MORE, 0, next(serial), node, None))

    def _unproved(self, pending: Iterable[Relaxation]) -> Iterator[Relaxation]:
        """Yield what is at hand when the time is spent: relaxations not yet proved next, else some set of drops."""
        for relaxation in pending:
            if not self._known(relaxation.changed) and not self._blocked(relaxation.changed):
                yield replace(relaxation, proved=False)
        if not self.found:
            yield from self._some_drops()

    def _some_drops(self) -> Iterator[Relaxation]:
        """Yield rules without which there is a design, though not without fewer of them: keep all that can be kept.

        There are none where what is enforced alone leaves no design.
        """
        dropped = list(self.relaxable.droppable)
        for rule in self.relaxable.droppable:
            rest = tuple(other for other in dropped if other is not rule)
            if _drops_alone(self._node(rest), Fraction(0)) is not None and self._run_without(rest):
                dropped = list(rest)
        found = _drops_alone(self._node(tuple(dropped)), self.costs.drop * len(dropped))
        if found is not None:
            yield replace(found, proved=False)

    def _run_without(self, rules: Iterable[Constraint]) -> bool:
        """Tell whether something may run without some rules; it does wherever nothing was found not to."""
        if self.looks is None or not self.blocks:
            return True
        return self.looks.without({rule.name for rule in rules}, ()) is Left.RUNS

    def _opens(self, level: int, least: Fraction | None) -> bool:
        """Tell whether it is the turn of the sets of `level` dropped rules; `least` is the best bound of the others."""
        cost = level * self.costs.drop
        if level > len(self.relaxable.droppable) or (least is not None and least < cost):
            return False
        return not self.found or cost <= self._most()

    def _most(self) -> Fraction:
        return max(self.found[0].cost, self.costs.drop)

    def _is_listed(self, bound: Fraction, node: _Node, *, more: bool = False) -> bool:
        """Tell whether relaxations of the node that cost at least (`more`: more than) the bound are to be listed."""
        if not self.found or bound < self._most() or (bound == self._most() and not more):
            return True
        return not node.dropped and all(any(isinstance(c, Drop) for c in found.changes) for found in self.found)

    def _nodes(self, dropped: int) -> Iterator[_Node]:
        for rules in combinations(reversed(self.relaxable.droppable), dropped):
            node = self._node(rules)
            if not self._known(node.drops) and not self._hopeless(node.drops):
                yield node

    def _node(self, rules: tuple[Constraint, ...]) -> _Node:
        return _Node(self.relaxable.without([rule.name for rule in rules]), rules)

    def _known(self, changed: frozenset[str]) -> bool:
        """Tell whether these changes contain all of those of a relaxation found."""
        return any(relaxation.changed <= changed for relaxation in self.found)

    def _drops_alone(self, node: _Node, cost: Fraction) -> Relaxation | None:
        """Return the node's drops as a relaxation, unless nothing runs after them."""
        return None if self._blocked(node.drops) else _drops_alone(node, cost)

    def _cheapest_of(self, node: _Node) -> Relaxation | None:
        """Return the node's cheapest relaxation that contains none of those found and is not blocked; None: no more."""
        if not node.tabulated:
            node.table = RelaxedTable.of(node.relaxable, self.costs, worth=bool(node.dropped))
            node.tabulated = True
        if node.table is None:
            return self._solved(node)
        least = node.table.cheapest([other.changed - node.drops for other in self.found], self.blocks, node.drops)
        if least is None:
            return None
        cost = least.cost + self.costs.drop * len(node.dropped)
        return replace(least, changes=(*least.changes, *map(Drop, node.dropped)), cost=cost)

    def _solved(self, node: _Node) -> Relaxation | None:
        """Return the cheapest relaxation of a node with too many designs to list."""
        if node.problem is None or node.model is None:
            node.problem = relax(node.relaxable, self.costs, worth=bool(node.dropped))
            node.model = lower(node.problem.parameter_set)
        problem = node.problem
        for relaxation in self.found[node.cut :]:
            node.model = _cut(node.model, problem, node, relaxation)
        node.cut = len(self.found)
        for block in self.blocks[node.blocked :]:
            node.model = self._without_block(node.model, problem, node, block)
        node.blocked = len(self.blocks)
        if node.model.infeasible:
            return None
        solver = load_solver(choose_solver(node.model, problem.objective))
        result = solver.solve(node.model, problem.objective, limits=Limits(seconds=self.limits.remaining_s()))
        least = self.costs.drop * len(node.dropped)
        if result.status in (SolveStatus.FEASIBLE, SolveStatus.UNKNOWN):
            self._give_up(least + problem.cost_of(result.bound or 0))
        if not len(result.codes):
            return None
        recheck(node.model, problem.parameter_set, result.codes, solver.name)
        (point,) = problem.parameter_set.batch(result.codes).points()
        changes, cost = _read(problem, node.relaxable, self.costs, point)
        if result.status is SolveStatus.OPTIMAL and result.value != cost * problem.scale + len(changes):
            raise EngineDisagreement(f"{len(changes)} changes cost {cost}, {solver.name} says {result.value}")
        design = {column.name: point[column.name] for column in node.relaxable.wide.columns}
        return Relaxation((*changes, *map(Drop, node.dropped)), least + cost, design)

    def _without_block(self, model: LoweredModel, problem: RelaxedProblem, node: _Node, block: Block) -> LoweredModel:
        """Return the model without what a block tells; a number of its relaxation does not become another one."""
        changes = block.relaxation.changes
        if node.drops <= block.covered:
            model = _beyond(model, problem, node.relaxable, block.covered, {})
        if not block.relaxation.changed <= block.covered and node.drops <= block.relaxation.changed:
            values = {change.column.name: change.value for change in changes if isinstance(change, Allow)}
            numbers = [change for change in changes if isinstance(change, Renumber)]
            if numbers:
                self._give_up(block.relaxation.cost)
            model = _beyond(model, problem, node.relaxable, {change_key(change) for change in numbers}, values)
        return model

    def _give_up(self, bound: Fraction) -> None:
        self.unsettled = bound if self.unsettled is None else min(self.unsettled, bound)


def _drops_alone(node: _Node, cost: Fraction) -> Relaxation | None:
    """Return the node's drops as a relaxation if they leave a design of the problem, without any other change."""
    feasible = feasible_set(lower(node.relaxable.own))
    if feasible.size == 0:
        return None
    design = node.relaxable.own.batch(feasible.unrank(np.zeros(1, dtype=np.int64)))
    return Relaxation(tuple(map(Drop, node.dropped)), cost, next(design.points()))


def _read(
    problem: RelaxedProblem, relaxable: Relaxable, costs: Costs, point: Mapping[str, Value]
) -> tuple[list[Change], Fraction]:
    """Return the changes that a design of the relaxed problem makes, and their cost."""
    changes: list[Change] = []
    cost = Fraction(0)
    for slack in problem.slacks:
        by = slack.change(point)
        if by:
            changes.append(Renumber(slack.number, slack.number.value + by))
            cost += Fraction(abs(by), abs(slack.number.value))
    for column in relaxable.wide.columns:
        if point[column.name] not in relaxable.own.column(column.name).codes:
            changes.append(Allow(column, point[column.name]))
            cost += costs.value
    return changes, cost


def _cut(model: LoweredModel, problem: RelaxedProblem, node: _Node, relaxation: Relaxation) -> LoweredModel:
    """Return the model without the relaxations that, with the node's drops, change all of what this one changes."""
    columns: list[int] = []
    weights: list[tuple[int, ...]] = []
    for change in relaxation.changes:
        if isinstance(change, Drop):
            if change.rule.name not in {rule.name for rule in node.dropped}:
                return model
            continue
        flag = _flag(problem, node.relaxable, change)
        if flag is None:
            return model
        columns.append(problem.parameter_set.positions[flag[0]])
        weights.append(flag[1])
    origin = Origin("relaxation", "another set of changes", Where())
    cut = Linear(tuple(columns), tuple(weights), None, len(columns) - 1, origin)
    return propagate(replace(model, constraints=(*model.constraints, cut)))


def _beyond(
    model: LoweredModel,
    problem: RelaxedProblem,
    relaxable: Relaxable,
    keys: Collection[str],
    values: Mapping[str, Value],
) -> LoweredModel:
    """Return the model with some change beyond those called `keys`, and beyond these values of columns."""
    columns: list[int] = []
    weights: list[tuple[int, ...]] = []
    for column in relaxable.wide.columns:
        inside = {*relaxable.own.column(column.name).values, *(values[name] for name in values if name == column.name)}
        if change_key(Allow(column, column.values[0])) not in keys and not inside >= set(column.values):
            columns.append(problem.parameter_set.positions[column.name])
            weights.append(tuple(int(value not in inside) for value in column.values))
    for slack in problem.slacks:
        if change_key(Renumber(slack.number, 0)) not in keys:
            for digit in (*slack.up, *slack.down):
                columns.append(problem.parameter_set.positions[digit.name])
                weights.append(tuple(int(value != 0) for value in digit.values))
    if not columns:
        return replace(model, allowed=tuple(codes[:0] for codes in model.allowed))
    beyond = Linear(tuple(columns), tuple(weights), 1, None, _ORIGIN)
    return propagate(replace(model, constraints=(*model.constraints, beyond, *_one_way(problem))))


_ORIGIN = Origin("relaxation", "a change after which something may run", Where())


def _one_way(problem: RelaxedProblem) -> Iterator[Linear]:
    """Yield that no number moves up and down at once, which would be no change and yet count as one."""
    for slack in problem.slacks:
        for pair in product(slack.up, slack.down):
            columns = tuple(problem.parameter_set.positions[digit.name] for digit in pair)
            weights = tuple(tuple(int(value != 0) for value in digit.values) for digit in pair)
            yield Linear(columns, weights, None, 1, _ORIGIN)


def _flag(
    problem: RelaxedProblem, relaxable: Relaxable, change: Renumber | Allow
) -> tuple[str, tuple[int, ...]] | None:
    """Return the column that tells whether a number or domain is changed, and which codes say so; None: it cannot."""
    if isinstance(change, Allow):
        own = relaxable.own.column(change.column.name).codes
        return change.column.name, tuple(int(value not in own) for value in change.column.values)
    for slack in problem.slacks:
        if slack.number == change.number:
            return slack.changed.name, (0, 1)
    return None
