"""Compiled: loops over rows. No result is shared between rows."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.analytical.layout import Link, Option, Payload, Slot, Status, Whole
from cosmic_opt.simulation.analytical.phases import option_vector
from cosmic_opt.simulation.analytical.step import TOO_LONG, compose
from cosmic_opt.simulation.analytical.structure import prepare_row
from cosmic_opt.simulation.analytical.tables import FloatArray, IntArray, PhaseTables, Rates

_WHOLE, _PAYLOAD, _LINK, _SLOT = int(Whole.COUNT), int(Payload.COUNT), int(Link.COUNT), int(Slot.COUNT)


@jit
def evaluate_rows(
    tables: PhaseTables,
    rates: Rates,
    dimensions: int,
    inputs: IntArray,
    step_ticks: IntArray,
    terms: IntArray,
    micro_batches: IntArray,
    statuses: IntArray,
) -> None:
    """Score every row of `inputs` [n, S + 4 D] into the four outputs.

    A row is its structural input, then for each dimension the four `Option` inputs.
    """
    whole = np.zeros(_WHOLE, dtype=np.int64)
    payload = np.zeros((dimensions, _PAYLOAD))
    links = np.zeros((dimensions, _LINK), dtype=np.int64)
    vectors = np.zeros((dimensions, _SLOT), dtype=np.int64)
    structural = inputs.shape[1] - dimensions * Option.COUNT
    for row in range(inputs.shape[0]):
        status = prepare_row(tables, rates, inputs[row, :structural], whole, payload, links)
        for dim in range(dimensions):
            if status == Status.OK:
                option = structural + dim * Option.COUNT
                status = option_vector(
                    tables, payload[dim], links[dim], inputs[row, option : option + Option.COUNT], vectors[dim]
                )
        if status == Status.OK:
            step_ticks[row] = compose(whole, vectors, terms[row])
            if step_ticks[row] == TOO_LONG:
                status = Status.TOO_LONG
        micro_batches[row] = whole[Whole.MICRO_BATCHES]
        statuses[row] = status


@jit
def prepare_rows(
    tables: PhaseTables,
    rates: Rates,
    inputs: IntArray,
    whole: IntArray,
    payload: FloatArray,
    links: IntArray,
) -> None:
    """Prepare every row of structural `inputs` [n, S] into arrays with a leading n."""
    for row in range(inputs.shape[0]):
        prepare_row(tables, rates, inputs[row], whole[row], payload[row], links[row])


@jit
def option_vectors(
    tables: PhaseTables, payload: FloatArray, links: IntArray, options: IntArray, slots: IntArray
) -> None:
    """Fill `slots` [n, K] with the vectors of `options` [n, 4] of one dimension of one prepared row."""
    for index in range(options.shape[0]):
        option_vector(tables, payload, links, options[index], slots[index])
