"""Communication inside a micro-batch: tensor-parallel collectives, sends between stages, and what hiding it costs."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.groups import group_s, send_s
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import Pass
from cosmic_opt.simulation.calibrated.shapes import ACTIVATION_BYTES

COLLECTIVES_PER_PASS = 2
"""One after attention and one after the MLP (Shoeybi 2019, section 3)."""


def tensor_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return the exposed tensor-parallel collectives of one layer.

    Two all-reduces per pass; with sequence parallelism each is an all-gather and a reduce-scatter
    (Korthikanti 2022, section 4.2); the gather moves the product's own operands. The overlap mode says what share
    stays exposed.
    """
    size = ACTIVATION_BYTES * designs.tokens(setup) * setup.model.hidden
    one = np.ones_like(designs.tp)
    if setup.sequence_parallel:
        narrow = setup.recipe.gather_bytes / ACTIVATION_BYTES
        gather = group_s(setup, "all_gather", designs.tp, one, narrow * size)
        once = gather + group_s(setup, "reduce_scatter", designs.tp, one, size)
    else:
        once = group_s(setup, "all_reduce", designs.tp, one, size)
    exposed = setup.stack.overlap.tensor_exposed[setup.tensor_overlap] * COLLECTIVES_PER_PASS * once
    return Pass(exposed, exposed)


def contention_s(setup: TrainingSetup, hidden_s: FloatArray) -> FloatArray:
    """Return what compute loses while collectives hide behind it: their share of the SMs, as long as they run.

    Tensor-parallel exchanges beside products use copy engines in both modes (user buffers, asynchronous) and take none.
    """
    return setup.device.collective_share * hidden_s


def stage_exchange_s(setup: TrainingSetup, designs: TrainingDesigns) -> FloatArray:
    """Return seconds a stage spends per micro-batch on sends that do not overlap; 0 without a pipeline.

    One activation forward and one gradient backward per virtual stage; scattered over tp and gathered inside the node
    (Narayanan 2021, section 4.1). Interleaved schedules overlap them where the stack does.
    """
    size = ACTIVATION_BYTES * designs.tokens(setup) * setup.model.hidden
    inner = designs.tp * designs.cp * designs.dp
    if setup.stack.scattered_sends or setup.sequence_parallel:
        once = send_s(setup, inner, designs.gpus, size / designs.tp)
        if not setup.sequence_parallel:
            once = once + group_s(setup, "all_gather", designs.tp, np.ones_like(designs.tp), size)
    else:
        once = send_s(setup, inner, designs.gpus, size)
    exposed = np.where(designs.interleave > 1, setup.stack.overlap.pipeline_exposed, 1.0)
    return np.where(designs.pp > 1, 2 * once * designs.interleave * exposed, 0.0)
