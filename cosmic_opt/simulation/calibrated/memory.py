"""Memory of a step: the recompute that fits a device, and Korthikanti's published first-stage formulas exactly."""

from __future__ import annotations

import numpy as np

from cosmic_opt.simulation.calibrated.job import Recompute, TrainingDesigns, TrainingSetup
from cosmic_opt.workloads.dispatch import hides_dispatch
from cosmic_opt.workloads.footprint import footprint
from cosmic_opt.workloads.language_model import LanguageModel

STATE_BYTES = 18
"""Per parameter: 16-bit weight, fp32 gradient, fp32 copy and two moments (Narayanan 2021, section 3.5)."""

FILLED_SHARE = 0.94
"""Of the installed memory: what recipes fill. The rest is a margin against fragmentation; jobs planned to the last byte
would recompute less than the published ones did. No source: 0.931, GB of 10^9 over GB of 2^30, rounded after reading
steps of all folds. A data sheet's figure has that margin, and counts where no driver's is known."""


def implied_recompute(setup: TrainingSetup, designs: TrainingDesigns) -> Recompute:
    """Return the least recompute under which each design fits its device, or all of it where none does.

    First what is cheap to produce again is dropped; then so many layers run forward twice as memory demands, which
    is linear in their share. Operands count with 16 bits: a recipe's recompute is chosen once, and kept when its
    precision is narrowed. Where dispatch hides, as it cannot beside whole layers that run again, operators of so many
    layers do, but not their dispatch.
    """
    nothing, everything = np.zeros_like(designs.tp), np.ones_like(designs.tp)
    keep, cheap, full = (
        footprint(setup, designs.with_recompute(Recompute.of(layers, elementwise=again))).total_bytes
        for layers, again in ((nothing, 0), (nothing, 1), (everything, 1))
    )
    capacity = max(FILLED_SHARE * setup.device.installed_bytes, setup.device.memory_bytes)
    drop = (keep > capacity).astype(float)
    share = np.clip((cheap - capacity) / np.maximum(cheap - full, 1.0), 0.0, 1.0)
    share = np.where(drop > 0, share, 0.0)
    hides = hides_dispatch(setup.model, setup.stack, designs.with_recompute(Recompute.of(nothing)))
    layers, operators = np.where(hides, 0.0, share), np.where(hides, share, 0.0)
    return Recompute(layers, operators, drop, operators, operators, nothing)


def published_states_bytes(model: LanguageModel, tp: int, pp: int) -> float:
    """Return weights and optimizer of one stage by the published formula, embeddings left out.

    18 bytes x (12 h^2 + 13 h) L / (p t): Korthikanti 2022, section 4.1, and Narayanan 2021, section 3.5.
    """
    return STATE_BYTES * (12 * model.hidden**2 + 13 * model.hidden) * model.layers / (pp * tp)


def first_stage_states_bytes(model: LanguageModel, tp: int, pp: int) -> float:
    """Return the same with the token table the first stage really holds: + 18 V h / t."""
    return published_states_bytes(model, tp, pp) + STATE_BYTES * model.head_parameters / tp


def published_activation_bytes(
    model: LanguageModel,
    sequence: int,
    micro_batch: int,
    *,
    tp: int,
    pp: int,
    interleave: int,
    selective: bool,
    sequence_parallel: bool,
) -> float:
    """Return activations of the first stage (Korthikanti 2022, Table 2 and section 4.2.3).

    s b h (34 + 5 a s / h) / t per layer, without the term in a under selective recompute; 10 of the 34 stay whole
    without sequence parallelism. Times L / p layers and p (1 + (p - 1) / (p v)) micro-batches (p if v = 1).
    """
    scores = 0.0 if selective else 5 * model.heads * sequence / model.hidden
    whole = 10 / tp if sequence_parallel else 10
    per_layer = sequence * micro_batch * model.hidden * (whole + (24 + scores) / tp)
    return per_layer * model.layers / pp * _held(pp, interleave)


def published_full_recompute_bytes(
    model: LanguageModel,
    sequence: int,
    micro_batch: int,
    *,
    tp: int,
    pp: int,
    interleave: int,
    sequence_parallel: bool,
) -> float:
    """Return activations of the first stage where only the input of each layer is kept (Korthikanti 2022, Table 2).

    2 s b h per layer, split over t with sequence parallelism, times the layers and micro-batches of above.
    """
    per_layer = 2 * sequence * micro_batch * model.hidden / (tp if sequence_parallel else 1)
    return per_layer * model.layers / pp * _held(pp, interleave)


def _held(pp: int, interleave: int) -> float:
    """Return the micro-batches the first stage holds: p (1 + (p - 1) / (p v)), p if v = 1."""
    return pp * (1 + (pp - 1) / (pp * interleave)) if interleave > 1 else pp
