"""Faster hardware never lengthens a calibrated step."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root
from cosmic_opt.search.score import simulator_of
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.simulator import CalibratedSimulator
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.training_designs import FRAMEWORK_RECOMPUTE, named_recompute
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, LLAMA_8B, QWEN_30B, setup

INSTANCES = data_root() / "instances"
CALIBRATED = sorted(
    path.relative_to(INSTANCES).with_suffix("").as_posix()
    for path in INSTANCES.glob("[!_]*/*.yaml")
    if "\nstack:" in path.read_text(encoding="utf-8")
)


@cache
def sampled(name: str) -> tuple[CalibratedSimulator, dict[str, np.ndarray]]:
    problem = Problem.load(name).without("fits")
    own = simulator_of(problem.instance)
    assert isinstance(own, CalibratedSimulator)
    return own, dict(problem.sample(200, seed=3).value_columns())


def ticks(own: CalibratedSimulator, constants: dict[str, int | str], columns: dict[str, np.ndarray]) -> np.ndarray:
    domains = {name: np.unique(values).tolist() for name, values in columns.items() if name in own.columns}
    fresh = CalibratedSimulator(own.calibrated, own.dimensions, constants, domains)
    return fresh.evaluate(columns, strict=False).step_ticks


@pytest.mark.parametrize("name", CALIBRATED)
def test_more_bandwidth_in_any_dimension_never_slows_a_calibrated_instance(name: str) -> None:
    own, columns = sampled(name)
    constants = dict(own.constants)
    before = ticks(own, constants, columns)
    for bandwidth in (f"bandwidth[{d}]" for d in range(own.dimensions)):
        for factor in (1.01, 1.1, 1.5, 2.0, 8.0):
            more = int(int(constants[bandwidth]) * factor)
            assert (ticks(own, constants | {bandwidth: more}, columns) <= before + len(own.terms)).all()


def test_every_training_instance_with_a_stack_is_covered() -> None:
    assert len(CALIBRATED) >= 15
    assert "llama3-70b/tpu-v5p-512-fsdp" in CALIBRATED


HARDWARE = ("memory", "links", "card", "peak")


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.data())
def test_faster_hardware_never_slows_a_sharded_step_that_waits_for_its_host(data: st.DataObject) -> None:
    """Gathers hide behind the layer's time, its wait included: what a faster device no longer hides, it saves."""
    stack = data.draw(st.sampled_from(["torchtitan-2025", "fsdp-2023", "megatron-te-2025", "megatron-te-2026"]))
    base = setup(
        data.draw(st.sampled_from([QWEN_30B, LLAMA_8B])),
        stack=stack,
        recipe=data.draw(st.sampled_from(["bf16", "mxfp8"])),
        sequence=data.draw(st.sampled_from([256, 1024, 4096])),
    )
    designs = TrainingDesigns.of(
        dp=data.draw(st.sampled_from([8, 16, 64])),
        tp=data.draw(st.sampled_from([1, 2, 4])),
        cp=data.draw(st.sampled_from([1, 2, 4, 8])),
        ep=8 if base.model.experts else 1,
        micro_batch=data.draw(st.sampled_from([1, 2])),
        zero_stage=3,
        shard_replicas=data.draw(st.sampled_from([1, 2, 8])),
        reshard=data.draw(st.integers(0, 1)),
        prefetch=data.draw(st.integers(0, 1)),
        recompute=again(data.draw(st.sampled_from(RECOMPUTED)), base),
    )
    before = float(step_time(base, designs).step_s[0])
    better = faster(base, data.draw(st.sampled_from(HARDWARE)), data.draw(st.floats(1.0, 8.0)))
    assert float(step_time(better, designs).step_s[0]) <= before * (1 + 1e-9)


def faster(base: TrainingSetup, part: str, factor: float) -> TrainingSetup:
    device, fabric = base.device, base.device.fabric
    assert fabric is not None
    if part == "memory":
        return replace(base, device=replace(device, memory_bytes_per_s=factor * device.memory_bytes_per_s))
    if part == "links":
        fast = replace(fabric, link_bytes_per_s=factor * fabric.link_bytes_per_s)
        return replace(base, device=replace(device, fabric=fast))
    if part == "peak":
        peaks = {name: factor * peak for name, peak in device.peak_flop_per_s.items()}
        return replace(base, device=replace(device, peak_flop_per_s=peaks))
    return replace(base, nic_bytes_per_s=factor * base.nic_bytes_per_s)


RECOMPUTED: tuple[str | float, ...] = (*FRAMEWORK_RECOMPUTE, 0.25, 0.5, 0.75)


def again(kind: float | str, base: TrainingSetup) -> Recompute:
    if isinstance(kind, float):
        return Recompute.of(kind)
    return named_recompute(np.array(kind), base.stack.selective)


AXES = {
    "dp": [8, 32, 64],
    "tp": [1, 4],
    "cp": [1, 4, 64],
    "micro_batch": [1, 2],
    "zero_stage": [0, 3],
    "reshard": [0, 1],
    "prefetch": [0, 1],
    "shard_replicas": [1, 8],
}
"""576 designs, most of them fully sharded."""
MORE = (
    *(("none", "selective"), ("selective", "full"), ("none", "modules"), ("modules", "full")),
    *(("none", 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, "full")),
)
JOBS = [
    (stack, model, sequence)
    for stack in ("torchtitan-2025", "fsdp-2023", "megatron-te-2025", "maxtext-2025")
    for model in (LLAMA_8B, QWEN_30B, DEEPSEEK)
    for sequence in (1024, 65536)
]


def steps(base: TrainingSetup, kind: str | float) -> np.ndarray:
    columns = np.array(list(product(*AXES.values())), dtype=float).T
    ep = 8 if base.model.experts else 1
    sharded = TrainingDesigns.of(**dict(zip(AXES, columns, strict=True)), ep=ep, recompute=again(kind, base))
    return step_time(base, sharded).step_s


def job(stack: str, model: LanguageModel, sequence: int) -> TrainingSetup:
    return setup(model, stack=stack, device="gb200", sequence=sequence, gpus_per_node=8)


@pytest.mark.parametrize(("stack", "model", "sequence"), JOBS)
def test_recompute_never_shortens_a_step(stack: str, model: LanguageModel, sequence: int) -> None:
    base = job(stack, model, sequence)
    times = {kind: steps(base, kind) for kind in RECOMPUTED}
    for less, more in MORE:
        assert (times[less] <= times[more] * (1 + 1e-12)).all(), (less, more)


@pytest.mark.parametrize("recipe", ["bf16", "fp8-cs", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("stack", ["megatron-te-2025", "megatron-te-2026"])
def test_modules_that_run_again_lengthen_a_step_by_less_than_whole_layers(stack: str, recipe: str) -> None:
    for model in (QWEN_30B, DEEPSEEK, replace(QWEN_30B, clamped_gate=True)):
        base = setup(model, stack=stack, device="gb200", recipe=recipe)
        none, modules, full = (steps(base, kind) for kind in ("none", "modules", "full"))
        assert (none <= modules).all()
        assert (modules < full).all()


@pytest.mark.parametrize(("stack", "model", "sequence"), JOBS)
def test_faster_hardware_never_slows_a_sharded_step_whatever_runs_again(
    stack: str, model: LanguageModel, sequence: int
) -> None:
    base = job(stack, model, sequence)
    for kind in (*FRAMEWORK_RECOMPUTE, 0.5):
        before = steps(base, kind)
        for part in HARDWARE:
            assert (steps(faster(base, part, 1.5), kind) <= before * (1 + 1e-12)).all(), (kind, part)


def test_a_mixture_that_waits_for_its_host_gains_nothing_by_selective_recompute() -> None:
    base = setup(QWEN_30B, stack="torchtitan-2025", device="b200", sequence=8192, global_batch=1024)
    base = replace(base, nic_bytes_per_s=100e9, sequence_parallel=True)
    none, selective, full = (
        step_time(base, TrainingDesigns.of(dp=32, cp=4, zero_stage=3, recompute=again(kind, base))).step_s
        for kind in ("none", "selective", "full")
    )
    assert none < selective < full


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_faster_memory_helps_a_mixture_with_sharded_weights_on_one_node(factor: int) -> None:
    base = setup(QWEN_30B, stack="torchtitan-2025", sequence=1024)
    designs = TrainingDesigns.of(dp=[8, 16, 32, 64], ep=8, zero_stage=3)
    before = step_time(base, designs).step_s
    assert (step_time(faster(base, "memory", factor), designs).step_s <= before * (1 + 1e-12)).all()


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.data())
def test_a_dense_design_with_one_copy_of_its_weights_exchanges_no_gradients(data: st.DataObject) -> None:
    own, columns = sampled(
        data.draw(st.sampled_from(["llama3-405b/h100-1024", "llama3-70b/h100-64", "gpt3-175b/h100-1536"]))
    )
    row = data.draw(st.integers(0, 199))
    alone = {name: values[row : row + 1] for name, values in columns.items()} | {"dp": np.array([1])}
    alone |= {name: np.array([1]) for name in ("cp", "sp") if name in columns}
    evaluation = own.evaluate(alone, strict=False)
    terms = dict(zip(own.terms, evaluation.terms[0].tolist(), strict=True))
    assert terms["gradients"] == terms["sharding"] == 0
