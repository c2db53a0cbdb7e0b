"""The one argument of a benchmark, or its usage line and exit 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn


def path_given(doc: str | None) -> Path:
    """Return the path that the command line gives; `doc` holds the usage line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).exists():
        show_usage(doc)
    return Path(sys.argv[1])


def number_given(doc: str | None, default: int) -> int:
    """Return the positive number that the command line gives, or the default."""
    if len(sys.argv) == 1:
        return default
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or int(sys.argv[1]) == 0:
        show_usage(doc)
    return int(sys.argv[1])


def show_usage(doc: str | None) -> NoReturn:
    """Print the line of a module's docstring that shows its command, and exit with 2."""
    lines = (line.strip() for line in (doc or "").splitlines())
    print("usage:", next(line for line in lines if line.startswith("python benchmarks/")), file=sys.stderr)
    raise SystemExit(2)
