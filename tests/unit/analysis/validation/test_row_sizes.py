"""A row of a job without a size is refused by the name of that size, and told how to give it."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_opt.analysis.validation import ROW_KINDS, validate
from tests.unit.analysis.validation.test_inference import ROW as INFERENCE
from tests.unit.analysis.validation.test_row_fields import GPT3
from tests.unit.analysis.validation.test_row_spelling import GEMM, REDUCE
from tests.unit.analysis.validation.test_training import ROW as TRAINING

SAID = {"seq": "the tokens of a sequence", "gbs": "the sequences of a step over all replicas"}


def without(row: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


def kinds(row: dict[str, Any]) -> list[str]:
    return [name for name in ROW_KINDS if ROW_KINDS.get(name).matches(row)]


@pytest.mark.parametrize("key", ["seq", "gbs"])
def test_a_training_row_without_a_size_names_it_and_how_to_give_it(key: str) -> None:
    for row in (without(TRAINING, key), TRAINING | {key: None}):
        (found,) = validate([row]).rows
        assert found.predicted is None
        assert found.note == f"the row cannot be predicted: '{key}' is not stated: give {SAID[key]}, such as " + (
            '"seq": 4096' if key == "seq" else '"gbs": 1024'
        )


@pytest.mark.parametrize("key", ["stack", "mbs", "dp"])
def test_a_training_row_without_both_sizes_is_one_by_any_field_of_a_job(key: str) -> None:
    others = {"stack", "mbs", "dp"} - {key}
    (found,) = validate([without(TRAINING, "seq", "gbs", *others)]).rows
    assert "'seq' is not stated" in str(found.note)


def test_activations_without_a_sequence_name_it() -> None:
    (found,) = validate([without(GPT3, "seq")]).rows
    assert "'seq' is not stated: give the tokens of a sequence" in str(found.note)


def test_a_row_is_of_one_kind() -> None:
    assert kinds(TRAINING) == kinds(without(TRAINING, "gbs")) == ["training"]
    assert kinds(GPT3) == kinds(without(GPT3, "seq")) == ["memory"]
    assert kinds(INFERENCE) == kinds(INFERENCE | {"stack": "x", "dp": 1}) == ["inference"]
    assert (kinds(GEMM), kinds(REDUCE)) == (["kernels"], ["collectives"])
    assert kinds(GEMM | {"mbs": 1}) == ["kernels"]
    assert kinds({"metric": "step_time_s", "value": 1.0}) == []
