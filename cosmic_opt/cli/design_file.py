"""Reads one design: from a file or stdin, as JSON or YAML, with units, families as lists or by member."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from cosmic_opt.api import Problem
from cosmic_opt.catalog.columns import read_members
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.store import MAX_FILE_BYTES, read_text
from cosmic_opt.cli.files import is_pipe, require_file
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry, read_yaml
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import member_name, split_member
from cosmic_opt.psa.model_file import read_value
from cosmic_opt.psa.parameter_set import Column, DesignBatch

IF_EMPTY = "a design gives parameters their values, {dp: 64, tp: 8}; the answer of solve --json is one, too"


def read_design(problem: Problem, source: str | None) -> tuple[Problem, DesignBatch]:
    """Return one design, and the problem with every parameter fixed to it; see `read_values`.

    Raises:
        SpecError: not a design, an unknown name, a value outside its domain, or a free parameter without a value.
    """
    wider, values = read_values(problem, source)
    wider.parameter_set.design(values)  # every value lies in its domain, or it is named here
    exactly = wider.fix(values)
    return exactly, exactly.baseline()


def read_values(problem: Problem, source: str | None, option: str = "--design") -> tuple[Problem, dict[str, Value]]:
    """Return the value of each column of one design, and the problem with the parameters it names freed.

    The design may leave the scope: a parameter it names may have any value of its domain, and a value outside stands
    here as given. A name it does not give has the instance's own value; `--fix` wins over both. `source` is a path,
    "-" for stdin, or None for the instance's own design; `option` named it. An answer of `solve --json` is a design.

    Raises:
        SpecError: not a design, an unknown name, or a free parameter without a value.
    """
    given = _values(problem, _open(source, option)) if source is not None else {}
    wider = problem.edit(Edits(free=tuple(given)))
    own = wider.instance.baseline
    values: dict[str, Value] = {}
    for column in wider.parameter_set.columns:
        if len(column.values) == 1 and (column.name not in given or not column.free):
            values[column.name] = column.values[0]
        elif column.name in given:
            values[column.name] = given[column.name]
        elif own.get(column.name) in column.values:
            values[column.name] = own[column.name]
        else:
            raise _no_value(column, None if source is None else option)
    return wider, values


def _no_value(column: Column, option: str | None) -> SpecError:
    """Return the error of a free parameter that neither the design of an option (None: none is given) nor the instance
    gives a value."""
    fix = f"--fix {column.name}={column.show(column.values[0]).replace(',', '')}"
    if option is None:
        hint = f"give a design (--design FILE), or {fix}"
        return SpecError(f"{column.name!r} is free, and the instance gives it no value of its own", hint=hint)
    return SpecError(
        f"nothing gives {column.name!r} a value", where=Where(option), hint=f"add it to the design, or {fix}"
    )


def _open(source: str, option: str) -> Entry:
    name, where = ("stdin" if source == "-" else source), Where(f"{option} {source}")
    path = Path(source)
    if source == "-":
        text = _piped(sys.stdin, where)
    elif is_pipe(path):  # `--design <(command)`
        try:
            with path.open(encoding="utf-8") as pipe:
                text = _piped(pipe, where)
        except OSError as error:
            raise SpecError(f"cannot read it: {error.strerror}", where=where, hint="check its rights") from None
    else:
        require_file(path, option)
        text = read_text(path)
    return _design_of(read_yaml(text, name, if_empty=IF_EMPTY))


def _piped(stream: TextIO, where: Where) -> str:
    """Return the text of a stream, which can be read once.

    Raises:
        SpecError: too long, or not UTF-8 text.
    """
    try:
        text = stream.read(MAX_FILE_BYTES + 1)
    except UnicodeDecodeError:
        raise SpecError("the input is not UTF-8 text", where=where, hint="pipe JSON or YAML in") from None
    if len(text) > MAX_FILE_BYTES:
        raise SpecError("the input is too long", where=where, hint=f"at most {MAX_FILE_BYTES:,} bytes")
    return text


def _design_of(root: Entry) -> Entry:
    """Return the design itself: the document, or its key `design` when it is an answer of ours."""
    entries = root.mapping()
    return entries["design"] if "schema" in entries and "design" in entries else root


def _values(problem: Problem, root: Entry) -> dict[str, Value]:
    """Return the value of each column that the design names."""
    parameters = problem.spec.model.parameters
    given: dict[str, Value] = {}
    for key, entry in root.mapping().items():
        base, labels = split_member(key)
        if base not in parameters or (labels is not None and not parameters[base].per):
            raise entry.fail(f"unknown parameter {key!r}", nearest(key, parameters))
        family = problem.instance.families.get(base)
        if labels is None:
            found = read_members(parameters[base], family, entry, in_base_units=True)
        else:
            assert family is not None
            name = member_name(base, labels)
            if name not in family.members:
                raise entry.fail(f"{key} does not exist", family.describe())
            found = {name: read_value(entry, parameters[base].unit, in_base_units=True)}
        for name, value in found.items():
            if name in given:
                raise entry.fail(f"{name!r} is given twice", "keep one of the two")
            given[name] = value
    return given
