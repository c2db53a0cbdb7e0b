"""What the stages of a pipeline hold: layers, tables, and micro-batches in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.training_designs import SCHEDULES, Batch, FloatArray, TrainingDesigns


@dataclass(frozen=True, slots=True)
class StageLoad:
    """One stage of each design.

    Attributes:
        index: Its place in the pipeline, from 0.
        layers: Layers it holds.
        tables: Token tables and heads it holds, in units of one.
        in_flight: Micro-batches whose activations it keeps at once, in units of its layers.
        has_head: 1 where it computes logits.
    """

    index: FloatArray
    layers: FloatArray
    tables: FloatArray
    in_flight: FloatArray
    has_head: FloatArray


def most_layers(layers: int, designs: TrainingDesigns) -> FloatArray:
    """Return the layers of a full stage: every virtual stage gets equally many slots, rounded up."""
    return np.asarray(np.ceil(layers / (designs.pp * designs.interleave)) * designs.interleave)


def end_layers(layers: int, designs: TrainingDesigns) -> tuple[FloatArray, FloatArray]:
    """Return the layers of the first and of the last stage.

    Slots without a layer stand for the embedding and the loss, as in 126 = 128 - 2 (Llama Team 2024, section 3.3.2):
    the last stage has the larger half of them.
    """
    full = most_layers(layers, designs)
    empty = full * designs.pp - layers
    last = np.minimum(np.ceil(empty / 2), full)
    return np.maximum(full - (empty - last), 0.0), full - last


def in_flight(job: Batch, designs: TrainingDesigns, stage: FloatArray | int = 0) -> FloatArray:
    """Return micro-batches whose activations a stage holds at once, in units of its layers.

    1F1B keeps pp at the first stage, one less at each later one; an interleaved schedule pp (1 + (pp - 1) / (pp v)),
    two virtual stages less at each later one (Korthikanti 2022, section 4.2.3; Narayanan 2021, section 2.2); GPipe
    all; a zero-bubble schedule (ZB-H1) as many as 1F1B (Qi 2023, Table 2).
    """
    count, pieces = designs.micro_batches(job), designs.interleave
    plain = designs.pp - stage
    interleaved = designs.pp + (designs.pp - 1 - 2 * stage) / pieces
    kept = np.where(pieces > 1, interleaved, plain)
    return np.asarray(np.minimum(count, np.where(designs.schedule == SCHEDULES.index("gpipe"), count, kept)))


def loads(model: LanguageModel, job: Batch, designs: TrainingDesigns) -> tuple[StageLoad, ...]:
    """Return the first stage, the second and the last: one of them needs the most memory.

    Stages in between hold the second's layers and fewer micro-batches.
    """
    full = most_layers(model.layers, designs)
    first, last = end_layers(model.layers, designs)
    zeros, end = np.zeros_like(designs.tp), designs.pp - 1
    single = (designs.pp == 1).astype(float)
    second = np.minimum(1.0, end)
    is_end = (second == end).astype(float)
    return (
        StageLoad(
            index=zeros,
            layers=np.where(single > 0, full, first),
            tables=1 + single * (0 if model.tied_embeddings else 1),
            in_flight=in_flight(job, designs),
            has_head=single,
        ),
        StageLoad(
            index=second,
            layers=np.where(is_end > 0, last, full),
            tables=is_end,
            in_flight=in_flight(job, designs, second),
            has_head=is_end,
        ),
        StageLoad(index=end, layers=last, tables=zeros + 1, in_flight=in_flight(job, designs, end), has_head=zeros + 1),
    )
