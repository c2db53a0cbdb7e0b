"""Writes how far predicted kernels, collectives and memory are from measured, and the sizes that were fitted.

python benchmarks/parts_accuracy.py benchmarks/data > instances/_accuracy/parts.yaml
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from arguments import path_given

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.confidence import SIZES
from cosmic_opt.analysis.validation.report import CALIBRATION_FOLDS
from cosmic_opt.catalog.measured_parts import OTHER

FILES = ("kernels", "collectives", "memory")
LEAST_ROWS, ENOUGH_ROWS = 5, 20
"""Below the second, a group's percentile is at least that of its kind on all devices; below the first, it is that."""
HEADER = """\
# Measured kernels, collectives and memory by kind and device: 90th percentile of the relative error, fitted sizes.
schema: cosmic-opt/accuracy@1
source: "the shipped rows of folds 0 and 1; written by benchmarks/parts_accuracy.py; other: twice all of them"
groups:
"""


def main(folder: Path) -> None:
    kinds, kind_of = defaultdict[str, list[float]](list), dict[str, str]()
    errors, sizes = defaultdict[str, list[float]](list), defaultdict[str, dict[str, list[float]]](dict)
    for file in FILES:
        rows = json.loads((folder / f"{file}.json").read_text(encoding="utf-8"))["rows"]
        for row, result in zip(rows, validate({"rows": rows}).rows, strict=True):
            if result.error is None or result.facts is None or row["fold"] not in CALIBRATION_FOLDS:
                continue
            group = f"{result.facts.kind} {result.facts.gpu}"
            errors[group].append(abs(result.error))
            kinds[result.facts.kind].append(abs(result.error))
            kind_of[group] = result.facts.kind
            for name in SIZES:
                if name in row:
                    sizes[group].setdefault(name, []).append(row[name])
    print(HEADER, end="")
    percentiles = {group: _p90(errors[group], kinds[kind_of[group]]) for group in errors}
    for group in sorted(errors):
        fields = ", ".join(_fields(percentiles[group], sizes[group]))
        print(f"  {json.dumps(group)}: {{{fields}}}  # {len(errors[group])} rows")
    every = [error for each in errors.values() for error in each]
    print(f"  {OTHER}: {{p90: {2 * np.quantile(every, 0.9):.2f}}}")


def _p90(own: list[float], kind: list[float]) -> float | None:
    if len(kind) < LEAST_ROWS:
        return None
    known = [own] if len(own) >= ENOUGH_ROWS else [own, kind] if len(own) >= LEAST_ROWS else [kind]
    return max(float(np.quantile(each, 0.9)) for each in known)


def _fields(p90: float | None, sizes: dict[str, list[Any]]) -> list[str]:
    shown = [] if p90 is None else [f"p90: {p90:.3f}"]
    return shown + [f"{name}: [{min(values)}, {max(values)}]" for name, values in sizes.items()]


if __name__ == "__main__":
    main(path_given(__doc__))
