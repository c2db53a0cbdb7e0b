"""The shipped workloads as shapes: published models whose layers a measured row may be of."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cosmic_opt.catalog.store import display, read_text, shared_names, shared_path
from cosmic_opt.errors import Where
from cosmic_opt.psa.document import read_yaml
from cosmic_opt.workloads.transformer import Transformer, from_mapping


@cache
def published_workloads() -> tuple[Transformer, ...]:
    """Return every shipped workload, by name."""
    paths = (shared_path("workloads", name, Path(), Where(key="workload")) for name in shared_names("workloads"))
    roots = (read_yaml(read_text(path), display(path)) for path in paths)
    return tuple(from_mapping({key: item.value for key, item in root.mapping().items()}, root.where) for root in roots)
