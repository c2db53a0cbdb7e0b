"""Gradient traffic, sharded weights, the optimizer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.data_parallel import (
    gradient_s,
    optimizer_s,
    sharded_traffic_s,
    single_nic_s,
)
from cosmic_opt.simulation.calibrated.groups import group_s, ranks_in_node
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, shares_nics
from cosmic_opt.simulation.calibrated.pipeline import Stages
from cosmic_opt.simulation.calibrated.step import step_time
from tests.unit.simulation.calibrated.jobs import GPT_175B, LLAMA_8B, setup

SLOW = np.array([100.0])
NONE = np.zeros(1)


def stages(longest_s: float) -> Stages:
    return Stages(NONE, NONE, NONE, NONE, NONE, NONE, np.array([longest_s]))


def test_a_node_holds_whole_tp_groups_first() -> None:
    found = ranks_in_node(setup(), np.array([64.0, 64.0, 64.0]), np.array([1.0, 4.0, 16.0]))
    assert list(found) == [8, 2, 1]


def test_one_copy_of_the_weights_costs_no_gradient_traffic() -> None:
    for stack in ("megatron-2021", "megatron-te-2025"):
        assert gradient_s(setup(stack=stack), TrainingDesigns.of(tp=8), stages(1.0)).exposed_s == 0


def test_gradients_hide_behind_a_long_micro_batch_but_not_in_2021() -> None:
    designs = TrainingDesigns.of(dp=8)
    later = gradient_s(setup(), designs, stages(100.0))
    assert later.exposed_s == 0
    assert later.hidden_s > 0
    first = gradient_s(setup(stack="megatron-2021"), designs, stages(100.0))
    assert first.exposed_s > 0
    assert first.hidden_s == 0


def test_an_interleaved_schedule_leaves_a_tenth_exposed() -> None:
    hidden = gradient_s(setup(), TrainingDesigns.of(dp=8, pp=2, interleave=2), stages(1000.0))
    alone = gradient_s(setup(), TrainingDesigns.of(dp=8, pp=2, interleave=2), stages(0.0))
    assert hidden.exposed_s == pytest.approx(0.1 * alone.exposed_s)
    assert hidden.hidden_s == pytest.approx(0.9 * alone.exposed_s)


def test_exposed_sharding_is_the_larger_plus_xi_times_the_smaller() -> None:
    job = setup(stack="fsdp-2023")
    designs = TrainingDesigns.of(dp=8, zero_stage=3, reshard=0)
    weights = np.array([1e9])
    gather = group_s(job, "all_gather", designs.dp, designs.tp, 2 * weights)
    reduce = group_s(job, "reduce_scatter", designs.dp, designs.tp, 2 * weights)
    alone = sharded_traffic_s(job, designs, NONE, NONE, weights)
    assert alone.exposed_s == pytest.approx(gather + reduce)
    assert alone.hidden_s == 0
    beside = sharded_traffic_s(job, designs, SLOW, SLOW, weights)
    assert beside.exposed_s == pytest.approx(0.9 * (gather + reduce))
    assert beside.hidden_s == pytest.approx(0.1 * (gather + reduce))


def test_resharding_gathers_once_more_and_without_prefetch_gathers_wait() -> None:
    job, weights = setup(stack="fsdp-2023"), np.array([1e9])
    kept, freed, late = (
        TrainingDesigns.of(dp=8, zero_stage=3, reshard=reshard, prefetch=prefetch)
        for reshard, prefetch in ((0, 1), (1, 1), (1, 0))
    )
    gather = group_s(job, "all_gather", kept.dp, kept.tp, 2 * weights)
    reduce = group_s(job, "reduce_scatter", kept.dp, kept.tp, 2 * weights)
    times = [sharded_traffic_s(job, each, SLOW, SLOW, weights) for each in (kept, freed, late)]
    assert times[1].exposed_s - times[0].exposed_s == pytest.approx(0.9 * gather)
    assert times[2].exposed_s == pytest.approx(2 * gather + 0.9 * reduce)
    assert times[2].hidden_s == pytest.approx(0.1 * reduce)


def test_gradients_may_be_told_to_follow_the_backward_pass() -> None:
    designs = TrainingDesigns.of(dp=8)
    told = gradient_s(setup(gradient_overlap="none"), designs, stages(100.0))
    assert told.exposed_s > 0
    assert told.hidden_s == 0


def test_sharding_of_2021_moves_three_passes_through_one_card() -> None:
    job = setup(GPT_175B, stack="megatron-2021", recipe="fp16", device="a100-80")
    found = single_nic_s(job, TrainingDesigns.of(dp=384, zero_stage=3))
    assert found == pytest.approx(6 * GPT_175B.parameters() / 25e9)


@pytest.mark.parametrize(("stack", "moved"), [("torchtitan-2025", 34), ("megatron-te-2025", 30)])
def test_the_optimizer_moves_34_bytes_per_owned_parameter_and_30_with_16_bit_gradients(stack: str, moved: int) -> None:
    job = setup(sequence=512, stack=stack)
    held = 32 * (LLAMA_8B.attention_parameters + LLAMA_8B.dense_mlp_parameters) + 2 * LLAMA_8B.head_parameters
    rate = 0.62 * job.device.memory_bytes_per_s
    for zero, shards in ((0, 1), (1, 8)):
        expected = moved * held / shards / rate + 2e-3
        assert optimizer_s(job, TrainingDesigns.of(dp=8, zero_stage=zero)) == pytest.approx(expected)


def test_a_ring_over_many_nodes_pays_for_every_node() -> None:
    job = setup()
    sizes, one = np.array([1e6]), np.ones(1)
    few, many = (group_s(job, "all_gather", np.array([n]), one, sizes) for n in (64.0, 512.0))
    fabric = job.device.fabric
    assert fabric is not None
    assert many - few == pytest.approx((64 - 8) * fabric.inter_node_doubling_s, rel=0.05)


def test_groups_that_share_cards_are_slower_unless_they_fill_the_node() -> None:
    railed, shared = (setup(device="a100-80", nic_bytes_per_s=12.5e9, shared_nics=each) for each in (False, True))
    degree, size = np.array([32.0]), np.array([1e9])
    part, whole = np.array([4.0]), np.array([1.0])
    assert group_s(shared, "all_reduce", degree, part, size) > 2 * group_s(railed, "all_reduce", degree, part, size)
    assert group_s(shared, "all_reduce", degree, whole, size) == group_s(railed, "all_reduce", degree, whole, size)


def test_a_larger_share_of_a_card_never_slows_even_where_it_becomes_a_card_of_one_s_own() -> None:
    shares = [gigabytes * 1e9 for gigabytes in (0.5, 1, 3, 3.2, 6, 12, 12.5, 18, 18.74, 18.76, 20, 25, 50)]
    designs = TrainingDesigns.of(dp=[4, 8, 16, 32], tp=[2, 4, 8, 1])
    device = load_device("a100-80")
    steps = np.array(
        [
            step_time(
                setup(device="a100-80", nic_bytes_per_s=share, shared_nics=shares_nics(device, share)), designs
            ).step_s
            for share in shares
        ]
    )
    assert (np.diff(steps, axis=0) <= 1e-9 * steps[:-1]).all()


# --- hybrid sharding -------------------------------------------------------------------------------------------


def test_a_copy_a_node_gathers_inside_it_beside_the_reduction_of_its_shards_between_nodes() -> None:
    job, designs = setup(stack="torchtitan-2025"), TrainingDesigns.of(dp=64, zero_stage=3, shard_replicas=8)
    fabric = load_device("h100-sxm").fabric
    assert fabric is not None
    weights, eight = np.array([1e9]), np.array([8.0])
    gather = group_s(job, "all_gather", eight, np.ones(1), 2 * weights)
    scatter = group_s(job, "reduce_scatter", eight, np.ones(1), 4 * weights)
    shard = 4 * 1e9 / 8
    between = (
        fabric.inter_node_s + 3 * fabric.inter_node_doubling_s + 2 * 7 / 8 * shard / (50e9 * fabric.nic_efficiency)
    )
    found = sharded_traffic_s(job, designs, NONE, NONE, weights)
    assert found.exposed_s == pytest.approx(gather + np.maximum(gather + scatter, between))
    assert found.hidden_s == 0


@pytest.mark.parametrize("nic_bytes_per_s", [1e9, 50e9])
def test_copies_larger_than_a_node_share_its_cards_and_take_turns(nic_bytes_per_s: float) -> None:
    job = setup(stack="torchtitan-2025", nic_bytes_per_s=nic_bytes_per_s)
    designs = TrainingDesigns.of(dp=64, zero_stage=3, shard_replicas=4, reshard=0)
    weights, sixteen, four = np.array([1e9]), np.array([16.0]), np.array([4.0])
    gather = group_s(job, "all_gather", sixteen, np.ones(1), 2 * weights)
    reduce = group_s(job, "reduce_scatter", sixteen, np.ones(1), 4 * weights)
    reduce = reduce + group_s(job, "all_reduce", four, sixteen, 4 * weights / 16)
    assert sharded_traffic_s(job, designs, NONE, NONE, weights).exposed_s == pytest.approx(gather + reduce)


def test_without_prefetch_the_sum_over_copies_hides_and_the_gathers_wait() -> None:
    job, weights, eight = setup(stack="torchtitan-2025"), np.array([1e9]), np.array([8.0])
    late = TrainingDesigns.of(dp=64, zero_stage=3, shard_replicas=8, prefetch=0)
    gather = group_s(job, "all_gather", eight, np.ones(1), 2 * weights)
    scatter = group_s(job, "reduce_scatter", eight, np.ones(1), 4 * weights)
    free = np.maximum(scatter, group_s(job, "all_reduce", eight, eight, weights / 2))
    found = sharded_traffic_s(job, late, SLOW, SLOW, weights)
    exposed = job.stack.overlap.fsdp_exposed
    assert found.exposed_s == pytest.approx(2 * gather + exposed * free)


def test_a_copy_a_node_costs_little_where_a_card_per_gpu_keeps_up_with_the_node() -> None:
    """MPT 70B on 512 H100: 64 copies of all states, but no gather between nodes."""
    job = setup(replace(GPT_175B, layers=80, hidden=8192, ffn=32768, heads=64, kv_heads=64), stack="fsdp-2023")
    one, node = (step_time(job, TrainingDesigns.of(dp=512, zero_stage=3, shard_replicas=n)).step_s for n in (1, 64))
    assert 0.95 <= one / node <= 1.06


def test_a_stack_that_shards_over_all_ranks_refuses_copies() -> None:
    job = setup(GPT_175B, stack="megatron-deepspeed-2021", recipe="fp16", device="a100-80")
    with pytest.raises(SpecError, match="shard_replicas is 8") as caught:
        step_time(job, TrainingDesigns.of(dp=[64, 64], zero_stage=3, shard_replicas=[1, 8]))
    assert caught.value.hint == "write 1"
    step_time(job, TrainingDesigns.of(dp=64, zero_stage=[0, 3], shard_replicas=[8, 1]))


def test_the_copies_of_a_small_job_meet_inside_the_node() -> None:
    job, designs = setup(stack="torchtitan-2025"), TrainingDesigns.of(dp=8, zero_stage=3, shard_replicas=4, reshard=0)
    weights, two, four = np.array([1e9]), np.array([2.0]), np.array([4.0])
    found = sharded_traffic_s(job, designs, NONE, NONE, weights)
    whole = group_s(job, "all_gather", two, np.ones(1), 2 * weights)
    whole = whole + group_s(job, "reduce_scatter", two, np.ones(1), 4 * weights)
    assert found.exposed_s == pytest.approx(whole + group_s(job, "all_reduce", four, two, 2 * weights))


@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize("zero_stage", [0, 1, 3])
def test_one_copy_is_full_sharding(zero_stage: int, pp: int) -> None:
    job = setup(stack="torchtitan-2025")
    told = step_time(job, TrainingDesigns.of(dp=64, cp=2, pp=pp, zero_stage=zero_stage, shard_replicas=1))
    assert told.step_s == step_time(job, TrainingDesigns.of(dp=64, cp=2, pp=pp, zero_stage=zero_stage)).step_s


def test_a_copy_a_rank_gathers_nothing_and_reduces_over_all() -> None:
    job, weights = setup(stack="torchtitan-2025"), np.array([1e9])
    found = sharded_traffic_s(job, TrainingDesigns.of(dp=64, zero_stage=3, shard_replicas=64), NONE, NONE, weights)
    all_ranks = group_s(job, "all_reduce", np.array([64.0]), np.ones(1), 4 * weights)
    assert found.exposed_s == pytest.approx(all_ranks)


def test_reductions_of_a_pipeline_go_over_shards_and_copies() -> None:
    job = setup(stack="torchtitan-2025")
    eight = TrainingDesigns.of(dp=64, pp=2, zero_stage=3, shard_replicas=8)
    held = 16 * (LLAMA_8B.attention_parameters + LLAMA_8B.dense_mlp_parameters) + LLAMA_8B.head_parameters
    size, node = np.array([float(held)]), np.array([8.0])
    within = group_s(job, "reduce_scatter", node, np.ones(1), 4 * size)
    between = group_s(job, "all_reduce", node, node, 4 * size / 8)
    expected = np.maximum(within, between) + group_s(job, "all_gather", node, np.ones(1), 2 * size)
    assert gradient_s(job, eight, stages(0.0)).exposed_s == pytest.approx(expected)


def test_a_reduction_that_follows_backward_goes_over_all_ranks_whatever_the_copies() -> None:
    job = setup(stack="torchtitan-2025", gradient_overlap="none")
    one, eight = (gradient_s(job, TrainingDesigns.of(dp=64, pp=2, shard_replicas=n), stages(1.0)) for n in (1, 8))
    assert one.exposed_s == pytest.approx(eight.exposed_s)


def test_the_optimizer_owns_a_shard_of_its_copy() -> None:
    job = setup(stack="torchtitan-2025")
    whole, hybrid, small = (
        optimizer_s(job, TrainingDesigns.of(dp=dp, zero_stage=3, shard_replicas=copies)) - job.stack.host.optimizer_s
        for dp, copies in ((64, 1), (64, 8), (8, 1))
    )
    assert hybrid == pytest.approx(8 * whole)
    assert hybrid == pytest.approx(small)


def test_a_copy_a_node_pays_where_the_network_between_nodes_is_slow() -> None:
    def gain(nic_bytes_per_s: float) -> float:
        job = setup(stack="torchtitan-2025", nic_bytes_per_s=nic_bytes_per_s)
        full, hybrid = (
            step_time(job, TrainingDesigns.of(dp=64, zero_stage=3, shard_replicas=n)).step_s for n in (1, 8)
        )
        return float((full / hybrid)[0])

    assert gain(2e9) > 1.05
    assert gain(2e9) > gain(50e9)
