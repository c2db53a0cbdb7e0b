"""What offloading moves from the NPU's memory to the host's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.workloads.memory import Designs, host_memory_per_npu, layer_activation_bytes, memory_per_npu
from cosmic_opt.workloads.training import OFFLOADS, TrainingJob
from cosmic_opt.workloads.transformer import Transformer

PLAIN = Transformer(
    name="plain", layers=12, hidden=1024, heads=8, kv_heads=8, head_dim=128, ffn=4096, vocabulary=512, sequence=1024
)
JOB = TrainingJob(global_batch=64, sequence=1024)


def designs(**columns: int | str) -> Designs:
    return Designs.of(JOB, {name: np.array([value]) for name, value in columns.items()})


def test_two_layers_stay_and_the_host_holds_every_layer() -> None:
    for flag, per_parameter, part in (
        ("weight_offload", 2, "weights_bytes"),
        ("optimizer_offload", 12, "optimizer_bytes"),
    ):
        one = designs(**{flag: 1})
        ends = PLAIN.parameters() - 12 * PLAIN.layer_parameters
        kept = getattr(memory_per_npu(PLAIN, JOB, one), part)[0]
        assert kept == per_parameter * (ends + 2 * PLAIN.layer_parameters)
        assert host_memory_per_npu(PLAIN, JOB, one)[0] == per_parameter * 12 * PLAIN.layer_parameters


def test_two_layers_activations_stay_of_all_micro_batches_in_flight() -> None:
    one = designs(pp=4, activation_offload=1)
    layer = layer_activation_bytes(PLAIN, JOB, one)[0]
    assert memory_per_npu(PLAIN, JOB, one).activations_bytes[0] == 2 * layer
    assert host_memory_per_npu(PLAIN, JOB, one)[0] == 4 * 3 * layer  # the first stage keeps pp micro-batches


def test_gradients_embedding_and_head_stay() -> None:
    everything, nothing = designs(dp=1, **dict.fromkeys(OFFLOADS, 1)), designs(dp=1)
    here, there = (memory_per_npu(PLAIN, JOB, one) for one in (everything, nothing))
    assert here.gradients_bytes[0] == there.gradients_bytes[0] == 4 * PLAIN.parameters()
    assert here.head_bytes[0] == there.head_bytes[0]


def test_sharded_states_are_offloaded_sharded() -> None:
    whole, sharded = (host_memory_per_npu(PLAIN, JOB, designs(dp=4, zero_stage=z, optimizer_offload=1)) for z in (0, 1))
    assert whole[0] == 4 * sharded[0]


def test_a_job_offloads_what_no_column_says() -> None:
    job = replace(JOB, weight_offload=1)
    column, own = designs(weight_offload=1), Designs.of(job, {"dp": np.array([1])})
    assert host_memory_per_npu(PLAIN, JOB, column)[0] == host_memory_per_npu(PLAIN, job, own)[0] > 0


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    degrees=st.tuples(*(st.sampled_from([1, 2, 3, 4, 8]) for _ in range(4))),
    layers=st.integers(1, 40),
    zero_stage=st.integers(0, 3),
    micro_batch=st.sampled_from([1, 2, 8, 64]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    interleave=st.sampled_from([1, 2, 3]),
    flags=st.tuples(*(st.integers(0, 1) for _ in range(3))),
)
def test_the_npu_never_needs_more_and_both_together_hold_everything(
    degrees: tuple[int, ...],
    layers: int,
    zero_stage: int,
    micro_batch: int,
    recompute: str,
    interleave: int,
    flags: tuple[int, ...],
) -> None:
    workload = replace(PLAIN, layers=layers)
    names = dict(zip(("dp", "tp", "sp", "pp"), degrees, strict=True))
    names |= {"zero_stage": zero_stage, "micro_batch": micro_batch, "interleave": interleave}
    resident = designs(**names, recompute=recompute)
    moved = designs(**names, recompute=recompute, **dict(zip(OFFLOADS, flags, strict=True)))
    before = memory_per_npu(workload, JOB, resident).total_bytes[0]
    after, host = memory_per_npu(workload, JOB, moved).total_bytes[0], host_memory_per_npu(workload, JOB, moved)[0]
    assert after <= before <= after + host
    assert (host > 0) == any(flags)
