"""Relaxations of generated problems by brute force: every design, every way to let it in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from cosmic_opt.analysis.blocked import Left
from cosmic_opt.analysis.change import Allow, Drop, Relaxation, Renumber
from cosmic_opt.analysis.relaxed_edits import rule_after
from cosmic_opt.analysis.relaxed_problem import MOST_CHANGE, Costs, Relaxable
from cosmic_opt.psa.bind import Names, bind_rule
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import evaluate, holds
from cosmic_opt.psa.expr import Operation
from cosmic_opt.psa.family import Family, numbered
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.term import Apply, Term
from tests.strategies import Source, brute_force, whole_grid

ONE = re.compile(r"(?P<left>.+) (?P<op><=|>=|==|<|>) (?P<number>-?\d+)")
CHAIN = re.compile(r"(?P<low>-?\d+) <= .+ < (?P<high>-?\d+)")
Changed = frozenset[str]


def bound(source: Source, columns: tuple[Column, ...], texts: dict[str, str]) -> ParameterSet:
    """Return the source over other columns and with other rules (name to text)."""
    axis = numbered("dim", int(source.data["dims"]))
    families = {column.parameter: Family(column.parameter, (axis,)) for column in columns if column.index}
    names = Names(
        columns={column.name: column.term for column in columns},
        data=source.data,
        units={},
        families=families,
        quantities=source.quantities,
        indices={"dim": axis},
        categories={
            column.name: frozenset(str(value) for value in column.values)
            for column in source.bind().columns
            if isinstance(column.values[0], str)
        },
    )
    rules = (Constraint(name, text, bind_rule(parse_rule(text), text, names)) for name, text in texts.items())
    return ParameterSet(columns, tuple(rules), source.data, source.quantities)


def narrowed(source: Source, chosen: dict[str, tuple[Value, ...]]) -> Relaxable:
    """Return the source with the values of some columns narrowed, which may be allowed back."""
    wide = source.bind()
    columns = tuple(replace(column, values=chosen.get(column.name, column.values)) for column in wide.columns)
    return Relaxable(bound(source, columns, {rule.name: rule.text for rule in wide.constraints}), wide)


def after(source: Source, relaxable: Relaxable, relaxation: Relaxation) -> ParameterSet:
    """Return the problem with the changes made in its own text."""
    texts = {rule.name: rule.text for rule in relaxable.own.constraints}
    values = {column.name: column.values for column in relaxable.own.columns}
    places: dict[str, dict[tuple[int, int], tuple[int, object]]] = {}
    for change in relaxation.changes:
        match change:
            case Drop(rule):
                del texts[rule.name]
            case Allow(column, value):
                values[column.name] = (*values[column.name], value)
            case Renumber(number, new):
                places.setdefault(number.rule, {})[number.start, number.stop] = (new, number.unit)
    for rule in relaxable.own.constraints:
        if rule.name in places:
            texts[rule.name] = rule_after(rule, places[rule.name])  # type: ignore[arg-type]
    columns = tuple(replace(column, values=values[column.name]) for column in relaxable.own.columns)
    return bound(source, columns, texts)


def is_simple(rule: Constraint) -> bool:
    """Tell whether brute force can read the rule's numbers: no conjunction but a chain of comparisons."""
    syntax = parse_rule(rule.text)
    conjunction = isinstance(syntax, Operation) and syntax.operator == "and"
    return not conjunction or CHAIN.fullmatch(rule.text) is not None


@dataclass(frozen=True)
class Way:
    changed: Changed
    cost: Fraction


def _number_ways(rule: Constraint, point: dict[str, np.ndarray]) -> Way | None:
    """Return the least change of the rule's own literal that lets a design in, which breaks it."""
    term = rule.term
    one = ONE.fullmatch(rule.text)
    if one and isinstance(term, Apply) and term.operator == one["op"]:
        at = len(rule.text) - len(one["number"].lstrip("-"))
        return _needed(rule, term.operands[0], one["op"], int(one["number"]), at, point)
    chain = CHAIN.fullmatch(rule.text)
    if chain and isinstance(term, Apply) and term.operator == "and" and len(term.operands) == 2:
        low, high = term.operands
        assert isinstance(low, Apply)
        assert isinstance(high, Apply)
        if not evaluate(low, point, 1)[0]:
            return _needed(
                rule, low.operands[1], ">=", int(chain["low"]), len(chain["low"]) - len(chain["low"].lstrip("-")), point
            )
        at = len(rule.text) - len(chain["high"].lstrip("-"))
        return _needed(rule, high.operands[0], "<", int(chain["high"]), at, point)
    return None


def _needed(rule: Constraint, left: Term, operator: str, old: int, at: int, point: dict[str, np.ndarray]) -> Way | None:
    value = int(evaluate(left, point, 1)[0])
    new = {"<=": value, "<": value + 1, ">=": value, ">": value - 1, "==": value}[operator]
    if old == 0 or abs(new - old) > MOST_CHANGE * abs(old):
        return None
    return Way(frozenset({f"number {rule.name} {at}"}), Fraction(abs(new - old), abs(old)))


@dataclass(frozen=True)
class Running:
    """Looks at the designs that changes leave: those of `codes` of the whole domains run."""

    source: Source
    relaxable: Relaxable
    codes: frozenset[tuple[int, ...]]
    data_read: frozenset[str] = frozenset()

    def after(self, relaxation: Relaxation) -> Left:
        return self._left(after(self.source, self.relaxable, relaxation))

    def without(self, rules: Collection[str], parameters: Collection[str]) -> Left:
        kept = {rule.name: rule.text for rule in self.relaxable.own.constraints if rule.name not in rules}
        pairs = zip(self.relaxable.own.columns, self.relaxable.wide.columns, strict=True)
        columns = tuple(wide if wide.parameter in parameters else own for own, wide in pairs)
        return self._left(bound(self.source, columns, kept))

    def _left(self, parameter_set: ParameterSet) -> Left:
        wide = self.relaxable.wide
        for values in parameter_set.batch(brute_force(parameter_set)).points():
            if tuple(wide.design(values).codes[0].tolist()) in self.codes:
                return Left.RUNS
        return Left.NONE


def every_way(
    relaxable: Relaxable, costs: Costs, runs: frozenset[tuple[int, ...]] | None = None
) -> dict[Changed, Fraction]:
    """Return the least cost of every set of changes that lets in some design of the whole domains (of `runs`)."""
    wide, own = relaxable.wide, relaxable.own
    batch = wide.batch(whole_grid(wide))
    verdicts = [holds(rule, batch) for rule in wide.constraints]
    columns = batch.value_columns()
    ways: dict[Changed, Fraction] = {}
    for row, values in enumerate(batch.points()):
        if runs is not None and tuple(batch.codes[row].tolist()) not in runs:
            continue
        allowed = frozenset(f"allow {n}" for n, value in values.items() if value not in own.column(n).codes)
        base = Way(allowed, costs.value * len(allowed))
        point = {name: array[row : row + 1] for name, array in columns.items()}
        choices = []
        for rule, verdict in zip(wide.constraints, verdicts, strict=True):
            if not verdict[row]:
                number = _number_ways(rule, point)
                choices.append([Way(frozenset({f"drop {rule.name}"}), costs.drop), *([number] if number else [])])
        for chosen in itertools.product(*choices):
            changed = base.changed.union(*(way.changed for way in chosen))
            cost = base.cost + sum(way.cost for way in chosen)
            ways[changed] = min(cost, ways.get(changed, cost))
    return ways


def expected_costs(ways: dict[Changed, Fraction], costs: Costs) -> list[Fraction]:
    """Return the costs of the list of relaxations that the definition asks for."""
    kept: list[tuple[Changed, Fraction]] = []
    for changed, cost in sorted(ways.items(), key=lambda pair: (pair[1], len(pair[0]))):
        dropless = not any(key.startswith("drop") for key in changed)
        first = not any(not any(key.startswith("drop") for key in other) for other, _ in kept)
        listed = not kept or cost <= max(kept[0][1], costs.drop) or (dropless and first)
        if listed and not any(other <= changed for other, _ in kept):
            kept.append((changed, cost))
    return [cost for _, cost in kept]
