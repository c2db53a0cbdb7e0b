"""Pipeline schedules: uneven stages, fill and drain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.host import paced_s
from cosmic_opt.simulation.calibrated.job import FloatArray, TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.work import Work
from cosmic_opt.workloads.stage_load import end_layers, first_layers, first_layers_model, most_layers
from cosmic_opt.workloads.training_designs import SCHEDULES

ZERO_BUBBLE_SHARE = 1 / 3
"""Bubble of ZB-H1 over 1F1B's when forward and the two halves of backward take equal time (Qi 2023, Table 2)."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stage that sets the pace, in layers and ends, one entry per design.

    Attributes:
        layers: Layers of that stage; of them `first_layers` are such that a mixture of experts begins with.
        has_head: 1 where it computes the logits, those of multi-token prediction with its layers included;
            `has_embedding` likewise.
        exchange_s: What its messages add to a micro-batch, seconds.
        bubble_s: Fill and drain of the whole schedule, seconds.
        longest_s: One micro-batch on that stage, seconds.
    """

    layers: FloatArray
    first_layers: FloatArray
    has_head: FloatArray
    has_embedding: FloatArray
    exchange_s: FloatArray
    bubble_s: FloatArray
    longest_s: FloatArray


def schedule(setup: TrainingSetup, designs: TrainingDesigns, work: Work, sent_s: FloatArray) -> Stages:
    """Return the stage that sets the pace and the bubble: (sum of stages - longest) / interleave.

    `sent_s` are the seconds of a stage's messages in one micro-batch, waiting for them included.

    Narayanan 2021, section 2.2: m micro-batches take m times the longest stage plus one pass through the others. GPipe
    and 1F1B differ in memory, not in time; a zero-bubble schedule fills two thirds with weight gradients.
    """
    model, layer_s = setup.model, work.layer_s
    head_s, embedding_s = work.head.both_s + work.head_wait_s + work.mtp_s, work.embedding.both_s
    less_s = np.zeros_like(layer_s) if work.first is None else layer_s - work.first.layer_s
    full = most_layers(model.layers, designs)
    first, last = end_layers(model.layers, designs, model.mtp_layers)
    single, middle = designs.pp == 1, designs.pp > 2
    inner = np.where(less_s > 0, designs.pp - 2, 1.0)  # the later, the fewer layers of the first kind
    few, some, begin = (first_layers(model, designs, stage) for stage in (designs.pp - 1, inner, 0 * inner))
    sent_first, sent_inner, sent_last = (
        np.where(single, 0.0, _exchange_s(work, held, of_first, sent_s))
        for held, of_first in ((first, begin), (full, some), (last, few))
    )
    first_s = first * layer_s - begin * less_s + embedding_s + sent_first
    last_s = last * layer_s - few * less_s + head_s + np.where(single, embedding_s, 0.0) + sent_last
    inner_s = np.where(middle, full * layer_s - some * less_s + sent_inner, 0.0)
    before_s, inside = np.maximum(inner_s, first_s), inner_s >= first_s
    at_end = single | (last_s >= before_s)
    longest = np.where(at_end, last_s, before_s)
    every = first_layers_model(model)
    total = model.layers * layer_s - (every.layers if every else 0) * less_s
    total = total + head_s + embedding_s + sent_first + sent_last + np.maximum(designs.pp - 2, 0) * sent_inner
    share = np.where(designs.schedule == SCHEDULES.index("zero_bubble"), ZERO_BUBBLE_SHARE, 1.0)
    return Stages(
        layers=np.where(at_end, last, np.where(inside, full, first)),
        first_layers=np.where(at_end, few, np.where(inside, some, begin)),
        has_head=at_end.astype(float),
        has_embedding=(single | (~at_end & (first_s > inner_s))).astype(float),
        exchange_s=np.where(at_end, sent_last, np.where(inside, sent_inner, sent_first)),
        bubble_s=share * np.maximum(total - longest, 0.0) / designs.interleave,
        longest_s=longest,
    )


def _exchange_s(work: Work, layers: FloatArray, first: FloatArray, sent_s: FloatArray) -> FloatArray:
    """Return what messages add to a micro-batch of so many layers.

    A device that waits for its host anyway loses nothing to them, so they are paced together with the layers:
    host-bound steps of folds 0 and 1 take the same time for a layer with and without a pipeline.
    """
    device_s, launch_s = layers * work.device_s, layers * work.launch_s
    if work.first is not None:
        device_s = device_s - first * (work.device_s - work.first.device_s)
        launch_s = launch_s - first * (work.launch_s - work.first.launch_s)
    return paced_s(device_s + sent_s, launch_s) - paced_s(device_s, launch_s)
