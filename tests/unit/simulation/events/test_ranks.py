"""Lists of operations of every rank: who meets whom and when, by hand, and what can never end."""

from __future__ import annotations

import os
import random
import signal
import threading
from dataclasses import replace
from time import monotonic, process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, LimitError, SpecError
from cosmic_opt.simulation.events import Visit, rank_program
from cosmic_opt.simulation.events.ranks import RankOp, _Lists, _Meetings, run_ranks
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
        [[RankOp("real", 1, after=(0, 0.0))]],  # type: ignore[arg-type]
        [[RankOp("flag", 1), RankOp("flag", 1, after=(0, False))]],
        [[RankOp("three", 1), RankOp("three", 1, after=(0, 0, 0))]],  # type: ignore[arg-type]
        [[RankOp("text", 1, after="ab")]],  # type: ignore[arg-type]
        [[RankOp("list", 1, [0])]],  # type: ignore[arg-type]
        [[RankOp("set", 1, {0})]],  # type: ignore[arg-type]
        [[RankOp("nested", 1, ([0],))]],  # type: ignore[arg-type]
        [[RankOp("none", 1, None)]],  # type: ignore[arg-type]
        [[RankOp("truth", 1, (False,))]],
        [[RankOp("plain", 0, (0,), route=((0, 1, 0),))]],  # type: ignore[arg-type]
        [[RankOp("routes", 0, (0,), route=[Visit(0, 1, 0)])]],  # type: ignore[arg-type]
        [[RankOp("nan", 0, (0,), route=(Visit(0, float("nan"), 0),))]],  # type: ignore[arg-type]
        [[RankOp("beside", 1, (0,), beside=1)]],  # type: ignore[arg-type]
        [[RankOp(7, 1)]],  # type: ignore[arg-type]
        [[RankOp("place", 0, (0,), route=(Visit(0, 1, 0, 2**70),))]],
        [[RankOp("digits", 10**5000)]],
        [[RankOp("digits", 1, (10**5000,))]],
        [[RankOp("digits", 1, (0,), chunks=10**5000)]],
        [[RankOp("digits", 1, after=(0, 10**5000))]],
        [[RankOp("digits", 0, (0,), route=(Visit(0, 10**5000, 0),))]],
        [["work"]],
        [RankOp("work", 1)],
        ["work"],
        "work",
        5,
        None,
    ],
)
def test_what_means_nothing_is_refused_with_a_hint(programs: list[list[RankOp]]) -> None:
    with pytest.raises(CosmicError) as caught:
        run_ranks(programs)
    assert caught.value.hint


def test_a_planned_order_is_that_of_the_places_of_visits() -> None:
    """By hand: both chunks are there at 0; the one of the later list, of place 0, is served first."""
    for places, ends in (((0, 1), (4, 7)), ((1, 0), (7, 3))):
        one, two = (Visit(0, 4, 0, places[0]),), (Visit(0, 3, 0, places[1]),)
        own = [RankOp("beside", 0, (0,), beside=True, route=one), RankOp("blocking", 0, (0,), route=two)]
        assert run_ranks([own], policy="planned").ends == (ends,)


@pytest.mark.parametrize("policy", ["fastest", None, 3, ["fifo"], np.array(["fifo", "lifo"])])
def test_an_unknown_service_order_is_refused(policy: str) -> None:
    for programs in ([[]], [], [[RankOp("work", 1)]]):
        with pytest.raises(SpecError, match="service order") as caught:
            run_ranks(programs, policy=policy)
        assert caught.value.hint


def test_thirteen_days_are_the_limit_of_each_rank_and_of_all_in_a_row() -> None:
    """2,000 ranks compute for ten minutes each; the sum of all would be 14 days."""
    assert run_ranks([[RankOp("work", 6 * 10**14)] for _ in range(2000)]).ticks == 6 * 10**14
    half = RankOp("half", 2**59)
    with pytest.raises(LimitError, match="the work of rank 1 adds up to more than 13 days"):
        run_ranks([[half], [half, half, RankOp("more", 1)]])
    row = [[half], [replace(half, after=(0, 0)), RankOp("more", 1)], [replace(half, after=(1, 1))]]
    with pytest.raises(LimitError, match="together take more than 13 days"):
        run_ranks(row)


def test_a_run_that_is_cut_in_slices_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    programs = [random_programs(rng, 4, 8) for _ in range(20)]
    whole = [run_ranks(own) for own in programs]
    monkeypatch.setattr(rank_program, "EVENTS_AT_A_TIME", 1)
    assert [run_ranks(own) for own in programs] == whole


def test_progress_counts_events_up_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: two ranks, each with two operations and three chunks of one phase."""
    monkeypatch.setattr(rank_program, "EVENTS_AT_A_TIME", 1)
    own = [(RankOp("work", 1), RankOp("sum", 1, (0, 1), chunks=3))] * 2
    every, told = _Lists(own, _Meetings(own)), list[int]()
    variant = np.zeros(2, dtype=np.int64)
    replay = rank_program.play(every.every, [every.ticks], variant, times=False, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == replay.events == every.every.events == 2 * (2 + 3)
    assert len(told) > 2


def test_ctrl_c_ends_a_long_run_within_a_second() -> None:
    both, route = (0, 1), (Visit(0, 1, 0), Visit(1, 1, 0))
    own = [RankOp("sum", 0, both, route=route, chunks=10_000)] * 2_000
    run_ranks([own[:1], own[:1]])  # compiles
    sent = list[float]()

    def interrupt() -> None:
        sent.append(monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(1, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_ranks([own, own])
    assert monotonic() - sent[0] < 1


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


def renumbered(programs: list[list[RankOp]], number: list[int]) -> list[list[RankOp]]:
    """Return the lists with rank r called number[r]."""
    moved: list[list[RankOp]] = [[] for _ in programs]
    for rank, own in enumerate(programs):
        moved[number[rank]] = [replace(op, members=tuple(number[member] for member in op.members)) for op in own]
    return moved


def test_two_collectives_that_come_at_one_time_are_served_in_the_order_of_lists_whatever_the_numbers() -> None:
    """By hand: both come to rank 1 at 5. A, listed first by rank 0, has the port to 15, B then to 22."""
    one, two = RankOp("A", 10, (0, 1)), RankOp("B", 7, (1, 2))
    alone = RankOp("self", 0, (2,), route=(Visit(1, 5, 0),))
    programs = [[one], [RankOp("w", 5), replace(one, beside=True), two], [alone, two]]
    assert run_ranks(programs).ends == ((15,), (5, 15, 22), (5, 22))
    assert run_ranks(renumbered(programs, [2, 1, 0])).ends == ((5, 22), (5, 15, 22), (15,))


def test_two_collectives_at_one_place_of_their_lists_are_served_by_name() -> None:
    """By hand, as above, but both stand second and third in the lists of their members."""
    work = RankOp("work")
    for names, ends in ((("A", "B"), (15, 22)), (("B", "A"), (22, 12))):
        one, two = RankOp(names[0], 10, (0, 1)), RankOp(names[1], 7, (1, 2))
        alone = RankOp("self", 0, (2,), route=(Visit(1, 5, 0),))
        programs = [[work, work, one], [RankOp("w", 5), replace(one, beside=True), two], [alone, two]]
        for own, rank in ((programs, 0), (renumbered(programs, [2, 1, 0]), 2)):
            times = run_ranks(own)
            assert (times.ends[rank][2], times.ends[2 - rank][1]) == ends


def crowded_programs(rng: random.Random, ranks: int) -> list[list[RankOp]]:
    """Small groups and few ticks, so that many chunks come at once; every collective has a name of its own."""
    programs: list[list[RankOp]] = [[] for _ in range(ranks)]
    most = rng.choice((2, 3, 4))
    for number in range(rng.randrange(3, 14)):
        members = tuple(sorted(rng.sample(range(ranks), rng.randrange(1, 4))))
        route = tuple(
            Visit(rng.randrange(2), rng.randrange(most), rng.randrange(2)) for _ in range(rng.randrange(1, 3))
        )
        op = RankOp(f"sum {number}", 0, members, route=route, chunks=rng.randrange(1, 3))
        for member in members:
            if rng.random() < 0.4:
                programs[member].append(RankOp("work", rng.randrange(most)))
            programs[member].append(replace(op, beside=rng.random() < 0.4))
    return programs


@given(st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_numbers_of_ranks_do_not_change_times(seed: int) -> None:
    rng = random.Random(seed)
    ranks = rng.randrange(3, 7)
    programs, number = crowded_programs(rng, ranks), rng.sample(range(ranks), ranks)
    policy = rng.choice(("fifo", "lifo", "smallest_first"))
    times, other = run_ranks(programs, policy=policy), run_ranks(renumbered(programs, number), policy=policy)
    assert [other.ends[number[rank]] for rank in range(ranks)] == list(times.ends)
