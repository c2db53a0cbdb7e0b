"""A relaxation as edits of the instance: the options one would type to make it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cosmic_opt.analysis.change import Allow, Drop, Relaxation, Renumber
from cosmic_opt.catalog.bind import PRICED
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.system_quantities import COSTS_OF_NETWORKS
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.units import SYMBOLS, Unit

REQUIRED = "required"
_WRITTEN = {
    Unit.BYTES: ("B", "KB", "MB", "GB", "TB", "PB"),
    Unit.BYTES_PER_S: ("B/s", "KB/s", "MB/s", "GB/s", "TB/s"),
    Unit.FLOP_PER_S: ("FLOPS", "GFLOPS", "TFLOPS", "PFLOPS"),
    Unit.TIME: ("ps", "ns", "us", "ms", "s"),
    Unit.DOLLARS: ("$",),
    Unit.POWER: ("W", "kW", "MW"),
    Unit.ENERGY: ("uJ", "mJ", "J", "kJ", "MJ", "GJ"),
    Unit.NONE: ("",),
}
"""The symbols a number of each unit is written with, the smallest first."""


def spelled(value: int, unit: Unit) -> str:
    """Return a number (base units) as text that reads back exactly: "3.717489232 GB"."""
    if value < 0:
        return f"-{spelled(-value, unit)}"
    factors = [(SYMBOLS[symbol][1], symbol) for symbol in _WRITTEN[unit]]
    factor, symbol = max((pair for pair in factors if pair[0] <= value), default=factors[0])
    whole, rest = divmod(value, int(factor))
    digits = len(str(int(factor))) - 1
    decimals = f".{rest:0{digits}d}".rstrip("0") if rest else ""
    return f"{whole}{decimals} {symbol}".strip()


def value_spelled(column: Column, value: int | str) -> str:
    """Return a value of a parameter as `--fix` takes it."""
    return value if isinstance(value, str) else spelled(value, column.unit)


def rule_after(rule: Constraint, changes: Mapping[tuple[int, int], tuple[int, Unit]]) -> str:
    """Return a rule's text with other numbers at the given places [start, stop)."""
    text = rule.text
    for (start, stop), (value, unit) in sorted(changes.items(), reverse=True):
        before = text[:start]
        if value < 0 and before.rstrip().endswith("-"):
            before, value = before.rstrip()[:-1], -value
        text = f"{before}{spelled(value, unit)}{text[stop:]}"
    return text


def relaxed_edits(spec: InstanceSpec, edits: Edits, parameter_set: ParameterSet, relaxation: Relaxation) -> Edits:
    """Return all edits of the relaxed problem: `edits`, those of the problem, with the relaxation's changes made.

    A datum is set, a value allowed by fixing its parameter to it, a rule dropped or required with other numbers.
    """
    rules = {rule.name: rule for rule in parameter_set.constraints}
    data, fixed = dict(edits.set), dict(edits.fix)
    dropped: set[str] = set()
    places: dict[str, dict[tuple[int, int], tuple[int, Unit]]] = {}
    for change in relaxation.changes:
        match change:
            case Drop(rule):
                dropped.add(rule.name)
            case Allow(column, value):
                fixed[column.name] = value_spelled(column, value)
            case Renumber(number, new) if number.datum:
                data[number.datum] = spelled(new, number.unit)
            case Renumber(number, new):
                places.setdefault(number.rule, {})[number.start, number.stop] = (new, number.unit)
    texts = {name: rule_after(rules[name], where) for name, where in places.items()}
    require, without = _rules_after(spec, edits, rules, dropped, texts)
    return Edits(tuple(data.items()), tuple(fixed.items()), edits.free, require, without, edits.scope, edits.objective)


def _rules_after(
    spec: InstanceSpec, edits: Edits, rules: Mapping[str, Constraint], dropped: set[str], texts: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rules required and those left out, once some are dropped and some have another text."""
    names = [REQUIRED if len(edits.require) == 1 else f"{REQUIRED}_{at}" for at in range(1, len(edits.require) + 1)]
    asked = dict(zip(names, edits.require, strict=True))
    gone = dropped | set(edits.without)
    kept = {name: texts.get(name, text) for name, text in asked.items() if name not in gone}
    require = [*kept.values(), *(text for name, text in texts.items() if name not in asked)]
    without = [name for name in edits.without if name not in asked]
    without += [name for name in rules if name in dropped | set(texts) and name not in asked]
    implied = implied_rules(spec, edits, rules.values()).get(PRICED)
    if implied is not None and not any(map(_needs_prices, require)) and implied <= gone:
        without = [name for name in without if name != PRICED]
    return tuple(require), tuple(without)


def implied_rules(spec: InstanceSpec, edits: Edits, rules: Iterable[Constraint]) -> dict[str, frozenset[str]]:
    """Return the rule that a priced network adds by itself, with the rules that it goes with; none when declared."""
    scope = edits.scope or spec.scope
    declared = {*spec.model.rules, *spec.rules, *(spec.model.scopes[scope].rules if scope else ())}
    if PRICED in declared or _needs_prices(edits.objective or spec.objective):
        return {}
    return {PRICED: frozenset(rule.name for rule in rules if _needs_prices(rule.text))}


def _needs_prices(text: str) -> bool:
    """Tell whether a rule or an objective means nothing of a block without a price."""
    return any(cost in text for cost in COSTS_OF_NETWORKS)
