"""Designs for people and programs: families as lists, base units in JSON, units in text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import split_member
from cosmic_opt.psa.parameter_set import Column, DesignBatch, ParameterSet
from cosmic_opt.reporting.numbers import compress, table
from cosmic_opt.units import Unit

Members = list[Value] | dict[str, list[Value]]
DesignKeys = dict[str, Value | Members]


def designs_keys(batch: DesignBatch) -> Iterator[DesignKeys]:
    """Yield each design as {parameter: value}; numbers in base units.

    A family is the list of its members; a family over groups and dimensions maps each group to such a list.
    """
    families = _families(batch.parameter_set)
    for point in batch.points():
        yield {
            parameter: _members(columns, point) if columns[0].index else point[columns[0].name]
            for parameter, columns in families.items()
        }


def value_text(column: Column, value: Value) -> str:
    """Return a value with its unit; plain numbers without separators, since lists of them are separated by commas."""
    return str(value) if column.unit is Unit.NONE else column.show(value)


def design_text(design: DesignBatch) -> str:
    """Return the (first) design as a table, one line per stack, with units."""
    stacks: dict[str, list[str]] = {}
    for stack, text in parameter_texts(design):
        stacks.setdefault(stack, []).append(text)
    rows = []
    for stack, items in stacks.items():
        lines = _wrapped(items)
        rows += [(stack if at == 0 else "", line) for at, line in enumerate(lines)]
    return table((), rows)


def parameter_texts(design: DesignBatch) -> Iterator[tuple[str, str]]:
    """Yield each parameter of the (first) design with its value, "dp 8" or "algorithm [ring, direct]", by stack."""
    (point, *_) = design.points()
    for parameter, columns in _families(design.parameter_set).items():
        texts = {column.name: value_text(column, point[column.name]) for column in columns}
        if not columns[0].index:
            yield columns[0].stack, f"{parameter} {texts[parameter]}"
            continue
        for row, names in _rows(columns).items():
            yield columns[0].stack, f"{parameter}{row} [{', '.join(texts[name] for name in names)}]"


def _rows(columns: Sequence[Column]) -> dict[str, list[str]]:
    """Return the members of a family in rows along its last index: {"": names} or {"[tp]": names, …}."""
    rows: dict[str, list[str]] = {}
    for column in columns:
        *groups, _ = split_member(column.name)[1] or ()
        rows.setdefault(f"[{groups[0]}]" if groups else "", []).append(column.name)
    return rows


def _members(columns: Sequence[Column], point: Mapping[str, Value]) -> Members:
    """Return the values of a family: a list, or {group: list}."""
    rows = {row[1:-1]: [point[name] for name in names] for row, names in _rows(columns).items()}
    return rows.get("", rows)


def _wrapped(items: list[str], width: int = 88) -> list[str]:
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= width:
            lines[-1] += f"  {item}"
        else:
            lines.append(item)
    return lines


def _families(parameter_set: ParameterSet) -> dict[str, list[Column]]:
    families: dict[str, list[Column]] = {}
    for column in parameter_set.columns:
        families.setdefault(column.parameter, []).append(column)
    return families


def fixed_text(parameter_set: ParameterSet) -> str:
    """Return the columns with one value: "chunks 4, algorithm [ring, ring], bandwidth[1] 50 GB/s"."""
    shown = []
    for parameter, columns in _families(parameter_set).items():
        fixed = {c.name: value_text(c, c.values[0]) for c in columns if len(c.values) == 1}
        if len(fixed) == len(columns) > 1:
            shown.append(f"{parameter} [{', '.join(fixed.values())}]")
        else:
            shown += [f"{name} {value}" for name, value in fixed.items()]
    return ", ".join(shown)


def free_text(parameter_set: ParameterSet) -> str:
    """Return the names of the columns with more than one value, families in runs; "nothing" when there is none."""
    return compress([column.name for column in parameter_set.columns if len(column.values) > 1]) or "nothing"
