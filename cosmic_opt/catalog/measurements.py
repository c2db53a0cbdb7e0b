"""Files of measured rows: JSON (a list, or an object with `rows`) or CSV with one row per line under a header.

A column `dims.hidden` of a CSV file is `hidden` in the object `dims` of its row.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmic_opt.catalog.store import read_text
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.json_document import read_json

MAX_ROWS = 100_000
HINT = "a JSON list of objects, an object with 'rows', or CSV with a header line"


def read_measurements(path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of a file; numbers of a CSV file become numbers, empty cells are left out.

    Raises:
        SpecError: the file cannot be read, is neither JSON nor CSV, has no rows, or too many.
    """
    text = read_text(path)
    where = Where(str(path))
    if not text.strip():
        raise SpecError("the file is empty", where=where, hint=HINT)
    rows = _csv(text, where) if path.suffix.lower() == ".csv" else _json(text, where)
    if not rows:
        raise SpecError("the file has no rows", where=where, hint=HINT)
    if len(rows) > MAX_ROWS:
        raise SpecError(f"{len(rows):,} rows", where=where, hint=f"at most {MAX_ROWS:,}")
    return rows


def _json(text: str, where: Where) -> list[Mapping[str, Any]]:
    data = read_json(text, str(where), hint=HINT)
    rows = data.get("rows") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SpecError("the file holds no rows", where=where, hint=HINT)
    return rows


def _csv(text: str, where: Where) -> list[Mapping[str, Any]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    rows = list[Mapping[str, Any]]()
    try:
        header = [name.strip() for name in next(reader)]
        if len(set(header)) < len(header) or "" in header:
            raise SpecError("a column has no name, or two have the same", where=where, hint="name each column once")
        _check_nested(header, where)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                place = Where(where.file, reader.line_num)
                raise SpecError(f"{len(cells)} cells under {len(header)} columns", where=place, hint=HINT)
            rows.append(_nested({name: _cell(cell) for name, cell in zip(header, cells, strict=True) if cell.strip()}))
    except csv.Error as error:
        raise SpecError(f"the file is not CSV: {error}", where=where, hint=HINT) from None
    return rows


def _check_nested(header: list[str], where: Where) -> None:
    """Refuse dotted columns that name no entry of an object.

    Raises:
        SpecError: a part of a name is missing, there are two dots, or the object is a column of its own, too.
    """
    for name in header:
        parts = name.split(".")
        if len(parts) > 2 or not all(part.strip() for part in parts):
            raise SpecError(f"the column {name!r} is no key", where=where, hint="write for example dims.hidden")
        if len(parts) == 2 and parts[0] in header:
            raise SpecError(f"the columns {parts[0]!r} and {name!r} exclude each other", where=where, hint="keep one")


def _nested(cells: Mapping[str, str | int | float | bool]) -> Mapping[str, Any]:
    """Return a row, its dotted columns as objects."""
    row: dict[str, Any] = {}
    for name, value in cells.items():
        owner, dot, inner = name.partition(".")
        if dot:
            row.setdefault(owner, {})[inner] = value
        else:
            row[name] = value
    return row


def _cell(text: str) -> str | int | float | bool:
    """Return a cell as the number or truth value it spells, else as text; NaN stays text, so that it is refused."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    return int(value) if value == int(value) and abs(value) < 2**53 and "." not in text else value
