"""A number of boards beside the name of a row's GPU: that of `gpus`, or an error that names both."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_opt.analysis.validation.collectives import predict_collective_row
from cosmic_opt.analysis.validation.inference import predict_inference
from cosmic_opt.analysis.validation.memory import predict_memory
from cosmic_opt.analysis.validation.row_boards import counted
from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.errors import SpecError
from tests.unit.analysis.validation import test_inference, test_training
from tests.unit.analysis.validation.test_row_spelling import REDUCE

TRAINING, INFERENCE = test_training.ROW, test_inference.ROW
WITHOUT: dict[str, Any] = {key: value for key, value in INFERENCE.items() if key not in ("gpus", "tp", "pp")}


def test_a_number_that_is_that_of_the_row_changes_nothing() -> None:
    assert predict_training(TRAINING | {"gpu": "128x A100-80GB"}) == predict_training(TRAINING)
    assert predict_inference(INFERENCE | {"gpu": "H100-80GBx2"}) == predict_inference(INFERENCE)
    assert predict_collective_row(REDUCE | {"gpu": "H100 x 8"}) == predict_collective_row(REDUCE)


def test_a_number_stands_for_gpus_that_are_not_given() -> None:
    without = {key: value for key, value in TRAINING.items() if key != "gpus"}
    assert predict_training(without | {"gpu": "128 x A100 80GB"}) == predict_training(TRAINING)
    assert predict_inference(WITHOUT | {"gpu": "2xH100"}).gpus == 2
    assert predict_collective_row({**REDUCE, "gpu": "8xH100", "gpus": None}) == predict_collective_row(REDUCE)


@pytest.mark.parametrize("gpus", [16, 4, 8.0000001, "8", float("nan"), 0, -8])
def test_a_number_other_than_gpus_is_refused(gpus: object) -> None:
    with pytest.raises(SpecError, match="gpus"):
        counted({"gpu": "8xH100", "gpus": gpus})
    with pytest.raises(SpecError, match="gpu '8xH100' counts 8, but gpus is 16"):
        predict_collective_row(REDUCE | {"gpu": "8xH100", "gpus": 16})


def test_a_number_that_tensor_parallelism_does_not_share_is_refused() -> None:
    with pytest.raises(SpecError, match="gpu '8x H100' counts 8, but tp is 3"):
        predict_inference(WITHOUT | {"gpu": "8x H100", "tp": 3})
    with pytest.raises(SpecError, match="tp, pp and ep make 4 GPUs, not 8"):
        predict_inference(WITHOUT | {"gpu": "8x H100", "tp": 4})
    with pytest.raises(SpecError, match="gpu '8x H100' counts 8, but tp is 3"):
        predict_memory({**TRAINING, "gpus": None, "metric": "activations_gib", "gpu": "8x H100", "tp": 3})


@pytest.mark.parametrize("gpu", ["A100-SXM-64GB x 8", "8x RTX 4090", "8x", "", None, 8, ["8xH100"]])
def test_what_is_no_device_is_left_to_be_refused_as_it_is_written(gpu: object) -> None:
    row = {"gpu": gpu, "gpus": 16}
    assert counted(row) is row
    with pytest.raises(SpecError):
        predict_inference(INFERENCE | row)
