"""The model file: a PSA as declared, before an instance gives it numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from cosmic_opt.errors import Where, nearest
from cosmic_opt.psa.document import Entry, expect_schema, read_yaml
from cosmic_opt.psa.domain import DivisorsOf, Domain, Doublings, Explicit, PowersOf, Range, Value
from cosmic_opt.psa.expr import Syntax
from cosmic_opt.psa.family import MAX_AXES
from cosmic_opt.psa.parse import KEYWORDS, parse_rule
from cosmic_opt.units import Unit

STACKS = ("workload", "collective", "network", "compute")
MAX_PERMUTED = 6
STEPS = ("step", "per_doubling")
_UNITS = {
    "bytes": Unit.BYTES,
    "bytes/s": Unit.BYTES_PER_S,
    "FLOP/s": Unit.FLOP_PER_S,
    "time": Unit.TIME,
    "dollars": Unit.DOLLARS,
}


@dataclass(frozen=True)
class Rule:
    """A declared rule, parsed but not bound. `when` names optional parameters without which it does not stand."""

    name: str
    text: str
    syntax: Syntax
    why: str
    where: Where
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParameterSpec:
    """A declared knob. `per` names the indices of a family.

    An optional knob that is neither free nor given a value is left out: what it would decide keeps its default.
    """

    name: str
    stack: str
    domain: Domain
    unit: Unit
    per: tuple[str, ...]
    why: str
    where: Where
    optional: bool = False


@dataclass(frozen=True)
class Scope:
    """A named choice of which parameters are free, with rules that hold in that scope only."""

    name: str
    free: tuple[str, ...]
    rules: Mapping[str, Rule]
    why: str


@dataclass(frozen=True)
class ModelSpec:
    """A whole model file. `indices` maps an index to the datum that gives its size, or to its members' names."""

    name: str
    why: str
    indices: Mapping[str, str | tuple[str, ...]]
    parameters: Mapping[str, ParameterSpec]
    rules: Mapping[str, Rule]
    scopes: Mapping[str, Scope]
    where: Where


def read_model(text: str, file: str) -> ModelSpec:
    """Return the model that `text` declares.

    Raises:
        SpecError: with file, line and key.
    """
    root = read_yaml(text, file)
    expect_schema(root, "model")
    entries = root.fields(
        required=("schema", "name", "parameters"),
        optional=("why", "source", "indices", "constraints", "scopes"),
    )
    indices = (
        {key: _index(entry) for key, entry in entries["indices"].mapping().items()} if "indices" in entries else {}
    )
    parameters = {key: _parameter(key, entry, indices) for key, entry in entries["parameters"].mapping().items()}
    if not parameters:
        raise entries["parameters"].fail("a model needs at least one parameter")
    rules = read_rules(entries["constraints"], parameters) if "constraints" in entries else {}
    scopes = {}
    if "scopes" in entries:
        scopes = {key: _scope(key, entry, parameters) for key, entry in entries["scopes"].mapping().items()}
    return ModelSpec(
        name=entries["name"].text(),
        why=entries["why"].text() if "why" in entries else "",
        indices=indices,
        parameters=parameters,
        rules=rules,
        scopes=scopes,
        where=root.where,
    )


def _index(entry: Entry) -> str | tuple[str, ...]:
    """Return the datum that gives an index its size, or the names of its members."""
    if not isinstance(entry.value, list):
        return entry.text()
    names = [item.text() for item in entry.items()]
    for name, item in zip(names, entry.items(), strict=True):
        check_name(name, item)
    if not names or len(set(names)) < len(names):
        raise entry.fail("an index lists each of its members once", "group: [tp, sp, dp, pp]")
    return tuple(names)


def read_rules(entry: Entry, parameters: Mapping[str, ParameterSpec] | None = None) -> dict[str, Rule]:
    """Return the rules of a `constraints:` mapping: name to text, or to {rule, why, when}.

    `when` (allowed where `parameters` are given) names one optional parameter or a list of them.
    """
    rules = {}
    for name, body in entry.mapping().items():
        check_name(name, body)
        why = ""
        when: tuple[str, ...] = ()
        place = body
        if isinstance(body.value, dict):
            fields = body.fields(required=("rule",), optional=("why",) if parameters is None else ("why", "when"))
            place = fields["rule"]
            why = fields["why"].text() if "why" in fields else ""
            when = _when(fields["when"], parameters or {}) if "when" in fields else ()
        text = " ".join(place.text().split())
        rules[name] = Rule(name, text, parse_rule(text, place.where), why, place.where, when)
    return rules


def _when(entry: Entry, parameters: Mapping[str, ParameterSpec]) -> tuple[str, ...]:
    """Return the optional parameters that a rule waits for."""
    items = entry.items() if isinstance(entry.value, list) else [entry]
    optional = [name for name, parameter in parameters.items() if parameter.optional]
    for item in items:
        if item.text() not in optional:
            hint = nearest(item.text(), optional) or "a rule waits for parameters declared 'optional: true'"
            raise item.fail(f"{item.text()!r} is no optional parameter", hint)
    return tuple(item.text() for item in items)


def check_name(name: str, entry: Entry) -> None:
    """Refuse a name that the rule language could not read back."""
    if not (name.isascii() and name.isidentifier()) or name in KEYWORDS:
        raise entry.fail(
            f"{name!r} cannot be a name", "use letters, digits and '_', and no keyword of the rule language"
        )


def _parameter(name: str, entry: Entry, indices: Mapping[str, str | tuple[str, ...]]) -> ParameterSpec:
    check_name(name, entry)
    fields = entry.fields(required=("stack", "domain"), optional=("per", "unit", "why", "optional"))
    stack = fields["stack"].text()
    if stack not in STACKS:
        raise fields["stack"].fail(f"unknown stack {stack!r}", nearest(stack, STACKS))
    unit = Unit.NONE
    if "unit" in fields:
        symbol = fields["unit"].text()
        if symbol not in _UNITS:
            raise fields["unit"].fail(f"unknown unit {symbol!r}", nearest(symbol, _UNITS))
        unit = _UNITS[symbol]
    per = _per(fields["per"], indices) if "per" in fields else ()
    why = fields["why"].text() if "why" in fields else ""
    optional = "optional" in fields and fields["optional"].flag()
    domain = read_domain(fields["domain"], unit, indices)
    return ParameterSpec(name, stack, domain, unit, per, why, entry.where, optional)


def _per(entry: Entry, indices: Mapping[str, str | tuple[str, ...]]) -> tuple[str, ...]:
    """Return the indices of a family: one name, or a list of at most two."""
    items = entry.items() if isinstance(entry.value, list) else [entry]
    names = tuple(item.text() for item in items)
    for name, item in zip(names, items, strict=True):
        if name not in indices:
            raise item.fail(f"unknown index {name!r}", nearest(name, indices) or "declare it under 'indices:'")
    if not names or len(names) > MAX_AXES or len(set(names)) < len(names):
        raise entry.fail("a family has one index, or two different ones", "per: [group, dim]")
    return names


def read_domain(entry: Entry, unit: Unit, indices: Mapping[str, str | tuple[str, ...]]) -> Domain:
    """Return a domain: a list, or one of `range`, `powers_of`, `divisors_of`, `permutations_of`."""
    if isinstance(entry.value, list):
        values = Explicit(tuple(read_value(item, unit) for item in entry.items()))
        kinds = {isinstance(value, str) for value in values.values}
        if len(kinds) > 1:
            raise entry.fail("the domain mixes numbers and categories", "list numbers only, or categories only")
        values.resolve({}, entry.where)
        return values
    forms = {"range": STEPS, "powers_of": ("from", "to"), "divisors_of": ("from", "to"), "permutations_of": ()}
    keys = [key for key in entry.mapping() if key in forms]
    if len(keys) != 1:
        raise entry.fail(f"a domain is a list, or has one of {', '.join(forms)}", "domain: [1, 2, 4]")
    form = keys[0]
    if form == "permutations_of":
        return _permutations(entry.fields(required=(form,))[form], indices)
    if form == "range":
        return _range(entry, unit)
    required = (form, "to") if form == "powers_of" else (form,)
    fields = entry.fields(required=required, optional=forms[form])
    low = _bound(fields["from"], unit) if "from" in fields else 1
    high = _bound(fields["to"], unit) if "to" in fields else None
    if form == "powers_of":
        assert high is not None
        return PowersOf(fields[form].integer(low=2), low, high)
    return DivisorsOf(_bound(fields[form], unit), low, high)


def _range(entry: Entry, unit: Unit) -> Domain:
    """Return a range: with one `step`, or so many steps `per_doubling`."""
    fields = entry.fields(required=("range",), optional=STEPS)
    ends = fields["range"].items()
    if len(ends) != 2:
        raise fields["range"].fail("a range has two ends", "range: [50 GB/s, 500 GB/s]")
    low, high = (_bound(end, unit) for end in ends)
    if len(fields) != 2:
        raise entry.fail("a range has one of step, per_doubling", "{range: [1, 8], step: 1}")
    if "per_doubling" in fields:
        return Doublings(low, high, fields["per_doubling"].integer(low=1))
    step = _bound(fields["step"], unit)
    if not isinstance(step, int) or step <= 0:
        raise fields["step"].fail("the step must be a positive number")
    return Range(low, high, step)


def _permutations(entry: Entry, indices: Mapping[str, str | tuple[str, ...]]) -> Explicit:
    """Return every order of an index's members, each one category: "tp_sp_dp_pp"."""
    members = indices.get(entry.text())
    if not isinstance(members, tuple):
        named = [name for name, value in indices.items() if isinstance(value, tuple)]
        hint = nearest(entry.text(), named) or "indices: {group: [tp, sp, dp, pp]}"
        raise entry.fail(f"{entry.text()!r} is no index with named members", hint)
    if len(members) > MAX_PERMUTED:
        raise entry.fail(f"the orders of {len(members)} members are too many", f"at most {MAX_PERMUTED} members")
    return Explicit(tuple("_".join(order) for order in itertools.permutations(members)))


def _bound(entry: Entry, unit: Unit) -> int | str:
    """Return a number, or the name of a datum that gives it."""
    if isinstance(entry.value, str) and entry.value.strip().isidentifier():
        return entry.value.strip()
    return entry.quantity(unit)


def read_value(entry: Entry, unit: Unit, *, in_base_units: bool = False) -> Value:
    """Return one value of a parameter: a number in base units, a truth value as 0 or 1, or a category.

    With `in_base_units` a bare whole number is one, of a time or an energy, too.
    """
    if isinstance(entry.value, bool):
        return int(entry.value)
    if isinstance(entry.value, str) and entry.value.strip().isidentifier():
        return entry.value.strip()
    if in_base_units and isinstance(entry.value, int):
        return entry.value
    return entry.quantity(unit)


def _scope(name: str, entry: Entry, parameters: Mapping[str, ParameterSpec]) -> Scope:
    check_name(name, entry)
    fields = entry.fields(required=("free",), optional=("constraints", "why"))
    free = []
    for item in fields["free"].items():
        parameter = item.text()
        if parameter not in parameters:
            raise item.fail(f"unknown parameter {parameter!r}", nearest(parameter, parameters))
        if parameter in free:
            raise item.fail(f"{parameter!r} is free twice", "name each parameter once")
        free.append(parameter)
    rules = read_rules(fields["constraints"], parameters) if "constraints" in fields else {}
    return Scope(name, tuple(free), rules, fields["why"].text() if "why" in fields else "")
