"""Writes how far predicted inference is from measured, by accuracy group, from the calibration folds.

python benchmarks/inference_accuracy.py ROWS.json > instances/_accuracy/inference.yaml
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
from arguments import path_given

from cosmic_opt.analysis.validation import validate
from cosmic_opt.analysis.validation.inference_rows import read_row
from cosmic_opt.analysis.validation.report import CALIBRATION_FOLDS
from cosmic_opt.simulation.calibrated.predict import UNKNOWN_GROUP
from cosmic_opt.simulation.calibrated.serving_coverage import LATENCY, SATURATED, accuracy_group, measured_format

LEAST_ROWS = 5
"""A group with fewer rows has no percentile of its own."""
HEADER = """\
# How far predicted inference is from measured: 90th percentile of |predicted / measured - 1| by engine and device.
schema: cosmic-opt/accuracy@1
"""
FOOTER = """\
source:
  p90: "published latencies and rates with all inputs stated, else all, folds 0, 1; benchmarks/inference_accuracy.py"
  most_gpus: "the largest and longest measured jobs"
  covers: "number formats (fp16: both kinds of 16 bits) and kinds of load of all these rows"
"""


def main(path: Path) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    report = validate({"rows": rows})
    primary, secondary, devices, gpus, tokens = defaultdict(list), defaultdict(list), set(), 0, 0
    formats, loads = defaultdict(set), defaultdict(set)
    for row, result in zip(rows, report.rows, strict=True):
        if result.error is None or result.facts is None or row["fold"] not in CALIBRATION_FOLDS:
            continue
        job = read_row(row)
        groups = primary if result.facts.primary else secondary
        group = accuracy_group(job.setup)
        groups[group].append(abs(result.error))
        formats[group].add(measured_format(job.setup))
        loads[group].add(SATURATED if result.facts.kind.endswith(SATURATED) else LATENCY)
        devices.add(job.setup.device.name)
        gpus, tokens = max(gpus, row["gpus"]), max(tokens, job.requests.prompt + job.requests.output)
    errors = {**secondary, **primary}
    print(HEADER + "p90:")
    for group in sorted(errors):
        if len(errors[group]) >= LEAST_ROWS:
            print(f"  {group}: {_rounded_up(np.quantile(errors[group], 0.9)):.2f}  # {len(errors[group])} rows")
    every = [error for groups in (primary, secondary) for group in groups.values() for error in group]
    twice = 2 * np.quantile(every, 0.9)
    print(f"  {UNKNOWN_GROUP}: {_rounded_up(twice):.2f}  # twice all {len(every)} rows': unseen engines are worse")
    print(f"devices: [{', '.join(sorted(devices))}]")
    print(f"most_gpus: {gpus}\nmost_tokens: {tokens}\ncovers:")
    for group in sorted(formats):
        numbers, kinds = (", ".join(sorted(each[group])) for each in (formats, loads))
        print(f"  {group}: {{precisions: [{numbers}], loads: [{kinds}]}}")
    print(FOOTER, end="")


def _rounded_up(share: float) -> float:
    """Return a share in whole percent that is not smaller: an interval holds what it was made from."""
    return math.ceil(100 * share) / 100


if __name__ == "__main__":
    main(path_given(__doc__))
