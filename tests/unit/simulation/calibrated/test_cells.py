"""Rows that are equal are computed once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.simulation.calibrated import cells
from cosmic_opt.simulation.calibrated.cells import distinct_cells, distinct_rows
from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns

FEW = st.sampled_from([0.0, 0.25, 1.0, 7.0, 5000.0, 2.0**40])


def test_cells_are_the_distinct_layers() -> None:
    designs = TrainingDesigns.of(dp=[1, 2, 4, 8], tp=[2, 2, 4, 2], recompute=Recompute.of([0.5, 0.5, 0.5, 0.25]))
    own, index = distinct_cells(designs)
    assert len(own.tp) == 3
    assert (own.tp[index] == designs.tp).all()
    assert (own.recompute.layers[index] == designs.recompute.layers).all()
    assert (own.dp == 1).all()


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(FEW, FEW, FEW), min_size=1, max_size=40), st.sampled_from([1, 1 << 20]))
def test_rows_are_those_of_a_sort_of_whole_rows(rows: list[tuple[float, ...]], most: int) -> None:
    table = np.array(rows)
    values, first, index = np.unique(table, axis=0, return_index=True, return_inverse=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "MOST_CODES", most)  # by sorting, and by place
        own_first, own_index = distinct_rows(table.T)
    assert own_first.tolist() == first.tolist()
    assert own_index.tolist() == index.reshape(-1).tolist()
    assert (table[own_first] == values).all()


def test_more_combinations_than_an_integer_counts_are_told_apart() -> None:
    """Six columns 4,096 apart have 2^72 combinations: the two rows differ in the first column only."""
    columns = [np.array([0, 2048, 4095]), *(np.array([0, 0, 4095]) for _ in range(5))]
    first, index = distinct_rows(columns)
    assert (first.tolist(), index.tolist()) == ([0, 1, 2], [0, 1, 2])


def test_no_rows_have_none_distinct() -> None:
    first, index = distinct_rows([np.zeros(0), np.zeros(0, dtype=np.int64)])
    assert (len(first), len(index)) == (0, 0)
