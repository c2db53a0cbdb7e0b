"""Multi-token prediction: what joins a hidden state and the embedding of the next token in front of one more layer."""

from __future__ import annotations

from cosmic_opt.simulation.calibrated.communication import COLLECTIVES_PER_PASS, tensor_pass
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.layer import BACKWARD_TRAFFIC, Pass, cast_pass, matmul_pass
from cosmic_opt.system.hardware import bytes_s

JOINING_MOVED_BYTES = 20
"""Per token and element of its hidden state, forward: norms of the state, of the embedding and of the output (4 each),
and both put side by side (8)."""


def joining_pass(setup: TrainingSetup, designs: TrainingDesigns) -> Pass:
    """Return norms, joining and the map from 2 h to h of one layer of multi-token prediction (DeepSeek-V3, eq. 21).

    Column parallel, between the same collectives as a block (MultiTokenPredictionLayer in Megatron-LM); norms divide by
    tp only with sequence parallelism (Korthikanti 2022).
    """
    maps = (setup.model.joining_matmul,)
    moved = JOINING_MOVED_BYTES * designs.tokens(setup) * setup.model.hidden
    if setup.sequence_parallel:
        moved = moved / designs.tp
    forward = bytes_s(setup.device, moved, setup.stack.elementwise_fraction)
    block = tensor_pass(setup, designs).times(1 / COLLECTIVES_PER_PASS)
    products = matmul_pass(setup, designs, maps) + cast_pass(setup, designs, maps)
    return products + Pass(forward, BACKWARD_TRAFFIC * forward) + block
