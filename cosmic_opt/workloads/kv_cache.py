"""Weights and KV cache of a rank, and how many sequences fit beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from cosmic_opt.workloads.engine import Engine, NumberFormat
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_designs import FloatArray, ServingDesigns
from cosmic_opt.workloads.serving_split import ServedStage, heaviest_stages
from cosmic_opt.workloads.stage_load import first_layers_model


class Served(Protocol):
    """A model in the memory of a device: what the functions here read of it."""

    @property
    def model(self) -> LanguageModel:
        """The model's shape."""

    @property
    def engine(self) -> Engine:
        """The engine that places weights and cache."""

    @property
    def numbers(self) -> NumberFormat:
        """How weights and cache are stored."""

    @property
    def memory_bytes(self) -> float:
        """Memory of one device that the engine finds installed."""


def read_bytes_per_token(setup: Served, designs: ServingDesigns) -> FloatArray:
    """Return bytes one rank reads of one token of context in one layer.

    Grouped queries keep `kv_heads` of each: a rank holds its share, at least one head (Shazeer 2019, Ainslie 2023).
    Latent attention keeps one compressed vector for all heads, whole on every rank (DeepSeek-V2, section 2.1).
    """
    model, size = setup.model, setup.numbers.cache_bytes
    if model.latent is not None:
        return np.full_like(designs.tp, size * (model.latent.kv_rank + model.latent.rope_dim))
    heads = np.maximum(model.kv_heads / designs.tp, 1.0)
    return np.asarray(2 * size * heads * model.head_dim)


def cache_bytes_per_token(setup: Served, designs: ServingDesigns) -> FloatArray:
    """Return bytes of the cache one rank keeps per token of context: the layers of the longest stage."""
    return np.ceil(setup.model.layers / designs.pp) * read_bytes_per_token(setup, designs)


def sequence_tokens(setup: Served, tokens: ArrayLike) -> FloatArray:
    """Return tokens of cache a sequence of `tokens` occupies: half a page more, as its last page is half full."""
    return np.asarray(tokens, dtype=float) + (setup.engine.memory.block_tokens - 1) / 2


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes on one rank of a pipeline stage of each design.

    Attributes:
        weights_bytes: Weights, token table and head; the last two stay in 16 bits.
        cache_bytes: Cache of the tokens that are asked about, of the stage's layers.
        room_bytes: What the engine leaves for the cache; negative where weights and workspace do not fit.
    """

    weights_bytes: FloatArray
    cache_bytes: FloatArray
    room_bytes: FloatArray


def holdings(setup: Served, designs: ServingDesigns, tokens: ArrayLike) -> list[Holding]:
    """Return what a rank holds of each stage that may be the fullest, with a cache of `tokens` tokens in all."""
    found, per_layer = [], np.asarray(tokens, dtype=float) * read_bytes_per_token(setup, designs)
    for stage in heaviest_stages(setup.model, designs):
        weights = _stage_weight_bytes(setup, designs, stage)
        found.append(Holding(weights, np.asarray(stage.layers * per_layer), _room_bytes(setup, weights)))
    return found


def _stage_weight_bytes(setup: Served, designs: ServingDesigns, stage: ServedStage) -> FloatArray:
    model, first = setup.model, first_layers_model(setup.model)
    dense = (model.attention_parameters + model.dense_mlp_parameters) / designs.tp
    held = (stage.layers - stage.first_layers) * (dense + model.expert_parameters / (designs.tp * designs.ep))
    if first is not None:
        plain = (first.attention_parameters + first.dense_mlp_parameters) / designs.tp
        held = held + stage.first_layers * plain
    ends = stage.has_table + stage.has_head
    tables = (np.minimum(ends, 1.0) if model.tied_embeddings else ends) * model.head_parameters / designs.tp
    return np.asarray(setup.numbers.weight_bytes * held + 2 * tables)


def _room_bytes(setup: Served, weights: FloatArray) -> FloatArray:
    memory, installed = setup.engine.memory, setup.memory_bytes
    if memory.share_of_free:
        return np.asarray(memory.share * (installed - memory.workspace_bytes - weights))
    return np.asarray(memory.share * installed - memory.workspace_bytes - weights)


def weight_bytes(setup: Served, designs: ServingDesigns) -> FloatArray:
    """Return the most bytes of weights on any rank; token table and head stay in 16 bits."""
    return np.asarray(np.max([each.weights_bytes for each in holdings(setup, designs, 0)], axis=0))


def cache_capacity_bytes(setup: Served, designs: ServingDesigns) -> FloatArray:
    """Return the least bytes a rank has left for the cache; negative where the weights do not fit."""
    return _room_bytes(setup, weight_bytes(setup, designs))


def resident_sequences(setup: Served, designs: ServingDesigns, tokens: ArrayLike) -> FloatArray:
    """Return how many sequences of `tokens` tokens each fit in one replica's cache; not rounded, at least 0.

    The stage whose room is the least share of its own layers' cache decides.
    """
    fit = np.full_like(designs.tp, np.inf)
    for each in holdings(setup, designs, sequence_tokens(setup, tokens)):
        caches = each.cache_bytes > 0
        room = np.maximum(each.room_bytes, 0.0) / np.where(caches, each.cache_bytes, 1.0)
        fit = np.minimum(fit, np.where(caches | (each.room_bytes <= 0), room, np.inf))
    return np.asarray(fit * designs.ep)


def whole_sequences(setup: Served, designs: ServingDesigns, tokens: ArrayLike) -> FloatArray:
    """Return how many sequences of `tokens` tokens each one replica's cache holds, each whole in one group's cache."""
    return np.asarray(designs.ep * np.floor(resident_sequences(setup, designs, tokens) / designs.ep))


def held_tokens(setup: Served, requests: Requests) -> float:
    """Return the tokens of cache the engine counts for a sequence when it decides whether another one fits."""
    return requests.prompt + setup.engine.memory.output_share * requests.output
