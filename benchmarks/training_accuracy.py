"""Writes how far predicted training steps are from measured ones, by accuracy group, from the calibration folds.

python benchmarks/training_accuracy.py ROWS.json > instances/_accuracy/training.yaml
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from arguments import path_given

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.report import CALIBRATION_FOLDS
from cosmic_opt.analysis.validation.training import step_metric
from cosmic_opt.analysis.validation.training_rows import read_row
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.predict import UNKNOWN_GROUP, accuracy_group

LEAST_ROWS = 5
"""A group with fewer rows has no percentile of its own, and a degree that fewer reach is not covered."""
DEGREES = ("tp", "pp", "cp", "ep")
HEADER = """\
# How far predicted steps are from measured ones: 90th percentile of |predicted / measured - 1| by stack and products.
schema: cosmic-opt/accuracy@1
"""
FOOTER = """\
source:
  p90: "published training steps, folds 0 and 1 of the reference rows; written by benchmarks/training_accuracy.py"
  few: "steps of groups with too few of them for a percentile"
  most_gpus: "the largest and longest measured jobs"
  most_degrees: "the largest degree of each kind that at least five of these rows reach"
"""


def step_error(row: Mapping[str, object], error: float) -> float:
    """Return |predicted / measured - 1| of the step: a rate is inversely proportional to it."""
    return abs(error if step_metric(row)[0] == "step_time_s" else 1 / (1 + error) - 1)


def widest_of_nine_in_ten(errors: Sequence[float]) -> float:
    """Return the least error, in whole percent, that nine in ten do not exceed."""
    return math.ceil(100 * float(np.quantile(errors, 0.9, method="inverted_cdf"))) / 100


def main(path: Path) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    report = validate({"rows": rows})
    errors, degrees, devices, gpus, tokens = defaultdict(list), defaultdict(list), set(), 0, 0
    for row, result in zip(rows, report.rows, strict=True):
        if result.error is None or row["fold"] not in CALIBRATION_FOLDS:
            continue
        try:
            read = read_row(row)
        except SpecError:
            continue
        errors[accuracy_group(read.setup)].append(step_error(row, result.error))
        devices.add(read.setup.device.name)
        for name in DEGREES:
            degrees[name].append(int(getattr(read.designs, name)[0]))
        gpus, tokens = max(gpus, row["gpus"]), max(tokens, row["seq"])
    print(HEADER + "p90:")
    for group in sorted(errors):
        if len(errors[group]) >= LEAST_ROWS:
            print(f"  {group}: {widest_of_nine_in_ten(errors[group]):.2f}  # {len(errors[group])} rows")
    every = [error for group in errors.values() for error in group]
    other = 2 * widest_of_nine_in_ten(every)
    print(f"  {UNKNOWN_GROUP}: {other:.2f}  # twice all {len(every)} rows': unseen stacks are worse")
    print(f"devices: [{', '.join(sorted(devices))}]")
    covered = ", ".join(f"{name}: {sorted(values)[-LEAST_ROWS]}" for name, values in degrees.items())
    few = ", ".join(f"{group}: {len(errors[group])}" for group in sorted(errors) if len(errors[group]) < LEAST_ROWS)
    print(f"few: {{{few}}}\nmost_gpus: {gpus}\nmost_tokens: {tokens}\nmost_degrees: {{{covered}}}\n{FOOTER}", end="")


if __name__ == "__main__":
    main(path_given(__doc__))
