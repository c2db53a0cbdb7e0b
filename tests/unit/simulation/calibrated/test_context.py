"""Three ways to share a sequence, and what working block by block costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.context import context_pass, shared_attention_pass
from cosmic_opt.simulation.calibrated.groups import group_s, send_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import Pass, attention_pass, flash_pass
from cosmic_opt.simulation.calibrated.step import step_time
from tests.unit.simulation.calibrated.jobs import LLAMA_8B, LLAMA_405B, setup

CP4 = TrainingDesigns.of(cp=4)
LONG, NONE = (Pass(np.array([each]), np.array([each])) for each in (100.0, 0.0))
ONE = np.ones(1)
TOKENS = 1024  # of 4,096 on each of four ranks
HBM = 0.62 * 3350e9


def titan(**changes: Any) -> TrainingSetup:
    return setup(stack="torchtitan-2025", **changes)


def gathered(heads: int = 8) -> float:
    size = np.array([2.0 * 4096 * 2 * heads * 128])
    return float(group_s(setup(), "all_gather", np.array([4.0]), ONE, size)[0])


def passed(size: float) -> float:
    return float(send_s(setup(), ONE, 4 * ONE, size * ONE)[0])


KEYS = passed(2.0 * TOKENS * LLAMA_8B.kv_width)


# --- ring ------------------------------------------------------------------------------------------------------


def test_a_ring_hides_behind_long_attention_and_merges_what_it_got() -> None:
    shown, hidden = context_pass(setup(context_exchange="ring"), CP4, LONG)
    assert shown.forward_s == pytest.approx(6 * 3 * TOKENS * 4096 / HBM)
    assert shown.backward_s == pytest.approx(6 * 3 * TOKENS * (4096 + 1024) / HBM)
    assert hidden.forward_s == pytest.approx(3 * KEYS)
    assert hidden.backward_s == pytest.approx(6 * KEYS)


def test_a_ring_beside_nothing_shows_all() -> None:
    shown, hidden = context_pass(setup(context_exchange="ring"), CP4, NONE)
    merges, _ = context_pass(setup(context_exchange="ring"), CP4, LONG)
    assert (shown - merges).forward_s == pytest.approx(3 * KEYS)
    assert (shown - merges).backward_s == pytest.approx(6 * KEYS)
    assert hidden.both_s == pytest.approx(0)


def test_the_middle_of_a_backward_ring_sends_keys_and_gradients_beside_one_block() -> None:
    half = Pass(*(np.array([4 * 1.5 * KEYS]) for _ in range(2)))  # each of the four blocks takes 1.5 messages
    shown, _ = context_pass(setup(context_exchange="ring"), CP4, half)
    merges, _ = context_pass(setup(context_exchange="ring"), CP4, LONG)
    assert (shown - merges).forward_s == pytest.approx(0)
    assert (shown - merges).backward_s == pytest.approx(2 * 0.5 * KEYS)


def test_a_ring_of_full_nodes_leaves_through_one_card_a_gpu() -> None:
    fabric = load_device("h100-sxm").fabric
    assert fabric is not None
    job = setup(LLAMA_405B, context_exchange="ring", sequence=32768)
    shown, _ = context_pass(job, TrainingDesigns.of(tp=8, cp=8), NONE)
    merges, _ = context_pass(job, TrainingDesigns.of(tp=8, cp=8), LONG)
    message = 4096 * 2 * 1 * 128 * 2  # one key head and one value head of 4,096 tokens
    start = fabric.inter_node_s + fabric.inter_node_doubling_s
    once = start + message / (50e9 * fabric.nic_efficiency)
    assert (shown - merges).forward_s == pytest.approx(7 * once, rel=1e-6)


# --- gathered --------------------------------------------------------------------------------------------------


def test_a_gather_before_attention_never_hides() -> None:
    shown, hidden = context_pass(setup(context_exchange="all_gather"), CP4, LONG)
    assert shown.forward_s == pytest.approx(gathered())
    assert shown.backward_s == pytest.approx(2 * gathered())
    assert hidden.both_s == 0


def test_a_gather_worked_in_blocks_hides_behind_the_own_block_and_gradients_come_home_last() -> None:
    shown, hidden = context_pass(titan(), CP4, LONG)
    home = passed(4.0 * TOKENS * 2 * 4096)
    assert shown.forward_s == pytest.approx(10 * 3 * TOKENS * 4096 / HBM)
    assert shown.backward_s == pytest.approx(10 * 3 * TOKENS * 8192 / HBM + home)
    assert hidden.forward_s == pytest.approx(gathered(heads=32))
    assert hidden.backward_s == pytest.approx(gathered(heads=32) + 3 * home)


def test_a_gather_beside_a_short_block_shows_the_rest() -> None:
    once = gathered(heads=32)
    short = Pass(np.array([4 * 0.25 * once]), np.array([400.0]))
    shown, _ = context_pass(titan(), CP4, short)
    merges, _ = context_pass(titan(), CP4, LONG)
    assert (shown - merges).forward_s == pytest.approx(0.75 * once)


def test_a_graph_that_is_not_compiled_merges_with_the_eager_factor() -> None:
    compiled, eager = (context_pass(titan(compiled=each), CP4, LONG)[0] for each in (True, False))
    assert eager.forward_s == pytest.approx(3 * compiled.forward_s)


# --- heads for tokens ------------------------------------------------------------------------------------------


def test_trading_tokens_for_heads_is_two_exchanges_each_way() -> None:
    shown, hidden = context_pass(setup(context_exchange="all_to_all"), CP4, LONG)
    there, back = (
        group_s(setup(), "all_to_all", np.array([4.0]), ONE, np.array([2.0 * 1024 * width])) for width in (6144, 4096)
    )
    assert shown.forward_s == pytest.approx(there + back)
    assert shown.backward_s == pytest.approx(there + back)
    assert hidden.both_s == 0


# --- attention -------------------------------------------------------------------------------------------------


def test_attention_in_blocks_is_the_own_one_and_two_half_chunks_of_each_other() -> None:
    job = setup(context_exchange="ring", sequence=16384)
    got = shared_attention_pass(job, CP4)
    own = flash_pass(job, CP4, ONE, 4096.0)
    other = flash_pass(job, CP4, 2 * ONE, 2048.0, causal=False)
    assert got.forward_s == pytest.approx(own.forward_s + 3 * other.forward_s)
    assert got.backward_s == pytest.approx(own.backward_s + 3 * other.backward_s)


def test_short_blocks_are_less_efficient_than_one_kernel_and_long_ones_are_not() -> None:
    def loss(sequence: int) -> float:
        job = setup(context_exchange="ring", sequence=sequence)
        blocks, one = shared_attention_pass(job, CP4), attention_pass(job, CP4)
        return float((blocks.both_s / one.both_s)[0])

    assert loss(2048) > loss(16384) > loss(262144) > 1.0
    assert loss(262144) < 1.02


def test_the_last_rank_of_a_plain_ring_attends_to_whole_blocks() -> None:
    job = setup(context_exchange="ring", context_schedule="ring", sequence=262144)
    plain, fair = shared_attention_pass(job, CP4), shared_attention_pass(setup(sequence=262144), CP4)
    assert plain.forward_s / fair.forward_s == pytest.approx(7 / 4, rel=0.02)


@pytest.mark.parametrize("exchange", ["all_gather", "all_to_all"])
def test_all_keys_at_once_are_one_kernel(exchange: str) -> None:
    job = setup(context_exchange=exchange)
    assert shared_attention_pass(job, CP4).both_s == attention_pass(job, CP4).both_s


# --- edges -----------------------------------------------------------------------------------------------------


def test_ranks_with_whole_heads_do_the_same_whatever_the_order_of_the_sequence() -> None:
    """Each has all of the sequence; where keys are gathered, the last of four ranks has 7/4 of its share to do."""
    for exchange, slowest in (("all_to_all", 1.0), ("all_gather", 7 / 4)):
        plain, balanced = (
            shared_attention_pass(setup(LLAMA_405B, context_exchange=exchange, context_schedule=order), CP4).both_s
            for order in ("ring", "balanced")
        )
        assert plain == pytest.approx(slowest * balanced)


@pytest.mark.parametrize("stack", ["megatron-te-2025", "torchtitan-2025"])
@pytest.mark.parametrize("exchange", ["ring", "all_gather", "all_to_all"])
def test_one_rank_exchanges_nothing_and_attends_at_once(exchange: str, stack: str) -> None:
    job, one = setup(stack=stack, context_exchange=exchange), TrainingDesigns.of()
    shown, hidden = context_pass(job, one, NONE)
    assert shown.both_s == 0
    assert hidden.both_s == 0
    assert shared_attention_pass(job, one).both_s == attention_pass(job, one).both_s


@pytest.mark.parametrize("stack", ["megatron-te-2025", "torchtitan-2025", "maxtext-2025"])
@given(
    cp=st.sampled_from([1, 2, 3, 4, 7, 8, 64]),
    tp=st.sampled_from([1, 2, 8, 16]),
    exchange=st.sampled_from(["ring", "all_gather", "all_to_all"]),
    attention_s=st.floats(0, 10),
)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_nothing_is_negative_and_more_attention_never_shows_more(
    stack: str, cp: int, tp: int, exchange: str, attention_s: float
) -> None:
    job, design = setup(stack=stack, context_exchange=exchange), TrainingDesigns.of(cp=cp, tp=tp)
    attention, longer = (Pass(*(np.array([each]) for _ in range(2))) for each in (attention_s, 2 * attention_s))
    (shown, hidden), (later, _) = (context_pass(job, design, each) for each in (attention, longer))
    for part in (shown, hidden):
        assert part.forward_s >= -1e-15
        assert part.backward_s >= -1e-15
    assert later.both_s <= shown.both_s + 1e-15


def test_repeated_keys_are_copied_even_by_one_rank() -> None:
    terms = step_time(titan(), TrainingDesigns.of()).terms
    per_token = 20 * 4096 + 6 * 14336 + 4 * (4096 + 1024) + 2 * 8192
    assert terms["elementwise"] == pytest.approx(2.4 * 256 * 4096 * 32 * per_token / HBM)


def test_an_unknown_exchange_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown context_exchange 'rings'") as error:
        setup(context_exchange="rings")
    assert error.value.hint is not None
    assert "ring" in error.value.hint
