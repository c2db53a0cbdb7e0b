"""The boards a row names: how many, an error where `gpus` says otherwise; which of two that share a name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cosmic_opt.analysis.validation.collectives import predict_collective_row
from cosmic_opt.analysis.validation.inference import predict_inference
from cosmic_opt.analysis.validation.kernels import predict_kernel
from cosmic_opt.analysis.validation.memory import predict_memory
from cosmic_opt.analysis.validation.row_boards import as_stated, limit_notes, stated_boards
from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from tests.unit.analysis.validation import test_inference, test_training
from tests.unit.analysis.validation.test_row_spelling import GEMM, REDUCE

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
        stated_boards({"gpu": "8xH100", "gpus": gpus})
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
    assert stated_boards(row) is row
    with pytest.raises(SpecError):
        predict_inference(INFERENCE | row)


OPEN = {"gpu": "H100 96GB"}
BY_FIELDS: dict[str, tuple[dict[str, object], ...]] = {
    "h100-sxm-96": (
        {"memory_type": "HBM3"},
        {"memory_bandwidth_bytes_per_s": 3.35e12},
        {"power_w": 700},
        {"power_w": 650},
        {"power_w": 450, "memory_type": "hbm3"},
    ),
    "h100-96-500w": (
        {"memory_type": "HBM2e"},
        {"memory_bandwidth_bytes_per_s": 2.4e12},
        {"power_w": 500},
        {"power_w": 450.0, "memory_bandwidth_bytes_per_s": 2.35e12},
    ),
}


@pytest.mark.parametrize(
    ("device", "stated"), [(device, stated) for device, all_ in BY_FIELDS.items() for stated in all_]
)
def test_memory_bandwidth_or_power_tell_boards_of_one_name_apart(device: str, stated: dict[str, object]) -> None:
    outcome = predict_inference(INFERENCE | OPEN | stated)
    assert outcome.gpu == device
    assert outcome.primary == (stated.get("power_w") in (None, 500, 700))
    limit = {"power_w": stated["power_w"]} if "power_w" in stated else {}
    assert outcome == predict_inference(INFERENCE | {"gpu": device} | limit)


@pytest.mark.parametrize(
    "stated",
    [
        {"memory_type": "HBM3", "power_w": 500},
        {"memory_bandwidth_bytes_per_s": 2.8e12},
        {"memory_bandwidth_bytes_per_s": -1},
        {"memory_bandwidth_bytes_per_s": float("nan")},
        {"power_w": 10**6},
        {"power_w": "700 W"},
        {"memory_type": "GDDR7"},
        {"memory_type": 3},
    ],
)
def test_what_neither_board_has_is_refused(stated: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        predict_inference(INFERENCE | OPEN | stated)


def test_a_board_that_stays_open_is_said_in_the_note_and_makes_the_row_secondary() -> None:
    said = "'H100 96GB' is taken for h100-96-500w (2.4 TB/s HBM2e, 500 W), not h100-sxm-96 (3.36 TB/s HBM3, 700 W)"
    training = TRAINING | {"stack": "torchtitan-2025", "precision": "bf16"}
    for outcome in (
        predict_inference(INFERENCE | OPEN),
        predict_training(training | OPEN),
        predict_kernel(GEMM | OPEN),
    ):
        assert outcome.gpu == "h100-96-500w"
        assert f"assumed: {said}" in str(outcome.note)
        assert not outcome.primary
    told = predict_kernel(GEMM | {"gpu": "NVIDIA H100 96GB HBM3"})
    assert (told.gpu, told.primary) == ("h100-sxm-96", True)
    assert "taken for" not in str(told.note)


def test_the_faster_memory_decodes_faster() -> None:
    slow, fast = (predict_inference(INFERENCE | {"gpu": f"H100 96GB {kind}"}).predicted for kind in ("HBM2e", "HBM3"))
    assert slow is not None
    assert fast is not None
    assert fast < slow


B200: dict[str, Any] = TRAINING | {"gpu": "B200"}
FP8 = {"precision": "fp8", "stack": "megatron-te-2025"}


@pytest.mark.parametrize("precision", [{}, FP8])
def test_a_lower_power_limit_slows_a_step_and_the_note_says_at_which(precision: dict[str, Any]) -> None:
    own, half = predict_training(B200 | precision), predict_training(B200 | precision | {"power_w": 500})
    assert own.predicted is not None
    assert half.predicted is not None
    assert half.predicted > 1.3 * own.predicted
    assert half.gpu == own.gpu == "b200"
    assert "assumed: at 500 W, where no row was measured" in str(half.note)
    assert "at 1000 W" not in str(own.note)
    assert half.choice != own.choice


@pytest.mark.parametrize("power", [1000, 1000.0, None])
def test_the_boards_own_power_changes_nothing(power: object) -> None:
    assert predict_training(B200 | {"power_w": power}) == predict_training(B200)


def test_a_board_without_an_energy_keeps_the_root_of_its_power() -> None:
    best = {"kernel": "max_achievable_matmul", "precision": "bf16", "metric": "tflops", "gpu": "H100-SXM", "value": 1}
    own, quarter = predict_kernel(best), predict_kernel(best | {"power_w": 175})
    assert own.predicted is not None
    assert quarter.predicted == pytest.approx(own.predicted / 2)
    assert quarter.note == "at 175 W, where no row was measured"
    decode = INFERENCE | {"power_w": 350}
    assert "at 350 W" in str(predict_inference(decode).note)


def test_a_limit_does_not_reach_links_and_memory_but_is_said() -> None:
    own, low = (predict_collective_row(REDUCE | {"gpu": "H100-SXM"} | more) for more in ({}, {"power_w": 350}))
    assert replace(low, note=own.note) == own
    assert "at 350 W" in str(low.note)


@pytest.mark.parametrize(
    ("power", "message"),
    [
        (1000.1, "a power limit of 1000.1 W of 'b200' is above its own of 1000 W"),
        (1e18, "above its own of 1000 W"),
        (240, "a power limit of 240 W of 'b200' leaves nothing beside its base of 240 W"),
        (1e-9, "leaves nothing beside its base of 240 W"),
        (249, "is lower than any board's driver takes"),
        (0, "'power_w' is 0"),
        (-500, "'power_w' is -500"),
        (float("nan"), "'power_w' is nan"),
        (float("inf"), "'power_w' is inf"),
        (True, "'power_w' is True"),
        ("500 W", "'power_w' is '500 W'"),
        ([500], "'power_w' is"),
    ],
)
def test_a_limit_that_the_board_cannot_have_is_refused(power: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        predict_training(B200 | {"power_w": power})


def test_a_limit_of_a_board_whose_power_is_not_known_is_said_not_to_be_used() -> None:
    device, row = load_device("tpu-v5p"), {"gpu": "TPU v5p", "power_w": 300}
    assert as_stated(device, row) is device
    assert limit_notes(row) == ["the limit of tpu-v5p is not known: power_w is not used"]


def test_a_limit_that_either_board_of_a_name_may_be_set_to_decides_nothing() -> None:
    outcome = predict_inference(INFERENCE | OPEN | {"power_w": 450})
    assert outcome.gpu == "h100-96-500w"
    assert "is taken for" in str(outcome.note)
    assert "at 450 W" in str(outcome.note)


OTHER_BOARD = (
    ({"memory_bandwidth_bytes_per_s": 3.35e12}, "memory_bandwidth_bytes_per_s 3350000000000.0"),
    ({"memory_bandwidth_bytes_per_s": 9.3e12}, "memory_bandwidth_bytes_per_s"),
    ({"memory_type": "HBM3"}, "memory_type 'HBM3'"),
    ({"memory_type": "GDDR7"}, "memory_type 'GDDR7'"),
    ({"memory_type": "ü"}, "memory_type"),
)


@pytest.mark.parametrize(("stated", "said"), OTHER_BOARD)
def test_a_memory_that_is_not_the_named_boards_is_refused_with_both(stated: dict[str, object], said: str) -> None:
    message = rf"gpu 'B200' with {said}.* is not b200 \(8 TB/s HBM3e, 1000 W\)"
    with pytest.raises(SpecError, match=message):
        predict_training(B200 | stated)
    with pytest.raises(SpecError, match=message):
        predict_collective_row(REDUCE | {"gpu": "B200"} | stated)


@pytest.mark.parametrize("stated", [{"memory_bandwidth_bytes_per_s": 7.7e12}, {"memory_type": "HBM3E 180 GB"}])
def test_a_memory_that_is_the_named_boards_changes_nothing(stated: dict[str, object]) -> None:
    assert predict_training(B200 | stated) == predict_training(B200)


def test_a_topology_that_tells_the_board_tells_its_power() -> None:
    row = REDUCE | {"gpu": "A100-80GB", "topology": "PCIe"}
    assert predict_collective_row(row | {"power_w": 300}) == predict_collective_row(row)
    with pytest.raises(SpecError, match="above its own of 300 W"):
        predict_collective_row(row | {"power_w": 400})
