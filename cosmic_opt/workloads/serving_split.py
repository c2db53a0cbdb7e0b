"""How an engine deals a served model out to the stages of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.serving_designs import FloatArray, ServingDesigns
from cosmic_opt.workloads.stage_load import first_layers_model


@dataclass(frozen=True, slots=True)
class ServedStage:
    """One stage of each design.

    Attributes:
        layers: Layers it holds; of them `first_layers` are such that a mixture of experts begins with.
        has_table: 1 where it looks tokens up, the first stage.
        has_head: 1 where it computes logits, the last stage.
    """

    layers: FloatArray
    first_layers: FloatArray
    has_table: FloatArray
    has_head: FloatArray


def served_stage(model: LanguageModel, designs: ServingDesigns, index: ArrayLike) -> ServedStage:
    """Return a stage, counted from 0; one beyond a design's last stage holds nothing of the model's middle.

    Layers are dealt out in order, one more to each of the first stages where they do not divide (`get_pp_layers` of
    TensorRT-LLM).
    """
    stage, first = np.asarray(index, dtype=float), first_layers_model(model)
    least, more = np.floor(model.layers / designs.pp), model.layers % designs.pp
    begin, layers = stage * least + np.minimum(stage, more), least + (stage < more)
    return ServedStage(
        layers=layers,
        first_layers=np.clip((first.layers if first else 0) - begin, 0.0, layers),
        has_table=np.broadcast_to(stage == 0, layers.shape).astype(float),
        has_head=(stage == designs.pp - 1).astype(float),
    )


def heaviest_stages(model: LanguageModel, designs: ServingDesigns) -> list[ServedStage]:
    """Return the stages of which one holds most, whatever its layers weigh: of most models the first and the last.

    Of a mixture that begins with dense layers, all that may hold one, and the next: later ones have no more layers.
    """
    first, end = first_layers_model(model), designs.pp - 1
    most = min(first.layers if first else 0, int(np.max(end, initial=0.0)))
    return [served_stage(model, designs, np.minimum(index, end)) for index in (*range(most + 1), np.inf)]
