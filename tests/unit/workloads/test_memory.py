"""Memory against Korthikanti 2022 (arXiv 2205.05198): Table 2 and the values of Table 5 and Figure 1."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import LimitError
from cosmic_opt.workloads.memory import (
    Designs,
    layer_activation_bytes,
    memory_of,
    memory_per_npu,
    stage_memory,
)
from cosmic_opt.workloads.parallelism import Parallelism
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.workloads.shapes import ALL, GPT3_175B, LLAMA3_8B, LLAMA3_70B, VIT_BASE

GIB = 2**30


def gpt(name: str, layers: int, hidden: int, heads: int) -> Transformer:
    return replace(
        GPT3_175B,
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=4 * hidden,
        vocabulary=51200,
    )


M22B = gpt("22B", 48, 6144, 64)
M175B = gpt("175B", 96, 12288, 96)
M530B = gpt("530B", 105, 20480, 128)
M1T = gpt("1T", 128, 25600, 160)


def job(**changes: int | str) -> TrainingJob:
    return TrainingJob(**{"global_batch": 512, "sequence": 2048, **changes})  # type: ignore[arg-type]


def designs(the_job: TrainingJob, **columns: int | str) -> Designs:
    return Designs.of(the_job, {name: np.array([value]) for name, value in columns.items()})


def layer_bytes(workload: Transformer, the_job: TrainingJob, tp: int) -> int:
    return int(layer_activation_bytes(workload, the_job, designs(the_job, tp=tp))[0])


@pytest.mark.parametrize("t", [1, 2, 8])
@pytest.mark.parametrize("b", [1, 4])
def test_layer_activations_follow_korthikanti_table_2(t: int, b: int) -> None:
    s, h, a = 2048, 12288, 96
    sbh, scores = s * b * h, 5 * a * s * s * b
    unfused = job(micro_batch=b, attention_kernel="unfused")
    assert layer_bytes(M175B, unfused, t) == 10 * sbh + (24 * sbh + scores) // t
    assert layer_bytes(M175B, replace(unfused, recompute="selective"), t) == 10 * sbh + 24 * sbh // t
    assert layer_bytes(M175B, replace(unfused, recompute="full"), t) == 2 * sbh
    parallel = replace(unfused, sequence_parallel=1)
    assert layer_bytes(M175B, parallel, t) == (34 * sbh + scores) // t
    assert layer_bytes(M175B, replace(parallel, recompute="selective"), t) == 34 * sbh // t
    assert layer_bytes(M175B, replace(parallel, recompute="full"), t) == 2 * sbh // t


def test_a_flash_kernel_keeps_no_scores() -> None:
    flash = job()
    assert layer_bytes(M175B, flash, 8) == layer_bytes(M175B, job(attention_kernel="unfused", recompute="selective"), 8)


def test_a_llama_layer_keeps_four_norm_inputs_and_its_gated_mlp() -> None:
    # 2 bytes x (4 h whole; q, o 2 h, k, v 2 x 1024, gate, up, product 3 f)
    assert layer_bytes(LLAMA3_8B, job(sequence=8192), 1) == 8192 * 2 * (6 * 4096 + 2 * 1024 + 3 * 14336)


@pytest.mark.parametrize(
    ("workload", "pp", "published_gib"),
    [(M22B, 1, 45.56), (M175B, 8, 45.56), (M530B, 35, 31.64), (M1T, 64, 32.96)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_states_of_a_stage_equal_the_published_values(workload: Transformer, pp: int, published_gib: float) -> None:
    # published: 18 bytes x 12 h^2 / t, t = 8, no embedding; norms and biases (13 h) add 0.2 % at most
    stage = workload.layers // pp
    assert 18 * stage * workload.layer_matrix_parameters / 8 / GIB == pytest.approx(published_gib, abs=0.006)
    middle = stage_memory(workload, job(), designs(job(), tp=8, pp=max(pp, 3)), np.array([1]))
    held = middle.weights_bytes + middle.gradients_bytes + middle.optimizer_bytes
    middle_layers = workload.layers // max(pp, 3)
    assert int(held[0]) / GIB == pytest.approx(published_gib * middle_layers / stage, rel=0.002)


@pytest.mark.parametrize(
    ("workload", "pp", "micro_batch", "changes", "interleave", "published_gib"),
    [
        (M22B, 1, 4, {"recompute": "selective", "sequence_parallel": 1}, 1, 9.56),
        (M530B, 35, 1, {"recompute": "selective", "sequence_parallel": 1}, 3, 23.08),
        (M1T, 64, 1, {"recompute": "none", "sequence_parallel": 0}, 1, 131.25),
        (M1T, 64, 1, {"recompute": "selective", "sequence_parallel": 1}, 1, 26.56),
    ],
    ids=["22B", "530B", "1T", "1T-selective"],
)
def test_activations_of_the_first_stage_equal_the_published_values(
    workload: Transformer,
    pp: int,
    micro_batch: int,
    changes: dict[str, int | str],
    interleave: int,
    published_gib: float,
) -> None:
    the_job = job(attention_kernel="unfused", micro_batch=micro_batch, **changes)
    first = stage_memory(workload, the_job, designs(the_job, tp=8, pp=pp), np.array([0]))
    extra = 1 + (pp - 1) / (pp * interleave) if interleave > 1 else 1
    assert int(first.activations_bytes[0]) * extra / GIB == pytest.approx(published_gib, abs=0.006)


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.name)
def test_one_npu_holds_eighteen_bytes_per_parameter(workload: Transformer) -> None:
    alone = memory_of(workload, job(), Parallelism(dp=1, tp=1, pp=1, sp=1))
    held = alone.weights_bytes + alone.gradients_bytes + alone.optimizer_bytes
    assert int(held[0]) == 18 * workload.parameters()


@pytest.mark.parametrize(("stage", "per_parameter"), [(0, 18), (1, 6 + 12 / 64), (2, 2 + 16 / 64), (3, 18 / 64)])
def test_zero_shards_optimizer_then_gradients_then_weights_over_dp_and_sp(stage: int, per_parameter: float) -> None:
    one_micro_batch = job(zero_stage=stage, global_batch=16)
    sharded = memory_of(LLAMA3_8B, one_micro_batch, Parallelism(dp=16, tp=1, pp=1, sp=4))
    held = sharded.weights_bytes + sharded.gradients_bytes + sharded.optimizer_bytes
    assert int(held[0]) == pytest.approx(per_parameter * LLAMA3_8B.parameters(), abs=3)


def test_gradients_stay_whole_while_micro_batches_accumulate() -> None:
    accumulating = memory_of(LLAMA3_8B, job(zero_stage=2), Parallelism(dp=16, tp=1, pp=1, sp=1))
    assert int(accumulating.gradients_bytes[0]) == 4 * LLAMA3_8B.parameters()
    each = memory_of(LLAMA3_8B, job(zero_stage=3), Parallelism(dp=16, tp=1, pp=1, sp=1))
    assert int(each.gradients_bytes[0]) == pytest.approx(4 * LLAMA3_8B.parameters() / 16, abs=1)


def test_weights_stay_whole_under_a_pipeline_that_gathers_once_a_step() -> None:
    piped = memory_of(LLAMA3_8B, job(zero_stage=3), Parallelism(dp=16, tp=1, pp=2, sp=1))
    whole = memory_of(LLAMA3_8B, job(zero_stage=0), Parallelism(dp=16, tp=1, pp=2, sp=1))
    assert int(piped.weights_bytes[0]) == int(whole.weights_bytes[0])
    assert int(piped.gradients_bytes[0]) == int(whole.gradients_bytes[0])
    assert int(piped.optimizer_bytes[0]) < int(whole.optimizer_bytes[0]) / 15


def test_zero_three_gathers_two_layers_and_one_gradient() -> None:
    sharded = memory_of(LLAMA3_8B, job(zero_stage=3), Parallelism(dp=16, tp=1, pp=1, sp=1))
    assert int(sharded.workspace_bytes[0]) == (2 * 2 + 4) * LLAMA3_8B.layer_parameters
    alone = memory_of(LLAMA3_8B, job(zero_stage=3), Parallelism(dp=1, tp=1, pp=1, sp=1))
    assert int(alone.workspace_bytes[0]) == 0


def test_full_recompute_needs_room_for_one_layer() -> None:
    again = memory_of(M22B, job(recompute="full"), Parallelism(dp=1, tp=8, pp=1, sp=1))
    assert int(again.workspace_bytes[0]) == layer_bytes(M22B, job(), 8)


def test_logits_are_kept_once_in_fp32_on_the_last_stage() -> None:
    # 4 s b h (1 + v/h) / t: Korthikanti 2022, section 4.3
    the_job = job(sequence_parallel=1)
    one_stage = memory_of(M22B, the_job, Parallelism(dp=1, tp=8, pp=1, sp=1))
    assert int(one_stage.head_bytes[0]) == 4 * 2048 * (6144 + 51200) // 8


def test_an_image_model_keeps_one_prediction_per_sequence() -> None:
    alone = memory_of(VIT_BASE, job(sequence=197, micro_batch=2), Parallelism(dp=1, tp=1, pp=1, sp=1))
    assert int(alone.head_bytes[0]) == 2 * (4 * 197 * 768 + 4 * 1000)


def test_a_tied_table_is_held_by_both_ends_of_a_pipeline() -> None:
    the_job = job()
    last = stage_memory(GPT3_175B, the_job, designs(the_job, pp=2), np.array([1]))
    first = stage_memory(GPT3_175B, the_job, designs(the_job, pp=2), np.array([0]))
    both = (int(first.weights_bytes[0]) + int(last.weights_bytes[0])) // 2
    assert both == GPT3_175B.parameters() + 50257 * 12288


def test_sequence_shards_divide_the_tokens() -> None:
    whole = memory_of(LLAMA3_8B, job(), Parallelism(dp=1, tp=1, pp=4, sp=1))
    eighth = memory_of(LLAMA3_8B, job(), Parallelism(dp=1, tp=1, pp=4, sp=8))
    assert np.array_equal(whole.activations_bytes, 8 * eighth.activations_bytes)


def test_no_more_micro_batches_are_in_flight_than_there_are() -> None:
    # 32 stages, 64 replicas: two micro-batches each, then 64 of which the first stage keeps 32
    first = np.array([0])
    few, many = (
        stage_memory(LLAMA3_8B, one, designs(one, dp=64, pp=32), first).activations_bytes
        for one in (job(global_batch=128), job(global_batch=64 * 64))
    )
    assert np.array_equal(many, 16 * few)


@pytest.mark.parametrize(("pp", "pieces"), [(8, 1), (8, 2), (8, 3), (16, 6), (32, 3)])
def test_interleaved_stages_keep_what_korthikanti_counts(pp: int, pieces: int) -> None:
    # section 4.2.3: the first stage keeps L (1 + (p - 1) / (p m)) layers' activations, m pieces of a stage
    the_job = job(global_batch=4096)
    first = np.array([0])
    kept = stage_memory(GPT3_175B, the_job, designs(the_job, dp=1, pp=pp, interleave=pieces), first)
    layer = layer_activation_bytes(GPT3_175B, the_job, designs(the_job, dp=1, pp=pp))
    expected = 96 if pieces == 1 else 96 * (1 + (pp - 1) / (pp * pieces))
    assert kept.activations_bytes[0] / layer[0] == pytest.approx(expected, rel=0, abs=1)


def test_sequence_parallelism_may_be_a_knob() -> None:
    one, other = job(sequence_parallel=1), job()
    by_job = memory_of(LLAMA3_8B, one, Parallelism(dp=1, tp=4, pp=1, sp=1)).total_bytes
    by_column = memory_per_npu(LLAMA3_8B, other, designs(other, dp=1, tp=4, sequence_parallel=1)).total_bytes
    assert np.array_equal(by_job, by_column)


degrees = st.sampled_from([1, 2, 3, 4, 8, 16, 64])


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    workload=st.sampled_from(ALL),
    layers=st.integers(1, 40),
    pp=st.integers(1, 24),
    dp=degrees,
    tp=degrees,
    sp=degrees,
    zero_stage=st.integers(0, 3),
    micro_batch=st.integers(1, 8),
    recompute=st.sampled_from(["none", "selective", "full"]),
    kernel=st.sampled_from(["flash", "unfused"]),
)
def test_the_worst_stage_is_the_worst_of_all_stages(
    workload: Transformer,
    layers: int,
    pp: int,
    dp: int,
    tp: int,
    sp: int,
    zero_stage: int,
    micro_batch: int,
    recompute: str,
    kernel: str,
) -> None:
    workload, the_job = replace(workload, layers=layers), job(attention_kernel=kernel)
    one = designs(
        the_job, dp=dp, tp=tp, pp=pp, sp=sp, zero_stage=zero_stage, micro_batch=micro_batch, recompute=recompute
    )
    stages = [stage_memory(workload, the_job, one, np.array([stage])).total_bytes[0] for stage in range(pp)]
    worst = memory_per_npu(workload, the_job, one)
    assert worst.total_bytes[0] == max(stages)
    assert stages[worst.worst_stage[0]] == max(stages)


def test_a_batch_of_designs_equals_the_designs_one_by_one() -> None:
    the_job = job()
    columns = {
        "tp": np.array([1, 2, 8, 8]),
        "pp": np.array([1, 5, 12, 80]),
        "zero_stage": np.array([0, 1, 2, 3]),
        "recompute": np.array(["none", "full", "selective", "none"]),
    }
    batch = memory_per_npu(LLAMA3_70B, the_job, Designs.of(the_job, columns)).total_bytes
    for row in range(4):
        one = Designs.of(the_job, {name: column[row : row + 1] for name, column in columns.items()})
        assert memory_per_npu(LLAMA3_70B, the_job, one).total_bytes[0] == batch[row]


def test_a_job_beyond_63_bits_is_refused() -> None:
    with pytest.raises(LimitError, match=r"2\^62"):
        memory_of(GPT3_175B, job(global_batch=10**9), Parallelism(dp=1, tp=1, pp=1, sp=1))
