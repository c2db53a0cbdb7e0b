"""What the stages of a pipeline hold: layers, tables, and micro-batches in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.training_designs import SCHEDULES, Batch, FloatArray, TrainingDesigns


@dataclass(frozen=True, slots=True)
class StageLoad:
    """One stage of each design.

    Attributes:
        index: Its place in the pipeline, from 0.
        layers: Layers it holds; of them `first_layers` are such that a mixture of experts begins with.
        mtp_layers: Layers of multi-token prediction it holds: those of the model, on the last stage.
        tables: Token tables and heads it holds, in units of one.
        in_flight: Micro-batches whose activations it keeps at once, in units of its layers.
        has_head: 1 where it computes logits.
    """

    index: FloatArray
    layers: FloatArray
    first_layers: FloatArray
    mtp_layers: FloatArray
    tables: FloatArray
    in_flight: FloatArray
    has_head: FloatArray


def most_layers(layers: int, designs: TrainingDesigns) -> FloatArray:
    """Return the layers of a full stage: every virtual stage gets equally many slots, rounded up."""
    return np.asarray(np.ceil(layers / (designs.pp * designs.interleave)) * designs.interleave)


def end_layers(layers: int, designs: TrainingDesigns, mtp_layers: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return the layers of the first and of the last stage; both are all of them where there is one stage."""
    ends = (np.zeros_like(designs.pp), designs.pp - 1)
    first, last = (stage_layers(layers, designs, stage, mtp_layers) for stage in ends)
    return first, last


def stage_layers(layers: int, designs: TrainingDesigns, stage: FloatArray, mtp_layers: int = 0) -> FloatArray:
    """Return the layers of a stage, counted from 0, those of multi-token prediction aside.

    Slots without a layer stand for the embedding and the loss, as in 126 = 128 - 2 (Llama Team 2024, section 3.3.2):
    they are the first and the last slots of the model, the larger half at the end. Of a model with `mtp_layers` up to
    two more than those are at the end, in one virtual stage: 61 = 64 - 3 (DeepSeek-V3's layouts in
    NVIDIA-NeMo/Megatron-Bridge).
    """
    begin = _first_slot(layers, designs, mtp_layers)
    return _slots_before(layers, designs, stage, begin + layers) - _slots_before(layers, designs, stage, begin)


def _first_slot(layers: int, designs: TrainingDesigns, mtp_layers: int) -> FloatArray:
    """Return the slots in front of the first layer."""
    most = most_layers(layers, designs)
    empty = most * designs.pp - layers
    at_end = np.ceil(empty / 2)
    if mtp_layers:
        at_end = np.maximum(at_end, np.minimum(empty, np.minimum(most / designs.interleave, mtp_layers + 2)))
    return np.asarray(empty - at_end)


def _slots_before(layers: int, designs: TrainingDesigns, stage: FloatArray, end: FloatArray) -> FloatArray:
    """Return how many of the first `end` slots lie on a stage.

    Slots are dealt out virtual stage after virtual stage (Narayanan 2021, section 2.2).
    """
    each = most_layers(layers, designs) / designs.interleave
    turns, rest = np.divmod(end, each * designs.pp)
    return np.asarray(turns * each + np.clip(rest - stage * each, 0.0, each))


def first_layers_model(model: LanguageModel) -> LanguageModel | None:
    """Return a model of the layers a mixture begins with, whose MLP is dense (DeepSeek-V3, section 4.2), or None."""
    experts = model.experts
    if experts is None or experts.dense_layers == 0:
        return None
    return replace(model, layers=min(experts.dense_layers, model.layers), experts=None, ffn=experts.dense_ffn)


def first_layers(model: LanguageModel, designs: TrainingDesigns, stage: FloatArray) -> FloatArray:
    """Return how many of the layers a mixture begins with lie on a stage."""
    first = first_layers_model(model)
    if first is None:
        return np.zeros_like(designs.tp)
    begin = _first_slot(model.layers, designs, model.mtp_layers)
    end = _slots_before(model.layers, designs, stage, begin + first.layers)
    return end - _slots_before(model.layers, designs, stage, begin)


def copied_tables(model: LanguageModel, designs: TrainingDesigns) -> FloatArray:
    """Return the token tables a last stage holds besides its head, to embed the tokens that it predicts from.

    One where a pipeline keeps the first table elsewhere, unless the head itself is that table.
    """
    copied = model.mtp_layers > 0 and not model.tied_embeddings
    return (designs.pp > 1).astype(float) if copied else np.zeros_like(designs.pp)


def in_flight(
    job: Batch, designs: TrainingDesigns, stage: FloatArray | int = 0, early: NDArray[np.bool_] | bool = False
) -> FloatArray:
    """Return micro-batches whose activations a stage holds at once, in units of its layers.

    1F1B keeps pp at the first stage, one less at each later one; an interleaved schedule pp (1 + (pp - 1) / (pp v)),
    two virtual stages less at each later one (Korthikanti 2022, section 4.2.3; Narayanan 2021, section 2.2); GPipe
    all; a zero-bubble schedule (ZB-H1) as many as 1F1B (Qi 2023, Table 2). One more virtual stage runs `early` where
    experts' traffic is to hide, so that every forward pass has a backward pass of another micro-batch beside it
    (Megatron-Core, pipeline_parallel/schedules.py).
    """
    count, pieces = designs.micro_batches(job), designs.interleave
    plain = designs.pp - stage
    interleaved = designs.pp + (designs.pp - 1 - 2 * stage + early) / pieces
    kept = np.where(pieces > 1, interleaved, plain)
    return np.asarray(np.minimum(count, np.where(designs.schedule == SCHEDULES.index("gpipe"), count, kept)))


def lighter_stages(model: LanguageModel, designs: TrainingDesigns) -> FloatArray:
    """Return how many stages come before the first full one."""
    first = first_layers_model(model)
    slots = most_layers(model.layers, designs) / designs.interleave
    lighter = _first_slot(model.layers, designs, model.mtp_layers) + (first.layers if first else 0)
    return np.asarray(np.minimum(np.ceil(lighter / slots), designs.pp - 1))


def loads(
    model: LanguageModel, job: Batch, designs: TrainingDesigns, early: NDArray[np.bool_] | bool = False
) -> tuple[StageLoad, ...]:
    """Return the first stages, up to a full one, and the last: one of them needs the most memory.

    The second is full, unless slots before the first layer or the dense layers that a mixture begins with reach it.
    Those in between hold no more layers than the full one, and fewer micro-batches; `early` as in `in_flight`.
    """
    end, most = designs.pp - 1, int(np.max(lighter_stages(model, designs), initial=1.0))
    places = (np.zeros_like(end), *(np.minimum(float(index), end) for index in range(1, most + 1)), end)
    return tuple(_load(model, job, designs, place, early) for place in places)


def _load(
    model: LanguageModel, job: Batch, designs: TrainingDesigns, index: FloatArray, early: NDArray[np.bool_] | bool
) -> StageLoad:
    begins, ends = index == 0, index == designs.pp - 1
    both = 1.0 if model.tied_embeddings else 2.0
    return StageLoad(
        index=index,
        layers=stage_layers(model.layers, designs, index, model.mtp_layers),
        first_layers=first_layers(model, designs, index),
        mtp_layers=model.mtp_layers * ends.astype(float),
        tables=np.where(begins & ends, both, (begins | ends).astype(float)) + copied_tables(model, designs) * ends,
        in_flight=in_flight(job, designs, index, early),
        has_head=ends.astype(float),
    )
