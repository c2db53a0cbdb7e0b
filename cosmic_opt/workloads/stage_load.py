"""What the stages of a pipeline hold: layers, tables, and micro-batches in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.training_designs import SCHEDULES, Batch, FloatArray, TrainingDesigns


@dataclass(frozen=True, slots=True)
class StageLoad:
    """One stage of each design.

    Attributes:
        index: Its place in the pipeline, from 0.
        layers: Layers it holds; of them `first_layers` are such that a mixture of experts begins with.
        tables: Token tables and heads it holds, in units of one.
        in_flight: Micro-batches whose activations it keeps at once, in units of its layers.
        has_head: 1 where it computes logits.
    """

    index: FloatArray
    layers: FloatArray
    first_layers: FloatArray
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


def first_layers_model(model: LanguageModel) -> LanguageModel | None:
    """Return a model of the layers a mixture begins with, whose MLP is dense (DeepSeek-V3, section 4.2), or None."""
    experts = model.experts
    if experts is None or experts.dense_layers == 0:
        return None
    return replace(model, layers=min(experts.dense_layers, model.layers), experts=None, ffn=experts.dense_ffn)


def first_layers(model: LanguageModel, designs: TrainingDesigns, stage: FloatArray) -> FloatArray:
    """Return how many of the layers a mixture begins with lie on a stage.

    Slots are dealt out virtual stage after virtual stage (Narayanan 2021, section 2.2), and the first may be empty.
    """
    first = first_layers_model(model)
    held = np.zeros_like(designs.tp)
    if first is None:
        return held
    slots = most_layers(model.layers, designs) / designs.interleave
    begin = slots * designs.interleave - end_layers(model.layers, designs)[0]
    end = begin + first.layers
    for turn in range(int(np.max(np.ceil(end / (slots * designs.pp))))):
        start = (turn * designs.pp + stage) * slots
        inside = np.minimum(start + slots, end) - np.maximum(start, begin)
        held = held + np.where(turn < designs.interleave, np.maximum(inside, 0.0), 0.0)
    return held


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

    Stages in between hold the second's layers and fewer micro-batches. Of a mixture that begins with dense layers, all
    stages up to the first without any are returned.
    """
    end, first = designs.pp - 1, first_layers_model(model)
    most = 1
    if first is not None:
        slots = most_layers(model.layers, designs) / designs.interleave
        begin = most_layers(model.layers, designs) - end_layers(model.layers, designs)[0]
        most = max(1, int(np.max(np.minimum(np.ceil((begin + first.layers) / slots), end))))
    inner = (_load(model, job, designs, np.minimum(float(index), end)) for index in range(1, most + 1))
    return (_load(model, job, designs, np.zeros_like(end)), *inner, _load(model, job, designs, end))


def _load(model: LanguageModel, job: Batch, designs: TrainingDesigns, index: FloatArray) -> StageLoad:
    full = most_layers(model.layers, designs)
    first, last = end_layers(model.layers, designs)
    begins, ends = index == 0, index == designs.pp - 1
    single = begins & ends
    both = 1.0 if model.tied_embeddings else 2.0
    return StageLoad(
        index=index,
        layers=np.where(single, full, np.where(begins, first, np.where(ends, last, full))),
        first_layers=first_layers(model, designs, index),
        tables=np.where(single, both, (begins | ends).astype(float)),
        in_flight=in_flight(job, designs, index),
        has_head=ends.astype(float),
    )
