"""Measured bytes of a GPU."""

from __future__ import annotations

import json

import pytest

from cosmic_opt.analysis.validation import validate_file
from cosmic_opt.analysis.validation.memory import predict_memory
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError

REPORT = validate_file(data_root() / "benchmarks" / "data" / "memory.json")


def test_published_memory_is_exact_to_the_printed_digits() -> None:
    assert len(REPORT.rows) == 8
    for row in REPORT.rows:
        assert row.predicted is not None
        assert round(row.predicted, 2) == pytest.approx(row.measured, abs=0.0101)


def test_the_true_first_stage_stands_beside_the_published_one() -> None:
    states = [row for row in REPORT.rows if row.facts and "params" in row.facts.kind]
    assert len(states) == 4
    assert all("with its embedding" in str(row.note) for row in states)


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown metric"):
        predict_memory({"metric": "weights_gib"})


def test_a_recompute_in_no_known_word_is_refused_whatever_the_metric() -> None:
    rows = json.loads((data_root() / "benchmarks" / "data" / "memory.json").read_text())["rows"]
    for row in rows:
        with pytest.raises(SpecError, match="'recompute' is"):
            predict_memory(row | {"recompute": "maybe"})
