"""Loads how well measured kernels, collectives and memory are predicted, and within which sizes they were fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_opt.catalog.software_files import number
from cosmic_opt.catalog.store import read_document, shared_path
from cosmic_opt.errors import Where
from cosmic_opt.psa.document import Entry

OTHER = "other"
"""The group of what has no rows of its own."""


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """Rows of one kind on one device that may be fitted.

    Attributes:
        p90: 90th percentile of |predicted / measured - 1|; None where the rows are too few.
        ranges: Least and greatest value of each size among them, by the field of a row.
    """

    p90: float | None
    ranges: Mapping[str, tuple[float, float]]


@cache
def load_measured_parts() -> Mapping[str, MeasuredPart]:
    """Return every group by "kind device"; `OTHER` holds the error of what was never measured.

    Raises:
        SpecError: the file is damaged.
    """
    path = shared_path("accuracy", "parts", Path(), Where(key="kind"))
    root = read_document(path, "accuracy")
    groups = root.fields(required=("groups",), optional=("schema", "source"))["groups"].mapping()
    return {name: _part(entry) for name, entry in groups.items()}


def _part(entry: Entry) -> MeasuredPart:
    fields = dict(entry.mapping())
    p90 = fields.pop("p90", None)
    ranges = {name: tuple(number(each) for each in pair.items()) for name, pair in fields.items()}
    return MeasuredPart(
        None if p90 is None else number(p90), {name: (low, high) for name, (low, high) in ranges.items()}
    )
