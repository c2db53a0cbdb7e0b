"""COSMIC's formula, term by term in exact fractions, and the value its authors logged."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from cosmic_opt.errors import LimitError
from cosmic_opt.workloads.memory_cosmic import memory_per_npu_cosmic
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.workloads.shapes import GPT3_175B, LLAMA3_8B, VIT_LARGE

JOB = TrainingJob(global_batch=2048, sequence=2048)
POWERS = [2**exponent for exponent in range(11)]


def term_by_term(workload: Transformer, job: TrainingJob, dp: int, sp: int, tp: int, pp: int, sharded: int) -> int:
    d, ff, heads = workload.hidden, workload.ffn, workload.heads
    batch, seq, npus = job.global_batch, job.sequence, dp * sp * tp
    weights = Fraction(3 * d * d, tp if sharded else npus) + Fraction(d * 2 * d, tp) + Fraction(2 * d * ff, tp)
    attention = Fraction(6 * batch * seq * d + batch * seq * seq * heads, npus)
    ffn = Fraction(batch * seq * ff + 3 * batch * seq * d, npus)
    embedding = Fraction(2 * batch * seq * d, npus if sharded else dp * sp)
    return math.ceil(2 * (weights + attention + ffn + embedding) * job.cosmic_layers / pp)


def columns(*designs: tuple[int, int, int, int, int]) -> dict[str, np.ndarray]:
    names = ("dp", "sp", "tp", "pp", "weight_sharded")
    return {
        name: np.array(values, dtype=np.int64) for name, values in zip(names, zip(*designs, strict=True), strict=True)
    }


def test_the_value_the_authors_logged_is_reproduced() -> None:
    # GPT-3 175B on 1,024 NPUs, batch 2048, four layers: logged by COSMIC's authors
    assert memory_per_npu_cosmic(GPT3_175B, JOB, columns((32, 8, 4, 1, 1))).tolist() == [16_408_117_248]


@pytest.mark.parametrize("workload", [GPT3_175B, LLAMA3_8B, VIT_LARGE], ids=lambda workload: workload.name)
def test_every_split_of_1024_npus_equals_the_terms_in_fractions(workload: Transformer) -> None:
    designs = [
        (dp, sp, 1024 // (dp * sp * pp), pp, sharded)
        for dp, sp, pp, sharded in itertools.product(POWERS, POWERS, POWERS, (0, 1))
        if dp * sp * pp <= 1024
    ]
    assert len(designs) == 2 * 286
    expected = [term_by_term(workload, JOB, *design) for design in designs]
    assert memory_per_npu_cosmic(workload, JOB, columns(*designs)).tolist() == expected


def test_shares_that_are_not_whole_round_up() -> None:
    design = (3, 5, 7, 11, 0)
    assert memory_per_npu_cosmic(GPT3_175B, JOB, columns(design)).tolist() == [term_by_term(GPT3_175B, JOB, *design)]


def test_numerators_beyond_63_bits_stay_exact() -> None:
    job = TrainingJob(global_batch=16384, sequence=131072, cosmic_layers=96)
    designs = [(16384, 64, 8, 1, 1), (16384, 64, 8, 1, 0), (16384, 1, 1, 96, 0)]
    expected = [term_by_term(GPT3_175B, job, *design) for design in designs]
    assert memory_per_npu_cosmic(GPT3_175B, job, columns(*designs)).tolist() == expected


def test_a_footprint_beyond_63_bits_is_refused() -> None:
    job = TrainingJob(global_batch=2**20, sequence=2**20, cosmic_layers=96)
    with pytest.raises(LimitError, match=r"2\^63"):
        memory_per_npu_cosmic(GPT3_175B, job, columns((1, 1, 1, 1, 1)))


def test_no_designs_have_no_footprints() -> None:
    empty = {name: np.array([], dtype=np.int64) for name in ("dp", "sp", "tp", "pp", "weight_sharded")}
    assert memory_per_npu_cosmic(GPT3_175B, JOB, empty).tolist() == []
