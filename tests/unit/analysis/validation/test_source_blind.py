"""Nothing is inferred from where a row comes from: its source, name and provenance change no prediction."""

from __future__ import annotations

import json

import pytest

from cosmic_opt.analysis.validation import validate
from cosmic_opt.catalog.store import data_root

EVERY = 9


@pytest.mark.parametrize("file", ["training", "inference", "kernels", "collectives", "memory", "elsewhere"])
def test_a_row_of_another_source_is_predicted_alike(file: str) -> None:
    data = json.loads((data_root() / "benchmarks" / "data" / f"{file}.json").read_text(encoding="utf-8"))
    rows = (data["rows"] if isinstance(data, dict) else data)[::EVERY]
    hidden = {"source": "elsewhere", "prov": "verbatim"}
    others = [row | hidden | {"id": f"row-{number}"} for number, row in enumerate(rows)]
    found = [[row.predicted for row in validate({"rows": each}).rows] for each in (rows, others)]
    assert found[0] == found[1]
    assert any(each is not None for each in found[0])
