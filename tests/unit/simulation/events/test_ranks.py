"""Lists of operations of every rank: who meets whom and when, by hand, and what can never end."""

from __future__ import annotations

import random
from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, SpecError
from cosmic_opt.simulation.events import Visit
from cosmic_opt.simulation.events.ranks import RankOp, run_ranks
from tests.unit.simulation.events.ranks_reference import reference


def test_a_rank_without_communication_is_slow_alone() -> None:
    """Two ranks meet; the third only computes, for half as long again."""
    pair = [RankOp("work", 10), RankOp("sum", 5, (0, 1)), RankOp("work", 10)]
    times = run_ranks([pair, pair, [RankOp("work", 40)]])
    assert times.ends == ((10, 15, 25), (10, 15, 25), (40,))
    assert times.ticks == 40


def test_members_of_a_collective_end_together_after_the_last_one_came() -> None:
    times = run_ranks([[RankOp("work", 3), RankOp("sum", 5, (0, 1))], [RankOp("work", 9), RankOp("sum", 5, (0, 1))]])
    assert times.starts == ((0, 3), (0, 9))
    assert times.ends == ((3, 14), (9, 14))


def test_the_order_in_which_members_are_listed_does_not_matter() -> None:
    times = run_ranks([[RankOp("sum", 5, (0, 1))] * 2, [RankOp("work", 3), *[RankOp("sum", 5, (1, 0))] * 2]])
    assert times.ends == ((8, 13), (3, 8, 13))


def test_overlapping_groups_take_turns() -> None:
    """By hand: 0 and 1 meet at 4, 1 and 2 at 6, all at 9; 2 waits twice."""
    pair, other, everybody = RankOp("a", 2, (0, 1)), RankOp("b", 3, (2, 1)), RankOp("c", 1, (2, 0, 1))
    times = run_ranks([[RankOp("work", 4), pair, everybody], [pair, other, everybody], [other, everybody]])
    assert times.ends == ((4, 6, 10), (6, 9, 10), (9, 10))


def test_a_collective_beside_work_waits_for_the_straggler_and_holds_up_nobody_until_it_is_needed() -> None:
    """By hand: a's gradients are there at 10 and 13, so they move from 13 to 17; b's, at 20 and 26, from 26 to 30.

    Rank 0 stands still from 20 to 30, rank 1 from 26 to 30.
    """
    both = (0, 1)

    def steps(rank: int, ticks: int) -> list[RankOp]:
        work = RankOp("work", ticks)
        sums = [RankOp("sum a", 4, both, beside=True), RankOp("sum b", 4, both, beside=True)]
        return [work, sums[0], work, sums[1], RankOp("optimizer", 1, after=(rank, 3))]

    times = run_ranks([steps(0, 10), steps(1, 13)])
    assert times.ends == ((10, 17, 20, 30, 31), (13, 17, 26, 30, 31))


def test_chunks_of_a_collective_beside_blocking_ones_share_the_port() -> None:
    """By hand: two chunks of 4 from 10 on; blocking traffic of the pair comes at 12 and waits for the first chunk.

    It came after the second chunk: first come, first served lets that one pass, last come does not.
    """
    both = (0, 1)
    steps = [
        RankOp("work", 10),
        RankOp("gradients", 4, both, beside=True, chunks=2),
        RankOp("work", 2),
        RankOp("stream", 3, both),
    ]
    assert run_ranks([steps, steps]).ends == ((10, 18, 12, 21),) * 2
    assert run_ranks([steps, steps], policy="lifo").ends == ((10, 21, 12, 17),) * 2


def test_chunks_of_a_straggler_are_waited_for_one_by_one() -> None:
    """By hand: both have brought gradients at 13. Dimension 0 serves chunks from 13 to 17 and 17 to 21, dimension 1
    from 18 to 21 and 22 to 25. Blocking traffic, complete at 18, comes after the second chunk: 21 to 23.
    """
    both, route = (0, 1), (Visit(0, 4, 1), Visit(1, 3, 0))

    def steps(ticks: int) -> list[RankOp]:
        gradients = RankOp("gradients", 0, both, beside=True, route=route, chunks=2)
        return [RankOp("work", ticks), gradients, RankOp("work", 5), RankOp("stream", 2, both)]

    assert run_ranks([steps(10), steps(13)]).ends == ((10, 25, 15, 23), (13, 25, 18, 23))


def test_phases_on_two_dimensions_follow_each_other_chunk_by_chunk() -> None:
    """By hand: dimension 0 serves at 0 and 4, each chunk arrives 1 later, dimension 1 takes 3: 5 to 8 and 9 to 12."""
    call = RankOp("sum", 0, (0, 1), route=(Visit(0, 4, 1), Visit(1, 3, 0)), chunks=2)
    assert run_ranks([[call], [call]]).ends == ((12,), (12,))


def test_a_port_that_waits_for_another_serves_who_can_start_meanwhile() -> None:
    """By hand: 0 and 1 need rank 1's port, which serves 1 and 2 until 10; rank 0's takes its sum with 3 at 4."""
    long, blocked, short = RankOp("long", 10, (1, 2)), RankOp("blocked", 5, (0, 1), beside=True), RankOp("s", 2, (0, 3))
    programs = [
        [RankOp("work", 1), blocked, RankOp("work", 3), short],
        [RankOp("long", 10, (1, 2), beside=True), RankOp("work", 1), RankOp("blocked", 5, (0, 1))],
        [long],
        [short],
    ]
    assert run_ranks(programs).ends == ((1, 15, 4, 6), (10, 1, 15), (10,), (6,))


def test_a_collective_costs_each_member_one_step_whatever_the_group() -> None:
    """A thousand ranks meet 100 times. A step that looked at all members would take minutes."""
    run_ranks([[RankOp("sum", 1, (0, 1))]] * 2)  # compiles
    everybody = tuple(range(1000))
    programs = [[RankOp("work", rank + 1), *[RankOp("sum", 5, everybody)] * 100] for rank in everybody]
    began = process_time()
    assert run_ranks(programs).ticks == 1000 + 100 * 5
    assert process_time() - began < 5


def test_a_message_is_waited_for() -> None:
    times = run_ranks([[RankOp("work", 3), RankOp("send", 4)], [RankOp("receive", 0, (), (0, 1)), RankOp("work", 2)]])
    assert times.ends == ((3, 7), (7, 9))


def test_a_collective_beside_may_wait_for_its_issue_and_for_a_message() -> None:
    """Issued at 4, while the message is out at 9; and issued at 12, long after it."""
    for work, end in ((4, 14), (12, 17)):
        one = [RankOp("work", work), RankOp("sum", 5, (0,), after=(1, 0), beside=True), RankOp("work", 1)]
        assert run_ranks([one, [RankOp("message", 9)]]).ends == ((work, end, work + 1), (9,))


def test_a_rendezvous_that_never_completes_names_ranks_and_operations() -> None:
    with pytest.raises(SpecError, match=r"rank 0 at 'sum' for ranks 1.*") as caught:
        run_ranks([[RankOp("sum", 5, (0, 1))], [RankOp("work", 5)]])
    assert "one order for all" in str(caught.value)
    crossed = [[RankOp("a", 1, (0, 1, 2)), RankOp("b", 1, (0, 1))], [RankOp("b", 1, (0, 1)), RankOp("a", 1, (0, 1, 2))]]
    with pytest.raises(SpecError, match=r"rank 0 at 'a'.*rank 1 at 'b'"):
        run_ranks([*crossed, [RankOp("a", 1, (0, 1, 2))]])
    with pytest.raises(SpecError, match=r"rank 0 at 'x' for operation \(1, 0\)"):
        run_ranks([[RankOp("x", 1, (), (1, 0))], [RankOp("y", 1, (), (0, 0))]])
    with pytest.raises(SpecError, match=r"rank 0 at 'sum' for ranks 1"):
        run_ranks([[RankOp("sum", 5, (0, 1), beside=True), RankOp("work", 9)], [RankOp("work", 5)]])


@pytest.mark.parametrize(
    "programs",
    [
        [[RankOp("negative", -1)]],
        [[RankOp("nan", float("nan"))]],  # type: ignore[arg-type]
        [[RankOp("huge", 2**61)]],
        [[RankOp("not a member", 1, (1,))], []],
        [[RankOp("twice", 1, (0, 0))]],
        [[RankOp("nobody", 1, (0, 7))]],
        [[RankOp("no number", 1, (0, "1"))]],  # type: ignore[arg-type]
        [[RankOp("waits for nothing", 1, (), (3, 0))]],
        [[RankOp("sum", 5, (0, 1))], [RankOp("gather", 5, (0, 1))]],
        [[RankOp("sum", 5, (0, 1))], [RankOp("sum", 6, (0, 1))]],
        [[RankOp("sum", 5, (0, 1), chunks=2)], [RankOp("sum", 5, (0, 1))]],
        [[RankOp("work beside", 5, beside=True)]],
        [[RankOp("chunks", 5, (0,), chunks=0)]],
        [[RankOp("chunks", 5, (0,), chunks=10**6)]],
        [[RankOp("two times", 5, (0,), route=(Visit(0, 1, 1),))]],
        [[RankOp("dimension", 0, (0,), route=(Visit(10**6, 1, 1),))]],
        [[RankOp("latency", 0, (0,), route=(Visit(0, 1, -1),))]],
    ],
)
def test_what_means_nothing_is_refused(programs: list[list[RankOp]]) -> None:
    with pytest.raises(CosmicError) as caught:
        run_ranks(programs)
    assert caught.value.hint


def test_an_unknown_service_order_is_refused() -> None:
    with pytest.raises(SpecError, match="service order"):
        run_ranks([[]], policy="fastest")


def test_no_rank_takes_no_time() -> None:
    assert run_ranks([]).ticks == run_ranks([[], []]).ticks == 0


def random_programs(rng: random.Random, ranks: int, collectives: int, most: int = 9) -> list[list[RankOp]]:
    """Collectives of random groups in one order for all, blocking or beside, and work of random ticks between."""
    programs: list[list[RankOp]] = [[] for _ in range(ranks)]
    for number in range(collectives):
        members = tuple(sorted(rng.sample(range(ranks), rng.randrange(1, ranks + 1))))
        chunks, beside = rng.randrange(1, 4), rng.random() < 0.4
        route = tuple(
            Visit(rng.randrange(3), rng.randrange(most), rng.randrange(4)) for _ in range(rng.randrange(1, 4))
        )
        for member in members:
            programs[member].append(RankOp("work", rng.randrange(most)))
            programs[member].append(RankOp(f"sum {number}", 0, members, beside=beside, chunks=chunks, route=route))
    return programs


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_times_are_those_of_an_engine_that_tries_all_gangs_at_all_times(seed: int) -> None:
    """Ticks are so many that no two gangs of different members are complete at one time."""
    rng = random.Random(seed)
    programs = random_programs(rng, rng.randrange(1, 6), rng.randrange(10), most=10**6)
    policy = rng.choice(("fifo", "lifo", "smallest_first"))
    assert [list(own) for own in run_ranks(programs, policy=policy).ends] == reference(programs, policy)


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_collectives_in_one_order_always_end_and_members_end_together(seed: int) -> None:
    rng = random.Random(seed)
    programs = random_programs(rng, rng.randrange(1, 6), rng.randrange(8))
    times = run_ranks(programs, policy=rng.choice(("fifo", "lifo", "smallest_first")))
    found: dict[str, set[int]] = {}
    for own, starts, ends in zip(programs, times.starts, times.ends, strict=True):
        for op, start, end in zip(own, starts, ends, strict=True):
            assert end - start >= op.ticks + sum(visit.ticks + visit.latency_ticks for visit in op.route)
            if op.members:
                found.setdefault(op.name, set()).add(end)
    assert all(len(ends) == 1 for ends in found.values())


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_numbers_of_ranks_do_not_change_times(seed: int) -> None:
    rng = random.Random(seed)
    ranks = rng.randrange(1, 6)
    programs = random_programs(rng, ranks, rng.randrange(8))
    number = rng.sample(range(ranks), ranks)
    moved: list[list[RankOp]] = [[] for _ in range(ranks)]
    for rank, own in enumerate(programs):
        moved[number[rank]] = [replace(op, members=tuple(number[member] for member in op.members)) for op in own]
    times, other = run_ranks(programs), run_ranks(moved)
    assert [other.ends[number[rank]] for rank in range(ranks)] == list(times.ends)
