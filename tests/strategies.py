"""Small random PSAs, written as model files and read through the real front door."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.bind import Names, bind_rule
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.family import Family, IndexSet, numbered
from cosmic_opt.psa.model_file import ModelSpec, read_model
from cosmic_opt.psa.parameter_set import Codes, Column, Constraint, ParameterSet
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, SimulatedQuantity, Values
from cosmic_opt.units import Unit

FOCUSES = ("products", "sums", "logic", "families", "quantities")
DIMS = "dims"
_CATEGORIES = ("red", "green", "blue", "grey")
_NUMBERS = (-7, -4, -3, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 18, 27, 30)
_GRID = 3000


def declare(
    text: str,
    data: Mapping[str, Value] | None = None,
    quantities: Mapping[str, Quantity | SimulatedQuantity] | None = None,
) -> ParameterSet:
    """Return the parameter set of a model file with every parameter free, its rules bound to `data`."""
    spec = read_model(text, "model.yaml")
    known = dict(data or {})
    indices = {
        index: IndexSet(index, of) if isinstance(of, tuple) else numbered(index, int(known[of]))
        for index, of in spec.indices.items()
    }
    families = {p.name: Family(p.name, tuple(indices[i] for i in p.per)) for p in spec.parameters.values() if p.per}
    columns = _columns(spec, known, families)
    names = Names(
        columns={column.name: column.term for column in columns},
        data=known,
        units={},
        families=families,
        quantities=quantities or {},
        indices=indices,
    )
    constraints = tuple(
        Constraint(rule.name, rule.text, bind_rule(rule.syntax, rule.text, names, rule.where), rule.why, rule.where)
        for rule in spec.rules.values()
    )
    return ParameterSet(columns, constraints, known, quantities or {})


def _columns(spec: ModelSpec, data: Mapping[str, Value], families: Mapping[str, Family]) -> tuple[Column, ...]:
    columns = []
    for p in spec.parameters.values():
        values = p.domain.resolve(data, p.where)
        family = families.get(p.name)
        members = zip(family.members, family.indices, strict=True) if family else [(p.name, ())]
        columns += [Column(name, p.name, index, p.stack, p.unit, values, True) for name, index in members]
    return tuple(columns)


def whole_grid(parameter_set: ParameterSet) -> Codes:
    """Return every combination of codes, in order of code."""
    sizes = [len(column.values) for column in parameter_set.columns]
    return np.indices(sizes).reshape(len(sizes), -1).T.astype(np.int32)


def brute_force(parameter_set: ParameterSet) -> Codes:
    """Return the feasible designs by the reference meaning of the rules, in order of code."""
    grid = whole_grid(parameter_set)
    return grid[feasible(parameter_set.batch(grid))]


def sorted_codes(model: LoweredModel, chunks: Sequence[Codes]) -> Codes:
    """Return the rows of all chunks in order of code."""
    codes = np.concatenate(chunks) if chunks else np.zeros((0, model.designs), dtype=np.int32)
    return codes[np.lexsort(codes.T[::-1])]


@dataclass
class Source:
    """A PSA as text, and what its rules refer to. `numbers` and so on list columns as a rule writes them."""

    text: str = ""
    data: dict[str, Value] = field(default_factory=dict)
    quantities: dict[str, Quantity | SimulatedQuantity] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    domains: dict[str, tuple[int, ...]] = field(default_factory=dict)
    grid: int = 1

    def bind(self) -> ParameterSet:
        """Return the bound parameter set."""
        return declare(self.text, self.data, self.quantities)

    def __repr__(self) -> str:
        return f"Source({self.data})\n{self.text}"


@st.composite
def sources(draw: st.DrawFn, focus: str) -> Source:
    """Draw a PSA of 2 to 6 columns and 1 to 4 rules, most of them of the kind `focus`."""
    source = Source()
    lines = ["schema: cosmic-opt/model@1", "name: generated", f"indices: {{dim: {DIMS}}}", "parameters:"]
    lines += _draw_parameters(draw, source, focus)
    _draw_quantities(draw, source)
    lines.append("constraints:")
    for number in range(draw(st.integers(1, 4))):
        depth = draw(st.integers(0, 2)) if focus == "logic" else draw(st.sampled_from((0, 0, 0, 1)))
        lines.append(f'  rule_{number}: "{_condition(draw, source, focus, depth)}"')
    source.text = "\n".join(lines) + "\n"
    return source


def _draw_parameters(draw: st.DrawFn, source: Source, focus: str) -> list[str]:
    dims = draw(st.integers(2, 3))
    source.data = {DIMS: dims, "size": draw(st.sampled_from((6, 8, 12, 30)))}
    kinds = ["number"] * draw(st.integers(2, 3)) + draw(st.lists(st.sampled_from(("flag", "category")), max_size=2))
    if focus == "families" or draw(st.integers(0, 3)) == 0:
        kinds.insert(0, "family")
    lines = []
    for at, kind in enumerate(kinds):
        name = "uvwxyzk"[at]
        domain, values = _domain(draw, kind, source)
        size = len(values) ** (dims if kind == "family" else 1)
        if source.grid * size > _GRID or len(source.domains) + (dims if kind == "family" else 1) > 6:
            continue
        source.grid *= size
        per = ", per: dim" if kind == "family" else ""
        lines.append(f"  {name}: {{stack: workload, domain: {domain}{per}}}")
        _enter(source, name, kind, values, dims)
    return lines


def _domain(draw: st.DrawFn, kind: str, source: Source) -> tuple[str, tuple[int, ...]]:
    """Draw the text of a domain and its numbers (a category counts as its position)."""
    if kind == "flag":
        return "[false, true]", (0, 1)
    if kind == "category":
        count = draw(st.integers(2, 4))
        return f"[{', '.join(_CATEGORIES[:count])}]", tuple(range(count))
    form = draw(st.sampled_from(("listed", "listed", "positive", "powers", "divisors", "range")))
    if form == "listed":
        values = draw(st.lists(st.sampled_from(_NUMBERS), min_size=2, max_size=4, unique=True))
        return f"[{', '.join(map(str, values))}]", tuple(values)
    if form == "positive":
        values = draw(st.lists(st.integers(1, 12), min_size=2, max_size=4, unique=True))
        return f"[{', '.join(map(str, values))}]", tuple(values)
    if form == "powers":
        return "{powers_of: 2, to: size}", tuple(2**k for k in range(5) if 2**k <= int(source.data["size"]))
    if form == "divisors":
        size = int(source.data["size"])
        return "{divisors_of: size}", tuple(n for n in range(1, size + 1) if size % n == 0)
    low, step = draw(st.integers(-3, 3)), draw(st.integers(1, 3))
    return f"{{range: [{low}, {low + 3 * step}], step: {step}}}", tuple(range(low, low + 3 * step + 1, step))


def _enter(source: Source, name: str, kind: str, values: tuple[int, ...], dims: int) -> None:
    members = [f"{name}[{d}]" for d in range(dims)] if kind == "family" else [name]
    source.domains |= dict.fromkeys(members, values)
    if kind == "family":
        source.families.append(name)
    {"flag": source.flags, "category": source.categories}.get(kind, source.numbers).extend(members)


def _draw_quantities(draw: st.DrawFn, source: Source) -> None:
    """Two structural quantities: one term that is not linear, and three terms that share columns."""
    numbers = source.numbers
    first = draw(st.permutations(numbers))[:3]
    pairs = [draw(st.permutations(numbers))[:2] for _ in range(3)]
    terms = [QuantityTerm(tuple(names), _Square(draw(st.integers(-3, 3)), tuple(names))) for names in (first, *pairs)]
    source.quantities = {
        "curved": Quantity("curved", Unit.NONE, (terms[0],), "one term"),
        "spread": Quantity("spread", Unit.NONE, tuple(terms[1:]), "several terms"),
    }


@dataclass(frozen=True)
class _Square:
    """(x + shift)^2 + y * z ... over the named columns."""

    shift: int
    names: tuple[str, ...]

    def __call__(self, values: Mapping[str, Values]) -> IntArray:
        first, *rest = (np.asarray(values[name], dtype=np.int64) for name in self.names)
        tail = math.prod(rest[1:], start=rest[0]) if rest else 0
        return np.asarray((first + self.shift) ** 2 + tail)


def _condition(draw: st.DrawFn, source: Source, focus: str, depth: int) -> str:
    if depth:
        left, right = _condition(draw, source, focus, depth - 1), _condition(draw, source, focus, depth - 1)
        form = draw(st.sampled_from(("implies", "or", "and", "not")))
        return f"not ({left})" if form == "not" else f"({left}) {form} ({right})"
    kind = focus if draw(st.integers(0, 2)) else draw(st.sampled_from(FOCUSES))
    return _ATOMS[kind](draw, source)


def _typical(draw: st.DrawFn, source: Source, names: Sequence[str]) -> list[int]:
    """Draw a value of each column, so that a right-hand side built of them can be met."""
    return [draw(st.sampled_from(source.domains[name])) for name in names]


def _product(draw: st.DrawFn, source: Source) -> str:
    chosen = draw(st.permutations(source.numbers))[: draw(st.integers(2, 3))]
    target = math.prod(_typical(draw, source, chosen))
    left = " * ".join(chosen)
    operator = draw(st.sampled_from(("==", "==", "<=", ">", "!=")))
    form = draw(st.integers(0, 3))
    if form == 0:
        return f"{left} {operator} {draw(st.sampled_from(source.numbers))}"
    if form == 1:
        return f"2 * {left} {operator} {2 * target} * {draw(st.sampled_from(source.numbers))}"
    return f"{left} {operator} {target}"


def _sum(draw: st.DrawFn, source: Source) -> str:
    chosen = draw(st.permutations(source.numbers))[: draw(st.integers(1, 3))]
    weights = draw(st.lists(st.integers(-3, 3), min_size=len(chosen), max_size=len(chosen)))
    target = sum(w * v for w, v in zip(weights, _typical(draw, source, chosen), strict=True))
    left = " + ".join(f"{w} * {name}" for w, name in zip(weights, chosen, strict=True))
    operator = draw(st.sampled_from(("==", "!=", "<=", "<", ">=", ">")))
    name = draw(st.sampled_from(source.numbers))
    forms = [
        f"{left} {operator} {target}",
        f"{chosen[0]} {operator} {name}",
        f"{chosen[0]} % {draw(st.integers(2, 5))} {operator} {draw(st.integers(0, 2))}",
        f"({left}) // {draw(st.sampled_from((-3, 2, 5)))} {operator} {name} + 1",
        f"{target} <= {left} < {target + 5}",
        f"min({name}, {chosen[0]} * {chosen[-1]}) {operator} {target}",
        f"-{name} * {chosen[0]} + {chosen[-1]} * {name} {operator} {target}",
    ]
    if all(value > 0 for value in source.domains[name]):
        forms.append(f"{chosen[0]} % {name} == 0")
        forms.append(f"({left}) // {name} {operator} {target}")
    return draw(st.sampled_from(forms))


def _logic(draw: st.DrawFn, source: Source) -> str:
    name, other = draw(st.sampled_from(source.numbers)), draw(st.sampled_from(source.numbers))
    options = sorted(set(_typical(draw, source, [name, name])))
    compare = draw(st.sampled_from(("==", "<=")))
    forms = [
        f"{name} in {{{', '.join(map(str, options))}}}",
        f"{name} not in {{{options[0]}, {other}}}",
        f"count({name} <= {other}, {name} > {options[0]}, {other} == {options[-1]}) {compare} 1",
    ]
    for flag in source.flags:
        forms += [flag, f"not {flag}", f"{flag} implies {name} > {options[0]}", f"{flag} == ({name} < {other})"]
    for category in source.categories:
        forms += [f"{category} == red", f"{category} in {{red, 'green'}}", f"{category} != green or {name} == {other}"]
    if len(source.categories) == 2:
        forms.append(f"{source.categories[0]} == {source.categories[1]}")
    return draw(st.sampled_from(forms))


def _family(draw: st.DrawFn, source: Source) -> str:
    if not source.families:
        return _sum(draw, source)
    name = source.families[0]
    dims = int(source.data[DIMS])
    typical = _typical(draw, source, [f"{name}[{d}]" for d in range(dims)])
    other = draw(st.sampled_from(source.numbers))
    forms = [
        f"product({name}) == {math.prod(typical)}",
        f"sum({name}) <= {sum(typical)}",
        f"max({name}) - min({name}) <= {max(typical) - min(typical)}",
        f"all({name}[d] <= {name}[d + 1] for d in dim if d < {DIMS} - 1)",
        f"any({name}[d] == {other} for d in dim)",
        f"count({name}[d] == {typical[0]} for d in dim) >= 1",
        f"sum({name}[d] * (d + 1) for d in dim) != {sum(typical)}",
        f"sum({name}[d] * {other} for d in dim) >= {sum(typical)}",
        f"{name}[0] != {name}[1]",
        f"all({name}[d] == {typical[-1]} implies {other} > {typical[0]} for d in dim)",
    ]
    return draw(st.sampled_from(forms))


def _quantity(draw: st.DrawFn, source: Source) -> str:
    name = draw(st.sampled_from(source.numbers))
    bound = draw(st.integers(-5, 120))
    operator = draw(st.sampled_from(("<=", ">", "==", "!=")))
    forms = [
        f"curved {operator} {bound}",
        f"spread {operator} {bound}",
        f"spread + {name} <= {bound}",
        f"spread - curved {operator} {bound - 60}",
        f"curved % 7 {operator} 3",
        f"2 * spread >= {name} * {name} + {bound}",
        f"curved <= {bound} or {name} == {draw(st.sampled_from(source.domains[name]))}",
        f"max(spread, curved) {operator} {bound}",
    ]
    return draw(st.sampled_from(forms))


_ATOMS = {"products": _product, "sums": _sum, "logic": _logic, "families": _family, "quantities": _quantity}
