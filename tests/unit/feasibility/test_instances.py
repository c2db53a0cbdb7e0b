"""Exact counts of the shipped instances."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.catalog.bind import bind
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import load_instance
from cosmic_opt.catalog.job_kinds import INFERENCE
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.solvers.base import Limits
from cosmic_opt.solvers.cp_sat import CpSat
from cosmic_opt.solvers.exhaustive import Exhaustive
from tests.strategies import brute_force, sorted_codes

TABLE1 = load_instance("cosmic/table1-1024")
SHARDED = (("weight_sharded", "1"),)
REST = (("topology", "ring"), ("bandwidth", "100GB/s"), ("algorithm", "ring"))
HALF_THE_BANDWIDTH = (("bandwidth[0]", "100GB/s"), ("bandwidth[2]", "100GB/s"))
LARGEST_GRID = 200_000


def count(edits: Edits) -> int:
    return feasible_set(lower(bind(TABLE1, edits).parameter_set)).size


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        (("shape", "inner", "fits"), 76_859_228_160_000),
        (("inner", "fits"), 9_488_793_600_000),
        (("fits",), 6_325_862_400_000),
        ((), 6_082_560_000_000),
    ],
)
def test_table1_with_sharded_weights_has_the_published_count(without: tuple[str, ...], expected: int) -> None:
    assert count(Edits(fix=SHARDED, without=without)) == expected


def test_table1_without_shape_inner_and_memory_follows_from_binomials() -> None:
    """286 = C(13, 3) splits of 2^10 over four degrees; 3, 3, 10 and 4 options in each of four dimensions; 16 more."""
    assert count(Edits(fix=SHARDED, without=("shape", "inner", "fits"))) == 286 * (3 * 3 * 10 * 4) ** 4 * 16


def test_table1_with_whole_weights_fits_less_often() -> None:
    assert count(Edits(fix=(("weight_sharded", "0"),))) == 4_224_614_400_000


def test_table1_counts_both_kinds_of_sharding_when_it_is_free() -> None:
    assert count(Edits()) == 6_082_560_000_000 + 4_224_614_400_000


@pytest.mark.parametrize(
    ("sharded", "capacity", "fitting"),
    [("1", "24GB", 275), ("1", "80GB", 286), ("0", "24GB", 191), ("0", "80GB", 266)],
)
def test_table1_count_is_the_splits_that_fit_times_everything_else(sharded: str, capacity: str, fitting: int) -> None:
    """Memory depends on the four degrees alone; 6,325,862,400,000 / 286 designs belong to each of their splits."""
    edits = Edits(fix=(("weight_sharded", sharded),), set=(("memory_capacity", capacity),))
    splits = bind(TABLE1, edits.then(Edits(scope="workload"))).parameter_set
    assert len(brute_force(splits)) == fitting
    assert count(edits) == fitting * 22_118_400_000


MEMORY_KNOBS = ("cp", "ep", "interleave", "recompute", "zero_stage", "sequence_parallel")


def around_its_design(name: str, free: tuple[str, ...]) -> ParameterSet:
    """Return the problem in which only some parameters may differ from the instance's own design."""
    spec = load_instance(name)
    own = bind(spec).baseline
    fixed = tuple((column, str(value)) for column, value in own.items() if column not in free)
    return bind(spec, Edits(fix=fixed)).parameter_set


def restricted(name: str) -> list[ParameterSet]:
    """Return variants of an instance small enough to try every design."""
    if load_instance(name).model.name in ("megatron", "fsdp"):
        return [around_its_design(name, ("dp", "tp", "pp", "micro_batch")), around_its_design(name, MEMORY_KNOBS)]
    if name.startswith("cosmic/placement"):
        shape = tuple((f"npus_per_dim[{d}]", npus) for d, npus in enumerate(("4", "8", "4", "8")))
        rest = tuple((f"{name}[{d}]", value) for name, value in REST for d in range(4))
        once = (("scheduling_policy", "lifo"), ("chunks", "4"), ("multidim", "baseline"), ("weight_sharded", "1"))
        placed = {"tp": "412", "pp": "182", "sp": "1111", "dp": "1111"}
        fixed = tuple((f"extent[{g},{d}]", extent) for g, row in placed.items() for d, extent in enumerate(row))
        edits = [
            Edits(scope="filling_order", fix=(*shape, *rest, *once, ("pp", "1"))),
            Edits(scope="workload", fix=(*fixed, ("dp", "1"), ("sp", "1"))),
        ]
    elif name.startswith("calculon/"):
        once = (("recompute", "selective"), ("chunks", "4"), ("multidim", "baseline"), ("algorithm", "ring"))
        flags = (("overlap_gradients", "1"), ("overlap_weights", "1"), ("sequence_parallel", "1"))
        edits = [
            Edits(scope="nested", fix=(*once, *flags, ("zero_stage", "1"), ("micro_batch", "2"))),
            Edits(
                scope="execution", fix=(*once, *flags, ("zero_stage", "1"), ("interleave", "1"), ("micro_batch", "1"))
            ),
        ]
    elif load_instance(name).kind is INFERENCE:
        own = {knob: str(entry.value) for knob, entry in load_instance(name).design.items()}
        edits = [
            Edits(fix=tuple(each for each in own.items() if each[0].endswith(("pp", *held))))
            for held in (("batch",), ("prefill_batch", "tp", "ep"))
        ]
    elif name.startswith("cosmic/"):
        edits = [
            Edits(scope="workload"),
            Edits(scope="collective"),
            Edits(scope="network", fix=(("npus_per_dim", "4"), ("bandwidth", "100GB/s")), without=("shape",)),
            Edits(scope="network", fix=(("topology", "ring"), ("algorithm", "ring"), *HALF_THE_BANDWIDTH)),
        ]
    else:
        edits = [
            Edits(scope="workload", fix=(("zero_stage", "1"),)),
            Edits(scope="workload", fix=(("micro_batch", "1"), ("recompute", "full"))),
            Edits(fix=(("dp", "128"), ("sp", "1"), ("tp", "8")), scope="workload_and_collective"),
        ]
    spec = load_instance(name)
    return [bind(spec, edit).parameter_set for edit in edits]


OFTEN = [name for name in instance_names() if "system2" in name or "h100" in name]
SELDOM = [pytest.param(name, marks=pytest.mark.slow) for name in instance_names() if name not in OFTEN]


@pytest.mark.parametrize("name", [*OFTEN, *SELDOM])
def test_engines_agree_on_restricted_instances(name: str) -> None:
    for parameter_set in restricted(name):
        assert parameter_set.grid_size <= LARGEST_GRID
        model = lower(parameter_set)
        expected = brute_force(parameter_set)
        designs = feasible_set(model)
        assert designs.size == len(expected) > 0
        np.testing.assert_array_equal(designs.everything(LARGEST_GRID), expected)
        for solver in (Exhaustive(), CpSat()):
            found = sorted_codes(model, list(solver.enumerate(model, limits=Limits())))
            np.testing.assert_array_equal(found, expected, solver.name)
