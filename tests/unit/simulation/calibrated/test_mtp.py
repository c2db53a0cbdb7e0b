"""Multi-token prediction: one more layer, a joining map, an embedding and the logits, all on the last stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.calibrated.data_parallel import optimizer_s, weight_casts_s
from cosmic_opt.simulation.calibrated.layer import Pass, matmul_pass
from cosmic_opt.simulation.calibrated.mtp import joining_pass
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.simulation.calibrated.work import micro_batch_work
from cosmic_opt.system.hardware import bytes_s
from cosmic_opt.workloads.footprint import LOGIT_BYTES, footprint, layer_activation_bytes
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stage_load import end_layers, loads, stage_layers
from cosmic_opt.workloads.stage_weights import heavy_stages
from cosmic_opt.workloads.training_designs import TrainingDesigns
from tests.unit.simulation.calibrated.jobs import DEEPSEEK, LLAMA_8B, setup

TERM = "multi_token_prediction"


def seconds(values: np.ndarray) -> float:
    return float(np.ravel(values)[0])


# --- what a module costs ---------------------------------------------------------------------------------------


def test_joining_is_a_product_of_2h_by_h_between_norms_counted_by_hand() -> None:
    job, one = setup(LLAMA_8B, device="h100-sxm", recipe="bf16"), TrainingDesigns.of()
    product = matmul_pass(job, one, (LLAMA_8B.joining_matmul,))
    moved = bytes_s(job.device, np.array([(3 * 4 + 8) * 4096 * 4096.0]), job.stack.elementwise_fraction)
    both = joining_pass(job, one)
    assert seconds(both.forward_s) == pytest.approx(seconds(product.forward_s) + seconds(moved))
    assert seconds(both.backward_s) == pytest.approx(seconds(product.backward_s) + 1.4 * seconds(moved))


def test_a_module_is_a_layer_its_joining_an_embedding_and_the_head_with_their_hosts() -> None:
    job, one = setup(replace(LLAMA_8B, mtp_layers=2), device="h100-sxm", recipe="bf16"), TrainingDesigns.of(tp=2)
    work = micro_batch_work(job, one)
    parts = (work.layer_s, joining_pass(job, one).both_s, work.embedding.both_s, work.head.both_s, work.head_wait_s)
    assert seconds(work.mtp_s) == pytest.approx(2 * sum(seconds(each) for each in parts))


@pytest.mark.parametrize("design", [{"dp": 8}, {"dp": 2, "tp": 4}, {"dp": 4, "zero_stage": 1}])
def test_without_a_pipeline_a_step_is_longer_by_its_modules_and_their_weights(design: dict[str, int]) -> None:
    plain, ahead = setup(LLAMA_8B), setup(replace(LLAMA_8B, mtp_layers=1))
    designs = TrainingDesigns.of(**design)
    before, after = step_time(plain, designs), step_time(ahead, designs)
    module = seconds(designs.micro_batches(ahead)) * seconds(micro_batch_work(ahead, designs).mtp_s)
    assert TERM not in before.terms
    assert seconds(after.terms[TERM]) == pytest.approx(module)
    weights = ("casts", "gradients", "contention", "optimizer", "sharding")
    changed = {name for name, each in before.terms.items() if seconds(after.terms[name]) != seconds(each)}
    assert changed <= {*weights}
    assert seconds(after.step_s) == pytest.approx(
        seconds(before.step_s) + module + sum(seconds(after.terms[n]) - seconds(before.terms[n]) for n in weights)
    )


def test_modules_lengthen_the_step_and_never_shorten_it() -> None:
    designs = TrainingDesigns.of(dp=[64, 8, 4, 1], pp=[1, 8, 16, 32], ep=[64, 8, 4, 1], interleave=[1, 1, 2, 1])
    jobs = [setup(replace(DEEPSEEK, mtp_layers=count), recipe="fp8", global_batch=2048) for count in (0, 1, 2, 3)]
    steps = [step_time(job, designs).step_s for job in jobs]
    assert all(np.all(more > less) for less, more in pairwise(steps))


# --- where layers lie ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pp", "interleave", "held"),
    [
        (4, 1, [16, 16, 16, 13]),
        (8, 1, [8, 8, 8, 8, 8, 8, 8, 5]),
        (2, 8, [32, 29]),
        (8, 4, [7, 8, 8, 8, 8, 8, 8, 6]),
    ],
)
def test_stages_of_deepseek_hold_the_layers_of_published_layouts(pp: int, interleave: int, held: list[int]) -> None:
    """NVIDIA-NeMo/Megatron-Bridge: for example Et*16|(t*16|)*2t*13mL, and Et|(tt|)*30mL of 32 virtual stages."""
    designs = TrainingDesigns.of(pp=pp, interleave=interleave)
    found = [int(stage_layers(61, designs, np.array([float(stage)]), 1)[0]) for stage in range(pp)]
    assert found == held
    assert [int(each[0]) for each in end_layers(61, designs, 1)] == [held[0], held[-1]]


@given(layers=st.integers(1, 130), pp=st.integers(1, 20), interleave=st.integers(1, 8), ahead=st.integers(0, 3))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_no_layer_is_lost_and_none_lies_behind_a_later_one(layers: int, pp: int, interleave: int, ahead: int) -> None:
    pieces = pp * interleave
    virtual = TrainingDesigns.of(pp=np.full(pieces, pieces))
    held = stage_layers(layers, virtual, np.arange(float(pieces)), ahead)
    each = -(-layers // pieces)
    assert held.sum() == layers
    assert held.min() >= 0
    assert held.max() <= each
    full = np.flatnonzero(held == each)
    assert np.all(held[full[0] : full[-1] + 1] == each) if full.size else True
    designs = TrainingDesigns.of(pp=pp, interleave=interleave)
    for stage in range(pp):
        assert stage_layers(layers, designs, np.array([float(stage)]), ahead) == held[stage::pp].sum()


# --- memory ----------------------------------------------------------------------------------------------------


def last_stage_bytes(model: LanguageModel, designs: TrainingDesigns) -> tuple[float, float]:
    """Return (states, activations) of the last of several stages, without ZeRO or recompute, counted by hand."""
    job = setup(model)
    pp = seconds(designs.pp)
    layers = seconds(stage_layers(model.layers, designs, designs.pp - 1, model.mtp_layers)) + model.mtp_layers
    each = model.attention_parameters + model.dense_mlp_parameters
    tables = model.head_parameters * (2 if model.mtp_layers else 1)
    held = layers * each + tables + model.mtp_layers * 2 * model.hidden**2
    state_bytes = 2 + job.stack.held_gradient_bytes + job.stack.adam_bytes
    tokens = seconds(designs.tokens(job))
    kept = layers * seconds(layer_activation_bytes(job, designs)) + model.mtp_layers * tokens * 8 * model.hidden
    logits = (1 + model.mtp_layers) * tokens * LOGIT_BYTES * model.vocabulary
    assert pp > 1
    return state_bytes * held, kept + logits


@pytest.mark.parametrize("ahead", [1, 2, 8])
def test_the_last_stage_holds_the_modules_their_logits_and_a_copy_of_the_embedding(ahead: int) -> None:
    model, designs = replace(LLAMA_8B, mtp_layers=ahead), TrainingDesigns.of(pp=2)
    found = footprint(setup(model, global_batch=1), designs)
    states, activations = last_stage_bytes(model, designs)
    assert seconds(found.stage) == 1
    assert seconds(found.states_bytes) == pytest.approx(states)
    assert seconds(found.activations_bytes) == pytest.approx(activations)


def test_one_stage_and_tied_tables_need_no_copy_of_the_embedding() -> None:
    for model, designs, tables in (
        (replace(LLAMA_8B, mtp_layers=1), TrainingDesigns.of(), 2),
        (replace(LLAMA_8B, mtp_layers=1), TrainingDesigns.of(pp=2), 2),
        (replace(LLAMA_8B, mtp_layers=1, tied_embeddings=True), TrainingDesigns.of(pp=2), 1),
        (LLAMA_8B, TrainingDesigns.of(pp=2), 1),
    ):
        assert float(loads(model, setup(model), designs)[-1].tables[0]) == tables


def test_the_last_stage_is_another_heavy_one_where_it_holds_modules() -> None:
    designs = TrainingDesigns.of(pp=[4, 4], ep=[64, 64], dp=[64, 64], interleave=[1, 4])
    (plain,), (inner, end) = (heavy_stages(model, designs) for model in (DEEPSEEK, replace(DEEPSEEK, mtp_layers=2)))
    own = DEEPSEEK.attention_parameters + DEEPSEEK.dense_mlp_parameters
    for stage in (plain, inner):
        assert stage.layers[0] == pytest.approx(16 * own)
        assert stage.experts[0] == pytest.approx(16 * DEEPSEEK.expert_parameters / 64)
        assert stage.tables[0] == DEEPSEEK.head_parameters
    assert end.layers[0] == pytest.approx((13 + 2) * own + 2 * 2 * 7168**2)
    assert end.experts[0] == pytest.approx((13 + 2) * DEEPSEEK.expert_parameters / 64)
    assert end.tables[0] == 2 * DEEPSEEK.head_parameters
    assert np.array_equal(end.dense, end.layers + end.tables)


def test_modules_take_no_time_from_what_is_done_once_a_step() -> None:
    designs = TrainingDesigns.of(dp=[64, 8, 4], pp=[1, 8, 16], ep=[64, 8, 4], zero_stage=[1, 0, 1])
    jobs = [setup(replace(DEEPSEEK, mtp_layers=count), device="b200", recipe="mxfp8") for count in (0, 1, 4)]
    for once in (weight_casts_s, optimizer_s):
        seconds_of = [once(job, designs) for job in jobs]
        assert all(np.all(more >= less) and np.any(more > less) for less, more in pairwise(seconds_of))


def test_a_model_without_it_is_scored_as_before() -> None:
    job, designs = setup(DEEPSEEK, recipe="fp8"), TrainingDesigns.of(dp=8, pp=8, ep=8)
    assert np.array_equal(micro_batch_work(job, designs).mtp_s, Pass.zero(designs).both_s)
    assert TERM not in step_time(job, designs).terms
