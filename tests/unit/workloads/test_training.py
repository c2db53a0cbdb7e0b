"""Reading a job from instance data."""

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.training import TrainingJob, training_job
from tests.unit.workloads.shapes import GPT3_175B


def test_defaults_hold_where_the_data_say_nothing() -> None:
    assert training_job(GPT3_175B, {"global_batch": 2048}) == TrainingJob(global_batch=2048, sequence=2048)


def test_unrelated_instance_data_are_ignored() -> None:
    job = training_job(GPT3_175B, {"global_batch": 8, "npus": 1024, "objective": "step_time", "sequence": 4096})
    assert job == TrainingJob(global_batch=8, sequence=4096)


@pytest.mark.parametrize(("sharded", "stage"), [(0, 0), (1, 3)])
def test_weight_sharded_means_zero_stage_three(sharded: int, stage: int) -> None:
    assert training_job(GPT3_175B, {"global_batch": 8, "weight_sharded": sharded}).zero_stage == stage


def test_a_given_zero_stage_wins_over_weight_sharded() -> None:
    assert training_job(GPT3_175B, {"global_batch": 8, "weight_sharded": 1, "zero_stage": 1}).zero_stage == 1


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({}, "global_batch"),
        ({"global_batch": 0}, "global_batch"),
        ({"global_batch": "many"}, "global_batch"),
        ({"global_batch": 8, "zero_stage": 4}, "zero_stage"),
        ({"global_batch": 8, "recompute": "ful"}, "recompute"),
        ({"global_batch": 8, "recompute": 1}, "recompute"),
        ({"global_batch": 8, "attention_kernel": "flush"}, "attention_kernel"),
        ({"global_batch": 8, "bytes_per_weight": -1}, "bytes_per_weight"),
        ({"global_batch": 8, "sequence_parallel": 2}, "sequence_parallel"),
    ],
)
def test_a_bad_value_is_refused_at_its_key(data: dict[str, int | str], key: str) -> None:
    with pytest.raises(SpecError) as refused:
        training_job(GPT3_175B, data)
    assert refused.value.where is not None
    assert refused.value.where.key == key
    assert refused.value.hint
