"""The order of passes and when they run, on pipelines of plain numbers, whole and interleaved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.events.pipeline import order_of, run_pipeline
from cosmic_opt.workloads.graph import Pass, Piece, Stage, TrainingGraph
from tests.unit.simulation.interleaved_reference import Pieces

Rows = list[list[int]]


def graph(stages: int, pieces: int, batches: int) -> TrainingGraph:
    rows = [tuple(Piece(stage, piece, (), None, None) for piece in range(pieces)) for stage in range(stages)]
    return TrainingGraph(tuple(Stage(stage, own) for stage, own in enumerate(rows)), batches, False, False)


def run(made: TrainingGraph, forward: Rows, backward: Rows) -> tuple[np.ndarray, np.ndarray]:
    shape = (len(made.stages), 2, len(made.forward_passes))
    begins, ends = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    idle = np.zeros(len(made.stages), dtype=np.int64)
    ways = np.array(forward), np.array(backward)
    run_pipeline(order_of(made), *ways, ways[1][:, 0].copy(), idle, 0, begins, ends)
    return begins, ends


def slowly(made: TrainingGraph, forward: Rows, backward: Rows) -> dict[tuple[int, Pass], int]:
    """When every pass ends: each after the one before on its stage and after its message, until nothing moves."""
    ends: dict[tuple[int, Pass], int] = {}
    moved = True
    while moved:
        moved = False
        for stage in range(len(made.stages)):
            clock = 0
            for one in made.passes(stage):
                source = made.source(stage, one)
                if source is not None and source not in ends:
                    break
                ticks = (forward if one.forward else backward)[stage][one.piece]
                clock = max(clock, ends[source] if source is not None else 0) + ticks
                moved = moved or (stage, one) not in ends
                ends[stage, one] = clock
    return ends


def test_a_pipeline_of_equal_stages_idles_for_stages_less_one_passes() -> None:
    stages, batches = 4, 9
    begins, ends = run(graph(stages, 1, batches), [[3]] * stages, [[5]] * stages)
    assert ends[0, 0, -1] == (batches + stages - 1) * 8
    assert begins[0, 1, :4].tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize(
    ("stages", "pieces", "rounds"), [(2, 2, 1), (4, 2, 1), (4, 2, 3), (4, 3, 2), (8, 4, 4), (3, 5, 2)]
)
def test_interleaved_pieces_idle_for_stages_less_one_passes_of_a_piece(stages: int, pieces: int, rounds: int) -> None:
    """The bubble (p - 1) / v of Narayanan 2021, section 2.2.2."""
    batches = rounds * stages
    _, ends = run(graph(stages, pieces, batches), [[3] * pieces] * stages, [[5] * pieces] * stages)
    assert ends[0, 0, -1] == (batches * pieces + stages - 1) * 8


def test_the_first_stage_of_the_papers_figure_runs_this_order() -> None:
    """Figure 4 of Narayanan 2021: four stages of two pieces; ten passes forward, then one each way."""
    made = graph(4, 2, 8)
    order = [f"{'F' if one.forward else 'B'}{one.piece}.{one.batch}" for one in made.passes(0)]
    assert order[:10] == [
        f"F{piece}.{index}" for piece, index in [*((0, i) for i in range(4)), *((1, i) for i in range(4))]
    ] + ["F0.4", "F0.5"]
    assert order[10:16] == ["F0.6", "B1.0", "F0.7", "B1.1", "F1.4", "B1.2"]
    assert order[-4:] == ["B0.4", "B0.5", "B0.6", "B0.7"]
    assert [made.ahead(stage) for stage in range(4)] == [10, 8, 6, 4]


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[TrainingGraph, Rows, Rows]:
    stages, pieces, batches = draw(st.integers(2, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 13))
    ticks = st.lists(st.lists(st.integers(0, 9), min_size=pieces, max_size=pieces), min_size=stages, max_size=stages)
    return graph(stages, pieces, batches), draw(ticks), draw(ticks)


@given(pipelines())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_every_pass_runs_once_after_its_message_and_the_pass_before(made: tuple[TrainingGraph, Rows, Rows]) -> None:
    pipeline, *_ = made
    _, ends = run(*made)
    expected = slowly(*made)
    assert len(expected) == 2 * ends.shape[0] * ends.shape[2]
    for stage in range(len(pipeline.stages)):
        done = [0, 0]
        for one in pipeline.passes(stage):
            assert ends[stage, int(one.forward), done[one.forward]] == expected[stage, one]
            done[one.forward] += 1


@given(pipelines())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_interleaved_pipeline_is_faster_than_its_bounds(made: tuple[TrainingGraph, Rows, Rows]) -> None:
    """Any ticks of any piece, any number of micro-batches: the paths of the closed form are really there."""
    pipeline, forward, backward = made
    if pipeline.pieces == 1:
        return
    _, ends = run(*made)
    bounds = Pieces(forward, backward, pipeline.micro_batches)
    for stage in range(len(pipeline.stages)):
        longest, own = bounds.ends(stage)
        assert longest <= ends[0, 0, -1]
        assert own <= ends[stage, 0, -1]


@given(st.integers(2, 5), st.integers(2, 4), st.integers(1, 4), st.lists(st.integers(0, 40), min_size=5, max_size=5))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_where_only_the_ends_of_the_model_differ_a_little_a_bound_is_the_time(
    stages: int, pieces: int, rounds: int, more: list[int]
) -> None:
    """Equal layers, an embedding and a head of less than one of them, whole rounds."""
    layer, *ends_work = more
    forward = [[100 + layer] * pieces for _ in range(stages)]
    backward = [[200 + 2 * layer] * pieces for _ in range(stages)]
    forward[0][0] += ends_work[0] // 4
    backward[0][0] += ends_work[1] // 4
    forward[-1][-1] += ends_work[2]
    backward[-1][-1] += ends_work[3]
    _, ends = run(graph(stages, pieces, rounds * stages), forward, backward)
    bounds = Pieces(forward, backward, rounds * stages)
    assert ends[0, 0, -1] == max(bounds.ends(stage)[0] for stage in {0, stages - 2, stages - 1})
