"""Quantities depend on the columns they must and on nothing else."""

from typing import Any

import numpy as np
import pytest

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.units import Unit
from cosmic_opt.workloads.memory import Designs, memory_per_npu
from cosmic_opt.workloads.memory_cosmic import memory_per_npu_cosmic
from cosmic_opt.workloads.quantities import QUANTITIES, build_memory, build_memory_cosmic
from cosmic_opt.workloads.training import training_job
from tests.unit.workloads.shapes import GPT3_175B

DATA: dict[str, int | str] = {"global_batch": 2048}
COSMIC = ("dp", "sp", "tp", "pp", "weight_sharded")


def arrays(**columns: Any) -> dict[str, Any]:
    return {name: np.array(values) for name, values in columns.items()}


def test_both_footprints_are_registered_in_bytes() -> None:
    assert QUANTITIES.names() == ("memory_per_npu", "memory_per_npu_cosmic")
    for name in QUANTITIES:
        quantity = QUANTITIES.get(name)(GPT3_175B, DATA, COSMIC)
        assert (quantity.name, quantity.unit) == (name, Unit.BYTES)


def test_only_columns_are_names() -> None:
    (term,) = build_memory(GPT3_175B, DATA, ("tp", "topology[0]", "dp", "recompute")).terms
    assert term.names == ("dp", "tp", "recompute")
    (term,) = build_memory_cosmic(GPT3_175B, DATA, ("micro_batch", "tp", "dp")).terms
    assert term.names == ("dp", "tp")


def test_names_that_are_not_columns_are_the_jobs() -> None:
    data = {**DATA, "pp": 4, "sp": 2, "weight_sharded": 1, "recompute": "full"}
    values = arrays(dp=[4, 8], tp=[8, 8])
    (term,) = build_memory(GPT3_175B, data, ("dp", "tp")).terms
    job = training_job(GPT3_175B, data)
    designs = Designs.of(job, {**values, **arrays(pp=4, sp=2, zero_stage=3, recompute="full")})
    assert np.array_equal(term.evaluate(values), memory_per_npu(GPT3_175B, job, designs).total_bytes)
    (term,) = build_memory_cosmic(GPT3_175B, data, ("dp", "tp")).terms
    columns = {**values, **arrays(pp=[4, 4], sp=[2, 2], weight_sharded=[1, 1])}
    assert np.array_equal(term.evaluate(values), memory_per_npu_cosmic(GPT3_175B, job, columns))


def test_weight_sharded_means_zero_stage_three() -> None:
    degrees = arrays(dp=[4, 4], tp=[8, 8])
    (cosmic,) = build_memory(GPT3_175B, DATA, ("dp", "tp", "weight_sharded")).terms
    (zero,) = build_memory(GPT3_175B, DATA, ("dp", "tp", "zero_stage")).terms
    by_flag = cosmic.evaluate({**degrees, **arrays(weight_sharded=[0, 1])})
    by_stage = zero.evaluate({**degrees, **arrays(zero_stage=[0, 3])})
    assert np.array_equal(by_flag, by_stage)
    assert by_flag.dtype == np.int64


def test_the_logged_value_comes_out_of_the_quantity() -> None:
    (term,) = build_memory_cosmic(GPT3_175B, DATA, COSMIC).terms
    design = arrays(dp=[32], sp=[8], tp=[4], pp=[1], weight_sharded=[1])
    assert term.evaluate(design).tolist() == [16_408_117_248]


def test_two_ways_to_say_what_is_sharded_are_refused() -> None:
    with pytest.raises(SpecError, match="weight_sharded") as refused:
        build_memory(GPT3_175B, DATA, ("zero_stage", "weight_sharded"))
    assert refused.value.hint


def test_a_job_without_a_batch_is_refused() -> None:
    with pytest.raises(SpecError, match="global batch"):
        build_memory(GPT3_175B, {}, ("dp",))


def test_a_job_too_large_to_count_is_refused_when_it_is_built() -> None:
    with pytest.raises(LimitError):
        build_memory(GPT3_175B, {"global_batch": 10**10}, ("dp",))
