"""What every step must obey, whatever the constants are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.stacks import load_stack
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.footprint import footprint
from cosmic_opt.workloads.language_model import LanguageModel
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, GPT_175B, LLAMA_8B, LLAMA_405B, QWEN_30B, setup

POWERS = st.integers(0, 3).map(lambda exponent: 2**exponent)
STACKS = st.sampled_from(
    ["megatron-2021", "fsdp-2023", "megatron-te-2025", "megatron-te-2026", "torchtitan-2025", "maxtext-2025"]
)
MODELS = st.sampled_from([LLAMA_8B, QWEN_30B])
EXAMPLES = settings(derandomize=True, deadline=None, max_examples=30)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[TrainingSetup, TrainingDesigns]:
    model = draw(MODELS)
    job = setup(
        model,
        stack=draw(STACKS),
        recipe=draw(st.sampled_from(["bf16", "fp8", "mxfp8"])),
        global_batch=512,
        sequence_parallel=draw(st.booleans()),
    )
    dp = draw(POWERS)
    designs = TrainingDesigns.of(
        dp=dp,
        tp=draw(POWERS),
        pp=draw(POWERS),
        cp=draw(POWERS),
        ep=draw(st.sampled_from([1, dp])) if model.experts else 1,
        micro_batch=draw(POWERS),
        zero_stage=draw(st.integers(0, 3)),
        recompute=Recompute.of(draw(st.sampled_from([0.0, 0.5, 1.0]))),
    )
    return job, designs


def seconds(job: TrainingSetup, designs: TrainingDesigns) -> float:
    return float(step_time(job, designs).step_s[0])


@EXAMPLES
@given(jobs())
def test_the_breakdown_sums_exactly(job: tuple[TrainingSetup, TrainingDesigns]) -> None:
    result = step_time(*job)
    assert sum(float(term[0]) for term in result.terms.values()) == float(result.step_s[0])
    assert all(term[0] >= 0 for term in result.terms.values())
    assert np.isfinite(result.step_s).all()


def faster(device: Device, factor: float) -> Device:
    assert device.fabric is not None
    fabric = replace(device.fabric, link_bytes_per_s=factor * device.fabric.link_bytes_per_s)
    return replace(device, fabric=fabric)


@EXAMPLES
@given(jobs(), st.floats(1.0, 4.0))
def test_more_bandwidth_is_never_slower(job: tuple[TrainingSetup, TrainingDesigns], factor: float) -> None:
    base, designs = job
    before = seconds(base, designs)
    memory = replace(base.device, memory_bytes_per_s=factor * base.device.memory_bytes_per_s)
    for better in (
        replace(base, nic_bytes_per_s=factor * base.nic_bytes_per_s),
        replace(base, device=memory),
        replace(base, device=faster(base.device, factor)),
    ):
        assert seconds(better, designs) <= before * (1 + 1e-9)


@EXAMPLES
@given(jobs())
def test_doubling_the_batch_costs_at_most_2_percent_of_throughput(job: tuple[TrainingSetup, TrainingDesigns]) -> None:
    base, designs = job
    twice = replace(base, global_batch=2 * base.global_batch)
    assert seconds(twice, designs) <= 2.04 * seconds(base, designs)


@EXAMPLES
@given(jobs(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_more_recompute_never_saves_time_or_costs_memory(
    job: tuple[TrainingSetup, TrainingDesigns], one: float, other: float
) -> None:
    base, designs = job
    less, more = (designs.with_recompute(Recompute.of(share)) for share in sorted((one, other)))
    assert seconds(base, more) >= seconds(base, less) * (1 - 1e-9)
    assert footprint(base, more).total_bytes <= footprint(base, less).total_bytes * (1 + 1e-9)


def test_with_flash_attention_selective_recompute_saves_next_to_nothing() -> None:
    none = TrainingDesigns.of(tp=8)
    selective = none.with_recompute(Recompute.of(0.0, attention=1))
    flash = setup(GPT_175B, global_batch=8)
    assert footprint(flash, selective).total_bytes == footprint(flash, none).total_bytes
    unfused = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80", global_batch=8)
    assert footprint(unfused, selective).activations_bytes < 0.7 * footprint(unfused, none).activations_bytes


@EXAMPLES
@given(jobs())
def test_one_copy_of_the_weights_exchanges_no_gradients(job: tuple[TrainingSetup, TrainingDesigns]) -> None:
    base, designs = job
    alone = replace(designs, dp=np.ones(1), cp=np.ones(1), ep=designs.tp)
    terms = step_time(base, alone).terms
    assert terms["gradients"] == 0
    assert terms["sharding"] == 0


def test_tp_beyond_the_node_is_slower_than_within_it() -> None:
    designs = TrainingDesigns.of(tp=16)
    inside, beyond = (setup(LLAMA_405B, device="gb200", gpus_per_node=node) for node in (72, 8))
    assert seconds(beyond, designs) > 1.1 * seconds(inside, designs)


def test_a_second_forward_costs_a_third_more_products() -> None:
    none, full = (TrainingDesigns.of(tp=8, recompute=Recompute.of(share)) for share in (0.0, 1.0))
    job = setup(LLAMA_405B, global_batch=8)
    terms = step_time(job, full).terms
    assert seconds(job, full) - seconds(job, none) == pytest.approx(float(terms["recompute"][0]), rel=1e-3)
    assert terms["recompute"] < terms["matmul"] / 2 + terms["attention"] + terms["tensor_parallel"]


def test_narrow_products_save_less_than_their_peak_says() -> None:
    designs = TrainingDesigns.of(tp=4)
    wide, narrow = (setup(LLAMA_405B, recipe=name, global_batch=8) for name in ("bf16", "fp8"))
    assert 1.2 < seconds(wide, designs) / seconds(narrow, designs) < 2
    assert step_time(narrow, designs).terms["casts"] > 0


def test_many_designs_at_once_are_the_designs_one_by_one() -> None:
    rng = np.random.default_rng(7)
    columns = {name: 2 ** rng.integers(0, 4, 40) for name in ("dp", "tp", "pp", "cp", "interleave", "micro_batch")}
    shares, zero = rng.choice([0.0, 0.25, 1.0], 40), rng.integers(0, 4, 40)
    job = setup(LLAMA_405B, sequence_parallel=True, recipe="fp8")
    together = step_time(job, TrainingDesigns.of(**columns, zero_stage=zero, recompute=Recompute.of(shares))).step_s
    for row in range(40):
        one = TrainingDesigns.of(
            **{name: column[row] for name, column in columns.items()},
            zero_stage=zero[row],
            recompute=Recompute.of(shares[row]),
        )
        assert seconds(job, one) == pytest.approx(together[row], rel=1e-12)


def test_stragglers_begin_above_512_gpus() -> None:
    few, many = (TrainingDesigns.of(dp=dp, tp=8) for dp in (64, 256))
    job = setup(LLAMA_405B, global_batch=256)
    assert step_time(job, few).terms["stragglers"] == 0
    terms = step_time(job, many).terms
    assert terms["stragglers"] == pytest.approx(0.02 * sum(terms.values()) / 1.02)


def test_the_stack_is_an_input_and_an_older_one_is_slower() -> None:
    designs = TrainingDesigns.of(dp=8, zero_stage=3)
    newest, older = (seconds(setup(stack=name), designs) for name in ("megatron-te-2025", "fsdp-2023"))
    assert older > newest
    assert load_stack("fsdp-2023").name == "fsdp-2023"
    assert load_device("H100-80GB").name == "h100-sxm"


# --- dense layers of a mixture ---------------------------------------------------------------------------------


def with_dense(layers: int) -> LanguageModel:
    assert DEEPSEEK.experts is not None
    return replace(DEEPSEEK, experts=replace(DEEPSEEK.experts, dense_layers=layers, dense_ffn=18432))


@pytest.mark.parametrize(
    "designs",
    [
        TrainingDesigns.of(dp=8),
        TrainingDesigns.of(dp=8, zero_stage=3),
        TrainingDesigns.of(dp=8, zero_stage=1, pp=4),
        TrainingDesigns.of(tp=8, pp=8, interleave=4),
    ],
)
def test_a_mixture_whose_layers_are_all_dense_is_the_dense_model(designs: TrainingDesigns) -> None:
    dense = replace(DEEPSEEK, experts=None, ffn=18432)
    mixed, plain = (step_time(setup(model), designs) for model in (with_dense(61), dense))
    for name, each in plain.terms.items():
        assert mixed.terms[name] == pytest.approx(each), name
    assert mixed.step_s == pytest.approx(plain.step_s)


@pytest.mark.parametrize("zero_stage", [0, 1, 3])
def test_each_dense_layer_changes_a_step_of_one_stage_by_the_same(zero_stage: int) -> None:
    designs = TrainingDesigns.of(dp=64, ep=64, zero_stage=zero_stage)
    two, three, four = (float(step_time(setup(with_dense(n)), designs).step_s[0]) for n in (2, 3, 4))
    assert two - three == pytest.approx(three - four, rel=1e-3)
    assert two != three


def test_a_pipeline_whose_later_stages_have_experts_alone_saves_no_more_than_the_bubble() -> None:
    designs = TrainingDesigns.of(dp=8, pp=16, ep=8)
    none, three = (step_time(setup(with_dense(n)), designs) for n in (0, 3))
    for name, each in none.terms.items():
        if name != "bubble":
            assert three.terms[name] == pytest.approx(each), name
    assert three.terms["bubble"] < none.terms["bubble"]
