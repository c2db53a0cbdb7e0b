"""What bounds a step: better hardware, and the least of every option; prepare and compose equal evaluate."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.analytical.layout import INFEASIBLE, Slot
from cosmic_opt.system.npu import Npu
from tests.unit.simulation.analytical_design import Design
from tests.unit.simulation.test_analytical_reference import (
    ALGORITHMS,
    SHAPES,
    TEXT,
    TOPOLOGIES,
    columns,
    random_design,
    scored,
)
from tests.unit.simulation.test_analytical_step import GB, TFLOPS, build, parts, shared_simulator


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_a_better_network_or_npu_never_lengthens_the_step(seed: int) -> None:
    rng = random.Random(seed)
    design = random_design(rng, rng.choice(SHAPES))
    if not scored([design], TEXT, exact=False):
        return
    dim = rng.randrange(3)
    wider = tuple(value + (index == dim) * rng.randrange(10**9) for index, value in enumerate(design.bandwidth))
    nearer = tuple(value // (1 + (index == dim)) for index, value in enumerate(design.latency))
    better = [replace(design, bandwidth=wider), replace(design, latency=nearer)]
    result = shared_simulator().evaluate(columns([design, *better]))
    assert result.step_ticks[1:].max() <= result.step_ticks[0]


@pytest.mark.parametrize("field", ["peak_flop_per_s", "memory_bytes_per_s"])
def test_a_faster_npu_never_lengthens_the_step(field: str) -> None:
    slow = Npu("slow", 10 * TFLOPS, 100 * GB, 80 * GB)
    fast = replace(slow, **{field: getattr(slow, field) * 3 // 2})
    for flags in itertools.product((0, 1), (0, 1), range(4)):
        names = dict(zip(("overlap_gradients", "overlap_weights", "zero_stage"), flags, strict=True))
        assert parts(build(npu=fast, dp=8, **names))["step"] <= parts(build(npu=slow, dp=8, **names))["step"]


def test_prepare_and_compose_equal_evaluate_to_the_tick() -> None:
    rng = random.Random(13)
    designs = [random_design(rng, rng.choice(SHAPES)) for _ in range(200)]
    designs = [design for design, _ in scored(designs, TEXT, exact=False)]
    model, batch = shared_simulator(), columns(designs)
    result, prepared = model.evaluate(batch), model.prepare({name: batch[name] for name in model.structural})
    for row in range(len(designs)):
        vectors = [
            model.option_vectors(prepared, row, dim, _options(batch, slice(row, row + 1), dim))[0] for dim in range(3)
        ]
        step, terms = model.compose(prepared, row, np.array(vectors))
        assert step == result.step_ticks[row]
        assert terms[: len(model.terms)].tolist() == result.terms[row].tolist()


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_componentwise_minima_bound_every_member_of_a_box_of_options(seed: int) -> None:
    rng = random.Random(seed)
    base = random_design(rng, rng.choice(SHAPES))
    members = [
        replace(
            base,
            topology=tuple(rng.choice(TOPOLOGIES) for _ in range(3)),
            algorithm=tuple(rng.choice(ALGORITHMS) for _ in range(3)),
            bandwidth=tuple(rng.randrange(1, 500) * GB for _ in range(3)),
            latency=tuple(rng.randrange(2_000_000) for _ in range(3)),
        )
        for _ in range(12)
    ]
    members = [design for design, _ in scored(members, TEXT, exact=False)]
    if not members:
        return
    model, batch = shared_simulator(), columns(members)
    prepared = model.prepare({name: batch[name][:1] for name in model.structural})
    boxes = [model.option_vectors(prepared, 0, dim, _options(batch, slice(None), dim)).min(axis=0) for dim in range(3)]
    bound, _ = model.compose(prepared, 0, np.array(boxes))
    assert bound <= model.evaluate(batch).step_ticks.min()


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_the_step_is_non_decreasing_in_every_slot(seed: int) -> None:
    rng = random.Random(seed)
    design = random_design(rng, rng.choice(SHAPES))
    model = shared_simulator()
    prepared = model.prepare(columns([design]))
    vectors = np.array([[rng.choice([0, rng.randrange(10**9)]) for _ in range(Slot.COUNT)] for _ in range(3)])
    before, _ = model.compose(prepared, 0, vectors)
    for dim, slot in itertools.product(range(3), range(Slot.COUNT)):
        longer = vectors.copy()
        longer[dim, slot] += rng.randrange(10**9)
        assert model.compose(prepared, 0, longer)[0] >= before


def test_an_option_that_does_not_exist_never_wins_a_minimum() -> None:
    design = Design(6, 1, 1, 1, (6, 1, 1), ("ring",) * 3, ("ring",) * 3, (GB,) * 3, (0,) * 3)
    model, batch = shared_simulator(), columns([design])
    prepared = model.prepare(batch)
    options = {
        "topology": np.array(["ring"] * 2),
        "algorithm": np.array(["ring", "halving_doubling"]),
        "bandwidth": np.array([GB, GB]),
        "latency": np.array([0, 0]),
    }
    vectors = model.option_vectors(prepared, 0, 0, options)
    assert (vectors[1] == INFEASIBLE).all()
    assert vectors.shape == (2, Slot.COUNT)
    assert (vectors.min(axis=0) == vectors[0]).all()


def _options(batch: dict[str, np.ndarray], rows: slice, dim: int) -> dict[str, np.ndarray]:
    return {name: batch[f"{name}[{dim}]"][rows] for name in ("topology", "algorithm", "bandwidth", "latency")}
