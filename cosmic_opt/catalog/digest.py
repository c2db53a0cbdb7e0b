"""A digest of a bound problem: equal exactly when the same designs are feasible and score the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.served import Serving


def problem_digest(spec: InstanceSpec, instance: BoundInstance) -> str:
    """Return the SHA-256 of everything that decides a problem's designs and scores, as 64 hexadecimal digits.

    Where files lie and how options were written does not matter.
    """
    return hashlib.sha256(problem_content(spec, instance).encode()).hexdigest()


def problem_content(spec: InstanceSpec, instance: BoundInstance) -> str:
    """Return what the digest is of, as JSON in a canonical form.

    That is columns and their values, rules, numbers, workload, NPU, prices and objective.
    """
    parameter_set = instance.parameter_set
    content = {
        "columns": [[column.name, column.unit.value, list(column.values)] for column in parameter_set.columns],
        "rules": [[rule.name, rule.text] for rule in parameter_set.constraints],
        "data": dict(parameter_set.data),
        "workload": asdict(instance.workload),
        "npu": asdict(instance.npu),
        "dimensions": instance.dimensions,
        "prices": {tier: asdict(price) for tier, price in spec.system.prices.tiers.items()},
        "objective": instance.objective,
    }
    if instance.calibrated is not None:
        own = instance.calibrated
        software = (own.engine, own.numbers, own.requests) if isinstance(own, Serving) else (own.stack, own.recipe)
        content["calibrated"] = [asdict(part) for part in (own.model, own.device, *software)]
    return json.dumps(content, sort_keys=True, default=_plain)


def _plain(value: object) -> object:
    """Return a set as a sorted list and a fraction as text."""
    return sorted(value) if isinstance(value, frozenset) else str(value)


@cache
def program_digest() -> str:
    """Return the SHA-256 of every source file of the program: two builds with equal digests compute alike."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
