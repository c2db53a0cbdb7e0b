"""Data that rules read without comparing with them alone: inside an expression, or through a quantity.

No solver sees such a number, so the least change of it is found by bisection: where every rule that reads it is easier
to obey the larger (or the smaller) it is, the problems that have a design are those on one side of a single value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from cosmic_opt.analysis.change import Relaxation, Renumber
from cosmic_opt.analysis.relaxed_edits import spelled
from cosmic_opt.analysis.relaxed_problem import MOST_CHANGE
from cosmic_opt.analysis.rule_numbers import RuleNumber
from cosmic_opt.catalog.bind import bind
from cosmic_opt.catalog.data import SYSTEM
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.expr import Aggregate, Name, Number, Operation, Syntax, children
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.solvers.base import Limits
from cosmic_opt.workloads.serving_quantities import MOST_BYTES, POOLS, knob_name

GROWING: Mapping[str, frozenset[str]] = {
    "memory_capacity": frozenset(
        knob_name(pool, name) for pool in ("", *POOLS) for name in ("cache_room_per_npu", "headroom_per_npu")
    )
}
"""Quantities that take in a datum, and are the larger the larger it is."""
UP, DOWN = 1, -1
Ways = frozenset[int]
"""How a term or a verdict may move when the datum grows: up, down, both (not known which), or neither."""
BOTH: Ways = frozenset({UP, DOWN})


@dataclass(frozen=True)
class HiddenDatum:
    """A datum that rules read, not alone on a side; `ways` tell where changes of it may help them."""

    name: str
    value: int
    ways: Ways

    def at(self, edits: Edits, value: int) -> Edits:
        """Return edits of the same problem with another value of the datum."""
        others = tuple((name, text) for name, text in edits.set if name != self.name)
        return replace(edits, set=(*others, (self.name, spelled(value, SYSTEM[self.name].unit))))

    def cost(self, value: int) -> Fraction:
        """Return what a change to a value costs: it, relative to the datum."""
        return Fraction(abs(value - self.value), self.value)

    @property
    def farthest(self) -> int:
        """The value that helps most, of those that a number may be changed to."""
        datum, most = SYSTEM[self.name], MOST_CHANGE * self.value
        if DOWN in self.ways:
            return max(datum.low, self.value - most)
        return max(self.value, min(datum.high, self.value + most, int(MOST_BYTES) // 2))


def hidden_data(parameter_set: ParameterSet, names: Collection[str]) -> list[HiddenDatum]:
    """Return those of the named data that a structural rule reads, with the ways that changes of them may help."""
    rules = [rule for rule in parameter_set.constraints if not rule.simulated]
    given = {name: value for name in names if isinstance(value := parameter_set.data.get(name), int) and value > 0}
    found = [HiddenDatum(name, value, helpful_ways(rules, name)) for name, value in given.items()]
    return [datum for datum in found if datum.ways]


def reads_through_quantities(rules: Sequence[Constraint], name: str) -> bool:
    """Tell whether some rule names a quantity that takes in the datum."""
    return any(_reads(parse_rule(rule.text, rule.where), GROWING.get(name, frozenset())) for rule in rules)


def helpful_ways(rules: Sequence[Constraint], name: str) -> Ways:
    """Return the ways in which a change of a datum may make some rule true; none when no rule reads it."""
    growing = GROWING.get(name, frozenset()) | {name}
    return frozenset[int]().union(*(_ways(parse_rule(rule.text, rule.where), growing) for rule in rules))


def _reads(syntax: Syntax, names: Collection[str]) -> bool:
    return (isinstance(syntax, Name) and syntax.name in names) or any(
        _reads(child, names) for child in children(syntax)
    )


def _ways(syntax: Syntax, growing: Collection[str]) -> Ways:
    """Return how a term (a verdict: 0 or 1) may move when everything in `growing` grows."""
    if not _reads(syntax, growing):
        return frozenset()
    match syntax:
        case Name():
            return frozenset({UP})
        case Aggregate(kind, operands, _, _, None, _) if kind != "product":
            return frozenset[int]().union(*(_ways(operand, growing) for operand in operands))
        case Operation("+" | "and" | "or", operands, _):
            return frozenset[int]().union(*(_ways(operand, growing) for operand in operands))
        case Operation("neg" | "not", (operand,), _):
            return _against(_ways(operand, growing))
        case Operation("<=" | "<" | "implies", (left, right), _):
            return _against(_ways(left, growing)) | _ways(right, growing)
        case Operation(">=" | ">", (left, right), _):
            return _ways(left, growing) | _against(_ways(right, growing))
        case Operation("*", operands, _):
            read = [operand for operand in operands if _reads(operand, growing)]
            numbers = [operand for operand in operands if isinstance(operand, Number) and operand.value >= 0]
            return _ways(read[0], growing) if len(read) + len(numbers) == len(operands) and len(read) == 1 else BOTH
        case Operation("//", (left, Number(value, _, _)), _) if value > 0:
            return _ways(left, growing)
        case _:
            return BOTH


def _against(ways: Ways) -> Ways:
    return frozenset(-way for way in ways)


def least_change(spec: InstanceSpec, edits: Edits, datum: HiddenDatum, limits: Limits) -> Relaxation | None:
    """Return the least change of a datum that, alone, leaves a design; None where none does.

    Raises:
        LimitError: the rules relate too many parameters to tell, the datum may help in both ways, or time is spent.
    """
    if datum.ways == BOTH:
        raise LimitError(f"{datum.name} helps some rules as it grows, and others as it shrinks")
    without, having = datum.value, datum.farthest
    if having == without or not _designs(spec, datum.at(edits, having)).size:
        return None
    while abs(having - without) > 1:
        if limits.out_of_time():
            raise LimitError(f"the least change of {datum.name} was not found in time")
        middle = (having + without) // 2
        if _designs(spec, datum.at(edits, middle)).size:
            having = middle
        else:
            without = middle
    first = _designs(spec, datum.at(edits, having)).unrank([0])
    design = next(bind(spec, datum.at(edits, having)).parameter_set.batch(first).points())
    number = RuleNumber(datum.value, SYSTEM[datum.name].unit, datum=datum.name)
    return Relaxation((Renumber(number, having),), datum.cost(having), design)


def _designs(spec: InstanceSpec, edits: Edits) -> FeasibleSet:
    return feasible_set(lower(bind(spec, edits).parameter_set))
