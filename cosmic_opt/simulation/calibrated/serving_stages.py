"""What a pass of a served model is made of: all of its layers in turn, or the pipeline stage that sets the pace."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
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


def first_layers_setup(setup: ServingSetup) -> ServingSetup | None:
    """Return the same server of the layers a mixture begins with, or None."""
    first = first_layers_model(setup.model)
    return None if first is None else replace(setup, model=first)


def whole_model(setup: ServingSetup, designs: ServingDesigns) -> Contents:
    """Return all layers and the head: what a token passes."""
    one, first = np.ones_like(designs.tp), first_layers_model(setup.model)
    return Contents(setup.model.layers * one, (first.layers if first else 0) * one, one)


def longest_stage(setup: ServingSetup, designs: ServingDesigns, parts: Parts) -> Contents:
    """Return what the slowest stage of a pipeline holds.

    Layers are dealt out in order, one more to each of the first stages where they do not divide (`get_pp_layers` of
    TensorRT-LLM); the last computes the logits, too.
    """
    every = whole_model(setup, designs)
    least, more = np.floor(every.layers / designs.pp), every.layers % designs.pp
    longest, longest_s = every.times(np.zeros_like(designs.pp)), np.full_like(designs.pp, -1.0)
    for stage in range(int(np.max(designs.pp))):
        begin = stage * least + np.minimum(stage, more)
        layers = least + (stage < more)
        first = np.clip(every.first_layers - begin, 0.0, layers)
        held = Contents(layers, first, (designs.pp == stage + 1).astype(float))
        time = sum(parts.terms(held).values(), np.zeros_like(designs.pp))
        slower = (stage < designs.pp) & (time > longest_s)
        pairs = zip(_columns(held), _columns(longest), strict=True)
        longest = Contents(*(np.where(slower, new, old) for new, old in pairs))
        longest_s = np.where(slower, time, longest_s)
    return longest


def _columns(contents: Contents) -> tuple[FloatArray, FloatArray, FloatArray]:
    return contents.layers, contents.first_layers, contents.heads
