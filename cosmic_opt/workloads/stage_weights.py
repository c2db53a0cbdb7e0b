"""Weights of the pipeline stages that have most to update, cast and exchange once a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.workloads.footprint import joining_parameters, layer_parameters, table_parameters
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stage_load import copied_tables, end_layers, first_layers, first_layers_model, most_layers
from cosmic_opt.workloads.training_designs import FloatArray, TrainingDesigns


@dataclass(frozen=True, slots=True)
class StageWeights:
    """The weights of one stage on one rank: of its layers, split over tp; of routed experts; of its tables."""

    layers: FloatArray
    experts: FloatArray
    tables: FloatArray

    @property
    def dense(self) -> FloatArray:
        """What the ranks of a data-parallel group share: all but the experts."""
        return self.layers + self.tables


def heavy_stages(model: LanguageModel, designs: TrainingDesigns) -> tuple[StageWeights, ...]:
    """Return the stages one of which has most weights, each with its table or, if full, with one.

    The fullest; of a mixture that begins with dense layers it is the last but one, or the last of two: it has most
    experts. And the last, where it has layers of multi-token prediction.
    """
    layers, few = most_layers(model.layers, designs), np.zeros_like(designs.tp)
    last, tables = end_layers(model.layers, designs, model.mtp_layers)[1], table_parameters(model, designs)
    if first_layers_model(model) is not None:
        middle = designs.pp > 2
        few = first_layers(model, designs, designs.pp - np.where(middle, 2.0, 1.0))
        layers = np.where(middle, layers, last)
    inner = _weights(model, designs, layers, few, tables)
    if not model.mtp_layers:
        return (inner,)
    few = first_layers(model, designs, designs.pp - 1)
    tables = tables + copied_tables(model, designs) * model.head_parameters / designs.tp
    end = _weights(model, designs, last + model.mtp_layers, few, tables)
    joining = model.mtp_layers * joining_parameters(model, designs)
    return inner, StageWeights(end.layers + joining, end.experts, end.tables)


def _weights(
    model: LanguageModel, designs: TrainingDesigns, layers: FloatArray, few: FloatArray, tables: FloatArray
) -> StageWeights:
    """Return the weights of so many layers, `few` of them such that a mixture begins with."""
    dense, expert = layer_parameters(model, designs)
    first = first_layers_model(model)
    own = few * layer_parameters(first, designs)[0] if first is not None else 0.0
    return StageWeights((layers - few) * dense + own, (layers - few) * expert, tables)
