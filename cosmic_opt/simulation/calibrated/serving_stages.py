"""What a pass of a served model is made of: all of its layers in turn, or the pipeline stage that sets the pace."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.workloads.serving_split import served_stage
from cosmic_opt.workloads.stage_load import first_layers_model


@dataclass(frozen=True, slots=True)
class Contents:
    """How much of a model is run, one entry per design.

    Attributes:
        layers: Layers, of which a mixture's `first_layers` have a dense MLP.
        heads: Times the logits are computed.
    """

    layers: FloatArray
    first_layers: FloatArray
    heads: FloatArray

    def times(self, count: FloatArray) -> Contents:
        """Return `count` times as much."""
        return Contents(count * self.layers, count * self.first_layers, count * self.heads)


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds by term of one layer, of one that a mixture begins with (or none), and of the logits."""

    layer: Terms
    first: Terms | None
    head_s: FloatArray

    def terms(self, contents: Contents) -> Terms:
        """Return seconds by term of so much of the model."""
        found = {name: (contents.layers - contents.first_layers) * each for name, each in self.layer.items()}
        for name, each in (self.first or {}).items():
            found[name] = found[name] + contents.first_layers * each
        return {**found, "head": contents.heads * self.head_s}

    def total_s(self, contents: Contents) -> FloatArray:
        """Return seconds of so much of the model."""
        return np.asarray(sum(self.terms(contents).values(), np.zeros_like(contents.layers)))


def first_layers_setup(setup: ServingSetup) -> ServingSetup | None:
    """Return the same server of the layers a mixture begins with, or None."""
    first = first_layers_model(setup.model)
    return None if first is None else replace(setup, model=first)


def whole_model(setup: ServingSetup, designs: ServingDesigns) -> Contents:
    """Return all layers and the head: what a token passes."""
    one, first = np.ones_like(designs.tp), first_layers_model(setup.model)
    return Contents(setup.model.layers * one, (first.layers if first else 0) * one, one)


def longest_stage(setup: ServingSetup, designs: ServingDesigns, parts: Parts) -> Contents:
    """Return what the slowest stage of a pipeline holds."""
    longest = whole_model(setup, designs).times(np.zeros_like(designs.pp))
    longest_s = np.full_like(designs.pp, -1.0)
    for index in range(int(np.max(designs.pp))):
        stage = served_stage(setup.model, designs, index)
        held = Contents(stage.layers, stage.first_layers, stage.has_head)
        time = parts.total_s(held)
        slower = (index < designs.pp) & (time > longest_s)
        longest = chosen(slower, held, longest)
        longest_s = np.where(slower, time, longest_s)
    return longest


def chosen(first: NDArray[np.bool_], one: Contents, other: Contents) -> Contents:
    """Return one contents or the other, design by design."""
    pairs = zip(_columns(one), _columns(other), strict=True)
    return Contents(*(np.where(first, each, instead) for each, instead in pairs))


def _columns(contents: Contents) -> tuple[FloatArray, FloatArray, FloatArray]:
    return contents.layers, contents.first_layers, contents.heads
