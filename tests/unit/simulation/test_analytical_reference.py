"""The kernel against a slow, independent implementation of the same step."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.analytical import AnalyticalSimulator
from cosmic_opt.system.npu import Npu
from cosmic_opt.workloads.placement import GROUPS, ORDERS, nested_placement
from cosmic_opt.workloads.training import OFFLOADS
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.simulation.analytical_design import Design
from tests.unit.simulation.analytical_reference import HOST_BYTES_PER_S, Reference

GLOBAL_BATCH, SEQUENCE = 48, 2048
NPU = Npu("test", 10 * 10**12, 50 * 10**9, 24 * 10**9)
TEXT = Transformer(
    name="text",
    layers=10,
    hidden=1024,
    heads=16,
    kv_heads=4,
    head_dim=64,
    ffn=4096,
    vocabulary=32000,
    positions=SEQUENCE,
    sequence=SEQUENCE,
    tied_embeddings=True,
)
IMAGE = Transformer(
    name="image",
    layers=12,
    hidden=768,
    heads=12,
    kv_heads=12,
    head_dim=64,
    ffn=3072,
    sequence=SEQUENCE,
    positions=SEQUENCE,
    causal=False,
    patch_size=16,
    channels=3,
    classes=1000,
)
SHAPES = ((4, 8, 4), (6, 4, 3), (2, 3, 5), (12, 2, 6), (1, 1, 1), (7, 1, 9), (1, 24, 1))
TOPOLOGIES = ("ring", "fully_connected", "switch")
ALGORITHMS = ("ring", "direct", "halving_doubling", "double_binary_tree")


@pytest.fixture(scope="module", autouse=True)
def compiled_kernel() -> None:
    """Compile outside the time of any one test."""
    design = Design(1, 1, 1, 1, (1,), ("ring",), ("ring",), (1,), (0,))
    simulator(TEXT, 1, ((1,),)).evaluate(columns([design]))


def random_design(rng: random.Random, shape: tuple[int, ...], **fixed: object) -> Design:
    dp, tp, pp, sp = random_factors(rng, prod(shape), 4)
    values: dict[str, object] = {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "sp": sp,
        "npus_per_dim": shape,
        "topology": tuple(rng.choice(TOPOLOGIES) for _ in shape),
        "algorithm": tuple(rng.choice(ALGORITHMS) for _ in shape),
        "bandwidth": tuple(rng.randrange(1, 500) * 10**9 for _ in shape),
        "latency": tuple(rng.randrange(0, 2_000_000) for _ in shape),
        "zero_stage": rng.randrange(4),
        "micro_batch": rng.choice([1, 2, 3]),
        "recompute": rng.choice(["none", "selective", "full"]),
        "chunks": rng.choice([1, 2, 3, 4, 16]),
        "multidim": rng.choice(["baseline", "blueconnect"]),
        "sequence_parallel": rng.randrange(2),
        "overlap_gradients": rng.randrange(2),
        "overlap_weights": rng.randrange(2),
        "interleave": rng.choice([1, 1, 2, 3]),
        "order": rng.choice(ORDERS),
    }
    return Design(**{**values, **fixed})  # type: ignore[arg-type]


def random_factors(rng: random.Random, number: int, parts: int) -> list[int]:
    factors, prime = [1] * parts, 2
    while number > 1:
        while number % prime == 0:
            factors[rng.randrange(parts)] *= prime
            number //= prime
        prime += 1
    return factors


def placed_freely(rng: random.Random, design: Design) -> Design:
    """The design with every dimension shared out among the groups at random, and the degrees that follow."""
    shares = [random_factors(rng, npus, len(GROUPS)) for npus in design.npus_per_dim]
    extent = tuple(zip(*shares, strict=True))
    return replace(design, extent=extent, **{group: prod(row) for group, row in zip(GROUPS, extent, strict=True)})


def offloaded(rng: random.Random, design: Design) -> Design:
    """The design with any of weights, activations and optimizer states in host memory."""
    return replace(design, **{name: rng.randrange(2) for name in OFFLOADS})


def simulator(
    workload: Transformer,
    dimensions: int,
    shapes: tuple[tuple[int, ...], ...],
    *,
    explicit: bool = False,
    global_batch: int = GLOBAL_BATCH,
) -> AnalyticalSimulator:
    names = ("npus_per_dim", "topology", "algorithm", "bandwidth", "latency")
    per_dim = [f"{name}[{dim}]" for name in names for dim in range(dimensions)]
    if explicit:
        per_dim += [f"extent[{group},{dim}]" for group in GROUPS for dim in range(dimensions)]
    scalars = [name for name in Design.__dataclass_fields__ if name not in (*names, "extent")]
    if explicit:
        scalars.remove("order")
    domains: dict[str, tuple[int | str, ...]] = dict.fromkeys((*scalars, *per_dim), ())
    for dim in range(dimensions):
        domains[f"npus_per_dim[{dim}]"] = tuple({shape[dim] for shape in shapes})
        domains[f"topology[{dim}]"] = TOPOLOGIES
        domains[f"algorithm[{dim}]"] = ALGORITHMS
    job = {"global_batch": global_batch, "sequence": SEQUENCE}
    return AnalyticalSimulator(workload, job, NPU, dimensions, {"host_bandwidth": HOST_BYTES_PER_S}, domains)


def columns(designs: list[Design]) -> dict[str, np.ndarray]:
    rows = [design.columns() for design in designs]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def scored(designs: list[Design], workload: Transformer, *, exact: bool) -> list[tuple[Design, Reference]]:
    """The designs whose algorithms exist, with their reference score."""
    pairs = []
    for design in designs:
        try:
            pairs.append((design, Reference(workload, NPU, design, GLOBAL_BATCH, SEQUENCE, exact=exact)))
        except InfeasibleError:
            continue
    return pairs


@pytest.mark.parametrize("number", [300, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("workload", [TEXT, IMAGE], ids=lambda workload: workload.name)
def test_kernel_equals_the_reference_to_the_tick_in_every_term(workload: Transformer, number: int) -> None:
    rng = random.Random(7)
    designs = [random_design(rng, rng.choice(SHAPES)) for _ in range(number)]
    pairs = scored(designs, workload, exact=False)
    assert len(pairs) > 4 * number / 9
    model = simulator(workload, 3, SHAPES)
    result = model.evaluate(columns([design for design, _ in pairs]))
    for row, (design, reference) in enumerate(pairs):
        assert dict(zip(model.terms, result.terms[row], strict=True)) == reference.terms, design
        assert result.step_ticks[row] == reference.step, design
        assert result.micro_batches[row] == reference.micro_batches


@pytest.mark.parametrize("number", [200, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("workload", [TEXT, IMAGE], ids=lambda workload: workload.name)
def test_kernel_equals_the_reference_where_layers_are_offloaded(workload: Transformer, number: int) -> None:
    rng = random.Random(29)
    designs = [offloaded(rng, random_design(rng, rng.choice(SHAPES))) for _ in range(number)]
    pairs = scored(designs, workload, exact=False)
    model = simulator(workload, 3, SHAPES)
    result = model.evaluate(columns([design for design, _ in pairs]))
    for row, (design, reference) in enumerate(pairs):
        assert dict(zip(model.terms, result.terms[row], strict=True)) == reference.terms, design
        assert result.step_ticks[row] == reference.step, design
    exposed = result.terms[:, model.terms.index("offload (exposed)")]
    assert number / 6 < (exposed > 0).sum() < len(pairs) - number / 12


def test_kernel_equals_the_reference_where_groups_lie_anywhere() -> None:
    rng = random.Random(17)
    designs = [placed_freely(rng, random_design(rng, rng.choice(SHAPES))) for _ in range(600)]
    pairs = scored(designs, TEXT, exact=False)
    assert len(pairs) > 200
    result = simulator(TEXT, 3, SHAPES, explicit=True).evaluate(columns([design for design, _ in pairs]))
    for row, (design, reference) in enumerate(pairs):
        assert result.step_ticks[row] == reference.step, design


def test_free_extents_that_equal_an_order_give_its_score() -> None:
    rng = random.Random(19)
    designs = [random_design(rng, (4, 8, 4), algorithm=("ring",) * 3) for _ in range(200)]
    by_order = simulator(TEXT, 3, SHAPES).evaluate(columns(designs)).step_ticks
    spelt = []
    for design in designs:
        groups = design.order.split("_")
        rows = dict(zip(groups, nested_placement([getattr(design, g) for g in groups], (4, 8, 4)), strict=True))
        spelt.append(replace(design, extent=tuple(rows[group] for group in GROUPS)))
    explicit = simulator(TEXT, 3, SHAPES, explicit=True).evaluate(columns(spelt)).step_ticks
    assert np.array_equal(by_order, explicit)
    assert len(set(by_order)) > 100


@pytest.mark.parametrize(
    "extent",
    [
        ((4, 1, 1), (1, 1, 1), (1, 8, 4), (1, 1, 1)),  # tp 4 for a degree of 8
        ((8, 1, 1), (1, 1, 1), (1, 4, 4), (1, 1, 1)),  # 8 of 4 NPUs
        ((4, 2, 1), (1, 1, 1), (1, 2, 4), (1, 1, 1)),  # dimension 1 holds 4 of 8
        ((4, 2, 1), (0, 1, 1), (1, 4, 4), (1, 1, 1)),
        ((4, 2, 1), (1, 1, 1), (-1, -4, 4), (1, 1, 1)),
        ((4, 2**40, 1), (1, 1, 1), (1, 4, 4), (1, 1, 1)),
    ],
)
def test_extents_that_place_nothing_are_refused(extent: tuple[tuple[int, ...], ...]) -> None:
    design = random_design(random.Random(23), (4, 8, 4), dp=16, tp=8, pp=1, sp=1, extent=extent)
    with pytest.raises(InfeasibleError, match="do not place the degrees"):
        simulator(TEXT, 3, SHAPES, explicit=True).evaluate(columns([design]))


def test_kernel_equals_the_reference_on_five_dimensions() -> None:
    rng = random.Random(11)
    shapes = ((2, 3, 2, 4, 2), (4, 1, 6, 2, 3))
    pairs = scored([random_design(rng, rng.choice(shapes)) for _ in range(300)], TEXT, exact=False)
    result = simulator(TEXT, 5, shapes).evaluate(columns([design for design, _ in pairs]))
    assert result.step_ticks.tolist() == [reference.step for _, reference in pairs]


def test_floating_point_primitives_are_exact_fractions_to_a_part_in_ten_to_the_twelve() -> None:
    rng = random.Random(3)
    pairs = scored([random_design(rng, rng.choice(SHAPES)) for _ in range(150)], TEXT, exact=True)
    result = simulator(TEXT, 3, SHAPES).evaluate(columns([design for design, _ in pairs]))
    exact = np.array([reference.step for _, reference in pairs])
    assert np.abs(result.step_ticks - exact).max() <= 1e-12 * exact.max()


def test_a_design_is_refused_exactly_where_an_algorithm_does_not_exist() -> None:
    rng = random.Random(5)
    model = simulator(TEXT, 3, SHAPES)
    for _ in range(100):
        design = random_design(rng, rng.choice(SHAPES))
        if scored([design], TEXT, exact=False):
            model.evaluate(columns([design]))
        else:
            with pytest.raises(InfeasibleError, match=r"needs groups of a power of two|needs a switch"):
                model.evaluate(columns([design]))
