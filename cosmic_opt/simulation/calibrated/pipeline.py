"""Pipeline schedules: uneven stages, fill and drain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.work import Work
from cosmic_opt.workloads.stage_load import end_layers, most_layers
from cosmic_opt.workloads.training_designs import SCHEDULES

ZERO_BUBBLE_SHARE = 1 / 3
"""Bubble of ZB-H1 over 1F1B's when forward and the two halves of backward take equal time (Qi 2023, Table 2)."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stage that sets the pace, in layers and ends, one entry per design.

    Attributes:
        layers: Layers of that stage.
        has_head: 1 where it computes the logits; `has_embedding` likewise.
        bubble_s: Fill and drain of the whole schedule, seconds.
        longest_s: One micro-batch on that stage, seconds.
    """

    layers: FloatArray
    has_head: FloatArray
    has_embedding: FloatArray
    bubble_s: FloatArray
    longest_s: FloatArray


def schedule(setup: TrainingSetup, designs: TrainingDesigns, work: Work, exchange_s: FloatArray) -> Stages:
    """Return the stage that sets the pace and the bubble: (sum of stages - longest) / interleave.

    Narayanan 2021, section 2.2: m micro-batches take m times the longest stage plus one pass through the others. GPipe
    and 1F1B differ in memory, not in time; a zero-bubble schedule fills two thirds with weight gradients.
    """
    layers, layer_s = setup.model.layers, work.layer_s
    head_s, embedding_s = work.head.both_s + work.head_wait_s, work.embedding.both_s
    full = most_layers(layers, designs)
    first, last = end_layers(layers, designs)
    single, middle = designs.pp == 1, designs.pp > 2
    first_s = first * layer_s + embedding_s
    last_s = last * layer_s + head_s + np.where(single, embedding_s, 0.0)
    inner_s = np.where(middle, full * layer_s, 0.0)
    before_s, before = np.maximum(inner_s, first_s), np.where(inner_s >= first_s, full, first)
    at_end = single | (last_s >= before_s)
    longest = np.where(at_end, last_s, before_s) + exchange_s
    total = layers * layer_s + head_s + embedding_s + designs.pp * exchange_s
    share = np.where(designs.schedule == SCHEDULES.index("zero_bubble"), ZERO_BUBBLE_SHARE, 1.0)
    return Stages(
        layers=np.where(at_end, last, before),
        has_head=at_end.astype(float),
        has_embedding=(single | (~at_end & (first_s > inner_s))).astype(float),
        bubble_s=share * np.maximum(total - longest, 0.0) / designs.interleave,
        longest_s=longest,
    )
