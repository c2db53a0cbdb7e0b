"""Every rank by itself: equal ones end when the representative does, slow ones hold up whom they meet."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from time import process_time

import pytest

from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.simulation.events.ranks import RankOp, run_ranks, training_ranks
from cosmic_opt.simulation.events.step import StepSimulation
from cosmic_opt.workloads.graph import Stage
from tests.unit.simulation.events.designs import random_steps, small_simulator
from tests.unit.simulation.events.test_step import ALONE, optimizer_ticks

MODEL = small_simulator()
SHAPE = {"npus_per_dim": (2, 3, 1), "micro_batch": 1, "overlap_gradients": 0, "overlap_weights": 0}


def step_ticks(simulation: StepSimulation, degrees: dict[str, int], slow: dict[int, Fraction | int]) -> int:
    programs = training_ranks(simulation.lowered, simulation.graph, degrees, slow)
    return run_ranks(programs).ticks + optimizer_ticks(simulation.lowered)


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(
    ("dp", "tp", "pp", "sp"), [(6, 1, 1, 1), (1, 3, 2, 1), (2, 1, 3, 1), (1, 2, 1, 3), (1, 1, 6, 1), (2, 3, 1, 1)]
)
def test_equal_ranks_take_the_folded_step_to_the_tick(dp: int, tp: int, pp: int, sp: int, pieces: int) -> None:
    degrees = {"dp": dp, "tp": tp, "sp": sp}
    for design, simulation, _ in random_steps(3, 2, MODEL, pp=pp, **degrees, **SHAPE, interleave=pieces):
        assert step_ticks(simulation, degrees, {}) == simulation.run().step_ticks, design


def test_unequal_stages_take_the_folded_step_of_their_graph() -> None:
    """The last stage's layer moves to the first one."""
    degrees = {"dp": 2, "tp": 1, "sp": 1}
    for design, simulation, _ in random_steps(5, 4, MODEL, pp=3, **degrees, **SHAPE):
        first, middle, last = simulation.graph.stages
        moved, kept = last.pieces[0].buckets[0], last.pieces[0].buckets[1:]
        pieces = [
            replace(first.pieces[0], buckets=(*first.pieces[0].buckets, moved)),
            replace(last.pieces[0], buckets=kept),
        ]
        graph = replace(simulation.graph, stages=(Stage(0, (pieces[0],)), middle, Stage(2, (pieces[1],))))
        uneven = StepSimulation(simulation.lowered, graph)
        assert step_ticks(uneven, degrees, {}) == uneven.run().step_ticks, design


def test_a_tensor_parallel_straggler_holds_up_all_its_compute() -> None:
    """All compute takes twice its time, all communication once."""
    for design, simulation, _ in random_steps(1, 4, MODEL, dp=1, tp=6, sp=1, pp=1, **{**SHAPE, **ALONE}):
        step = simulation.run()
        communication = step.terms["tensor-parallel communication"]
        slowed = 2 * (step.step_ticks - communication - optimizer_ticks(simulation.lowered)) + communication
        ticks = step_ticks(simulation, {"dp": 1, "tp": 6, "sp": 1}, {4: 2})
        assert ticks == slowed + optimizer_ticks(simulation.lowered), design


def test_a_rank_without_communication_is_slow_alone() -> None:
    """Two ranks meet; the third only computes, for half as long again."""
    pair = [RankOp("work", 10), RankOp("sum", 5, (0, 1)), RankOp("work", 10)]
    times = run_ranks([pair, pair, [RankOp("work", 40)]])
    assert times.ends == ((10, 15, 25), (10, 15, 25), (40,))
    assert times.ticks == 40


def test_a_collective_starts_with_its_last_member() -> None:
    times = run_ranks([[RankOp("work", 3), RankOp("sum", 5, (0, 1))], [RankOp("work", 9), RankOp("sum", 5, (0, 1))]])
    assert times.starts == ((0, 9), (0, 9))
    assert times.ticks == 14


def test_the_order_in_which_members_are_listed_does_not_matter() -> None:
    times = run_ranks([[RankOp("sum", 5, (0, 1))] * 2, [RankOp("work", 3), *[RankOp("sum", 5, (1, 0))] * 2]])
    assert times.ends == ((8, 13), (3, 8, 13))


def test_overlapping_groups_take_turns() -> None:
    """By hand: 0 and 1 meet at 4, 1 and 2 at 6, all at 9; 2 waits twice."""
    pair, other, everybody = RankOp("a", 2, (0, 1)), RankOp("b", 3, (2, 1)), RankOp("c", 1, (2, 0, 1))
    times = run_ranks([[RankOp("work", 4), pair, everybody], [pair, other, everybody], [other, everybody]])
    assert times.ends == ((4, 6, 10), (6, 9, 10), (9, 10))


def test_a_collective_costs_each_member_one_step_whatever_the_group() -> None:
    """A thousand ranks meet 500 times. A step that looked at all members would take minutes."""
    everybody = tuple(range(1000))
    programs = [[RankOp("work", rank + 1), *[RankOp("sum", 5, everybody)] * 500] for rank in everybody]
    began = process_time()
    times = run_ranks(programs)
    assert times.ticks == 1000 + 500 * 5
    assert process_time() - began < 10


def test_a_message_is_waited_for() -> None:
    times = run_ranks([[RankOp("work", 3), RankOp("send", 4)], [RankOp("receive", 0, (), (0, 1)), RankOp("work", 2)]])
    assert times.ends == ((3, 7), (7, 9))


def test_a_rendezvous_that_never_completes_names_ranks_and_operations() -> None:
    with pytest.raises(SpecError, match=r"rank 0 at 'sum' for ranks 1.*") as caught:
        run_ranks([[RankOp("sum", 5, (0, 1))], [RankOp("work", 5)]])
    assert "one order for all" in str(caught.value)
    crossed = [[RankOp("a", 1, (0, 1, 2)), RankOp("b", 1, (0, 1))], [RankOp("b", 1, (0, 1)), RankOp("a", 1, (0, 1, 2))]]
    with pytest.raises(SpecError, match=r"rank 0 at 'a'.*rank 1 at 'b'"):
        run_ranks([*crossed, [RankOp("a", 1, (0, 1, 2))]])
    with pytest.raises(SpecError, match=r"rank 0 at 'x' for operation \(1, 0\)"):
        run_ranks([[RankOp("x", 1, (), (1, 0))], [RankOp("y", 1, (), (0, 0))]])


def test_a_missing_member_of_a_training_step_is_found() -> None:
    ((_, simulation, _),) = random_steps(1, 1, MODEL, dp=1, tp=6, sp=1, pp=1, **{**SHAPE, **ALONE})
    programs = list(training_ranks(simulation.lowered, simulation.graph, {"dp": 1, "tp": 6, "sp": 1}))
    programs[5] = tuple(op for op in programs[5] if not op.members)
    with pytest.raises(SpecError, match=r"rank 0 at 'embedding: .*' for ranks 5"):
        run_ranks(programs)


@pytest.mark.parametrize(
    "programs",
    [
        [[RankOp("negative", -1)]],
        [[RankOp("nan", float("nan"))]],  # type: ignore[arg-type]
        [[RankOp("not a member", 1, (1,))], []],
        [[RankOp("twice", 1, (0, 0))]],
        [[RankOp("nobody", 1, (0, 7))]],
        [[RankOp("waits for nothing", 1, (), (3, 0))]],
        [[RankOp("sum", 5, (0, 1))], [RankOp("gather", 5, (0, 1))]],
    ],
)
def test_what_means_nothing_is_refused(programs: list[list[RankOp]]) -> None:
    with pytest.raises(SpecError) as caught:
        run_ranks(programs)
    assert caught.value.hint


def test_no_rank_takes_no_time() -> None:
    assert run_ranks([]).ticks == run_ranks([[], []]).ticks == 0


def test_overlap_slowdowns_and_sizes_out_of_range_are_refused() -> None:
    ((_, simulation, _),) = random_steps(1, 1, MODEL, dp=6, tp=1, sp=1, pp=1, **{**SHAPE, "overlap_gradients": 1})
    with pytest.raises(SpecError, match="beside compute"):
        training_ranks(simulation.lowered, simulation.graph, {"dp": 6, "tp": 1, "sp": 1})
    ((_, simulation, _),) = random_steps(1, 1, MODEL, dp=6, tp=1, sp=1, pp=1, **SHAPE)
    for slow in ({9: 2}, {0: 0}, {0: -1}, {0: 0.5}):
        with pytest.raises(SpecError, match="slower by"):
            training_ranks(simulation.lowered, simulation.graph, {"dp": 6, "tp": 1, "sp": 1}, slow)  # type: ignore[arg-type]
    with pytest.raises(LimitError, match="operations"):
        training_ranks(simulation.lowered, simulation.graph, {"dp": 10**6, "tp": 1, "sp": 1})
