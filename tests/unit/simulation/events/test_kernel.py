"""Streams, lanes and dimensions: worked by hand, then against an independent engine on generated programs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.events import POLICIES, Call, Op, Program, Stream, Visit, run_program
from tests.unit.simulation.events.reference import reference


def alone(chunks: int, *visits: Visit) -> Program:
    """One call on one stream."""
    dimensions = 1 + max(visit.dim for visit in visits)
    return Program(dimensions, (Call((visits,), chunks),), (Stream("calls", 0, (Op("call", call=0),)),))


def two(first: Call, second: Call, lanes: tuple[int, int] = (0, 1)) -> Program:
    """Two calls on two streams of one dimension."""
    ops = (Op("first", call=0), Op("second", call=1))
    streams = tuple(Stream(op.name, lane, (op,)) for op, lane in zip(ops, lanes, strict=True))
    return Program(1, (first, second), streams)


def one(ticks: int, latency: int = 0, chunks: int = 1) -> Call:
    return Call(((Visit(0, ticks, latency),),), chunks)


def test_chunks_of_one_dimension_follow_one_another_and_pay_latency_once() -> None:
    done = run_program(alone(4, Visit(0, 10, 3)))
    assert (done.ticks, done.busy_ticks.tolist()) == (43, [40])


def test_two_dimensions_are_a_pipeline() -> None:
    assert run_program(alone(3, Visit(0, 10, 1), Visit(1, 20, 2))).ticks == 10 + 1 + 3 * 20 + 2


def test_a_way_up_and_down_comes_back_to_a_dimension_that_serves_in_order_of_arrival() -> None:
    """Dimension 0 serves up 0-4, 4-8; down of chunk 0 is ready at 9 and of chunk 1 at 13: served 9-13, 13-17."""
    assert run_program(alone(2, Visit(0, 4, 0), Visit(1, 5, 0), Visit(0, 4, 0))).ticks == 18


@pytest.mark.parametrize(
    ("policy", "first", "second"), [("fifo", 30, 35), ("lifo", 35, 15), ("smallest_first", 35, 15)]
)
def test_the_service_order_decides_who_waits(policy: str, first: int, second: int) -> None:
    """Chunks of 10, 10, 10 and 5 come at one time; the first is served before the 5 has come."""
    calls = (one(10, chunks=3), one(5))
    ops = (Op("first", call=0), Op("pause", ticks=1), Op("second", call=1))
    streams = (Stream("first", 0, ops[:1]), Stream("second", 1, ops[1:]))
    ends = run_program(Program(1, calls, streams), policy=policy).ends
    assert (ends[0], ends[2]) == (first, second)


def test_two_active_chunks_share_a_dimension_equally() -> None:
    """Each of 10 and 30 gets half: the first is done at 20, the rest of 20 alone at 40."""
    assert run_program(two(one(10), one(30)), active=2).ends.tolist() == [20, 40]


def test_an_end_between_two_ticks_is_the_next_tick() -> None:
    """Three share 1 tick each in thirds, then nothing is left."""
    assert run_program(alone(3, Visit(0, 1, 0)), active=3).ticks == 3
    assert run_program(two(one(3), one(4)), active=2).ends.tolist() == [6, 7]


def test_streams_of_one_lane_take_turns_and_the_one_that_was_ready_first_goes_first() -> None:
    calls = (one(10), one(4))
    ops = (Op("a", call=0), Op("b", ticks=3), Op("c", call=1, wait=1))
    streams = (Stream("long", 0, ops[:1]), Stream("work", 1, ops[1:2]), Stream("short", 0, ops[2:]))
    done = run_program(Program(1, calls, streams))
    assert done.starts.tolist() == [0, 0, 10]
    assert done.ends.tolist() == [10, 3, 14]


def test_an_operation_starts_when_what_it_waits_for_has_ended() -> None:
    ops = (Op("work", ticks=7), Op("more", ticks=2, wait=2), Op("other", ticks=20))
    streams = (Stream("a", 0, ops[:2]), Stream("b", 1, ops[2:]))
    assert run_program(Program(1, (), streams)).ends.tolist() == [7, 22, 20]


def test_a_call_over_no_dimension_takes_no_time() -> None:
    program = Program(1, (Call(((),), 4),), (Stream("calls", 0, (Op("call", call=0), Op("work", ticks=5))),))
    assert run_program(program).ends.tolist() == [0, 5]


def test_visits_are_recorded_in_the_order_of_their_ends() -> None:
    visits = run_program(alone(2, Visit(0, 4, 1), Visit(1, 6, 0)), visits=True).visits
    assert visits.tolist() == [[0, 0, 0, 0, 4], [0, 1, 0, 4, 8], [0, 0, 1, 5, 11], [0, 1, 1, 11, 17]]


def test_an_unknown_order_and_a_number_out_of_range_are_refused() -> None:
    with pytest.raises(SpecError, match="service order"):
        run_program(alone(1, Visit(0, 1, 0)), policy="random")
    for active in (0, 9, True):
        with pytest.raises(SpecError, match="active"):
            run_program(alone(1, Visit(0, 1, 0)), active=active)


def test_work_beyond_the_clock_is_refused() -> None:
    with pytest.raises(LimitError, match="13 days"):
        run_program(alone(4, Visit(0, 2**80, 0)))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    dimensions = draw(st.integers(1, 3))
    visit = st.builds(Visit, st.integers(0, dimensions - 1), st.integers(0, 9), st.integers(0, 6), st.just(0))
    calls = []
    for _ in range(draw(st.integers(1, 3))):
        chunks = draw(st.integers(1, 5))
        route = st.lists(visit, min_size=1, max_size=4).map(tuple)
        apart = draw(st.booleans())
        calls.append(Call(tuple(draw(route) for _ in range(chunks if apart else 1)), chunks))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    streams, first = [], 0
    for number, length in enumerate(lengths):
        ops = []
        for place in range(first, first + length):
            wait = draw(st.integers(-1, first - 1)) if number else -1
            if draw(st.booleans()):
                ops.append(Op(str(place), call=draw(st.integers(0, len(calls) - 1)), wait=wait))
            else:
                ops.append(Op(str(place), ticks=draw(st.integers(0, 12)), wait=wait))
        streams.append(Stream(str(number), draw(st.integers(0, len(lengths) - 1)), tuple(ops)))
        first += length
    return Program(dimensions, tuple(calls), tuple(streams))


@given(programs(), st.sampled_from(POLICIES), st.integers(1, 3))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_an_independent_engine_agrees_to_the_tick(program: Program, policy: str, active: int) -> None:
    done = run_program(program, policy=policy, active=active)
    ends, busy = reference(program, policy=policy, active=active)
    assert done.ends.tolist() == ends
    assert done.busy_ticks.tolist() == busy


@given(programs(), st.sampled_from(POLICIES))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_dimension_serves_one_chunk_at_a_time_and_all_the_work_there_is(program: Program, policy: str) -> None:
    done = run_program(program, policy=policy, visits=True)
    for dim in range(program.dimensions):
        served = sorted((row[3], row[4]) for row in done.visits.tolist() if row[2] == dim)
        assert all(end <= start for (_, end), (start, _) in pairwise(served))
        work = 0
        for op in program.ops:
            if op.call >= 0:
                call = program.calls[op.call]
                times = call.chunks if len(call.routes) == 1 else 1
                work += times * sum(visit.ticks for route in call.routes for visit in route if visit.dim == dim)
        assert done.busy_ticks[dim] == work == sum(end - start for start, end in served)
