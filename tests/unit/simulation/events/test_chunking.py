"""What a buffer may be cut in: no time is lost or invented by rounding single chunks, and the play ends in seconds."""

from __future__ import annotations

from fractions import Fraction
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.collective import simulate_collective
from cosmic_opt.simulation.events import Group, schedule_collective
from cosmic_opt.simulation.events.chunking import MOST_PLAYED
from cosmic_opt.simulation.events.collective import themis_call
from cosmic_opt.simulation.events.program import Call, Program, Visit
from cosmic_opt.system.network import Dimension, Network
from cosmic_opt.units import TICKS_PER_SECOND

US = 10**6
WAYS = ("blueconnect", "baseline", "themis")
RING = Network((Dimension("ring", 7, 10**10, US),))
FAST = Network((Dimension("ring", 7, 10**14, 0),))


@pytest.mark.parametrize("multidim", WAYS)
def test_a_buffer_is_cut_in_no_more_chunks_than_it_has_bytes(multidim: str) -> None:
    with pytest.raises(SpecError, match=r"1,000 bytes cannot be cut in 1,001 chunks") as caught:
        simulate_collective(RING, "all_reduce", ["ring"], 1000, multidim=multidim, chunks=1001)
    assert "1,000" in str(caught.value.hint)
    with pytest.raises(SpecError, match="cannot be cut"):
        simulate_collective(RING, "all_reduce", ["ring"], 0, multidim=multidim, chunks=2)
    assert simulate_collective(RING, "all_reduce", ["ring"], 0, multidim=multidim).time_ticks == 12 * US


def test_events_refuse_the_chunks_that_the_closed_form_refuses() -> None:
    with pytest.raises(SpecError, match="cannot be cut"):
        schedule_collective(Group.whole(RING, ["ring"]), "all_reduce", 10, chunks=11)


def test_a_megabyte_in_a_million_chunks_takes_what_one_chunk_takes() -> None:
    """12 us of latency and 2 * 6 / 7 MB at 10 GB/s: 183.4 us. A byte takes 171.43 ps, rounded to 171."""
    one, many = (simulate_collective(RING, "all_reduce", ["ring"], 10**6, chunks=n).time_ticks for n in (1, 10**6))
    assert (one, many) == (183_428_571, 183_000_000)


@pytest.mark.parametrize("multidim", WAYS)
def test_chunks_whose_rounding_adds_up_are_refused_and_the_hint_holds(multidim: str) -> None:
    """A MB at 100 TB/s takes 17.1 ns; a twenty-thousandth of it 0.86 ps, which is rounded to 1; half of it, to 0."""
    with pytest.raises(SpecError, match=r"a chunk takes 0\.[48]\d* ps on dimension 0") as caught:
        simulate_collective(FAST, "all_reduce", ["ring"], 10**6, multidim=multidim, chunks=20_000)
    most = int("".join(filter(str.isdigit, str(caught.value.hint))))
    done = simulate_collective(FAST, "all_reduce", ["ring"], 10**6, multidim=multidim, chunks=most)
    assert done.time_ticks == pytest.approx(12 / 7 * 10**6 / 10**14 * TICKS_PER_SECOND, rel=0.01)


@given(
    st.lists(st.tuples(st.sampled_from((2, 3, 7)), st.integers(10**9, 10**14)), min_size=1, max_size=2),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_time_of_any_accepted_number_of_chunks_carries_the_whole_volume(
    shape: list[tuple[int, int]], size: int, chunks: int
) -> None:
    network = Network(tuple(Dimension("ring", npus, rate, 0) for npus, rate in shape))
    try:
        done = simulate_collective(network, "all_reduce", ["ring"] * len(shape), size, chunks=chunks)
    except SpecError:
        return
    npus, rate = shape[0]
    volume_ticks = Fraction(2 * (npus - 1) * size * TICKS_PER_SECOND, npus * rate)
    slack = max(Fraction(done.time_ticks, 100), Fraction(1000)) + 2 * len(shape)
    assert done.time_ticks >= volume_ticks - slack


def test_more_chunks_than_events_play_in_seconds_are_refused() -> None:
    group, size = Group.whole(RING, ["ring"]), 10**9
    for call in (
        lambda: simulate_collective(RING, "all_reduce", ["ring"], size, multidim="themis", chunks=MOST_PLAYED + 1),
        lambda: schedule_collective(group, "all_reduce", size, chunks=MOST_PLAYED + 1),
        lambda: themis_call(group, "all_reduce", Fraction(size), MOST_PLAYED + 1, "fifo"),
        lambda: Program(1, (Call(((Visit(0, 5, 0),),), MOST_PLAYED + 1),), ()).arrays(),
    ):
        with pytest.raises(LimitError, match="100,001 chunks are too many"):
            call()


@pytest.mark.parametrize("policy", ["fifo", "lifo", "smallest_first"])
def test_twenty_thousand_waiting_chunks_are_played_in_seconds(policy: str) -> None:
    """One dimension serves them back to back: 20,000 chunks of 50 bytes and the latency of the last."""
    group = Group.whole(RING, ["ring"])
    schedule_collective(group, "all_reduce", 10**6, scheduler="themis", chunks=2)  # compiles, or loads the compiled
    began = process_time()
    done = schedule_collective(group, "all_reduce", 10**6, scheduler="themis", chunks=20_000, policy=policy)
    assert process_time() - began < 10  # 0.4 s; a scan of what waits took a minute
    assert done.busy_ticks[0] == 20_000 * 2 * 4_286  # up and down, 50 bytes * 6 / 7 at 10 GB/s each
    assert done.busy_ticks[0] < done.time_ticks <= done.busy_ticks[0] + 12 * US
