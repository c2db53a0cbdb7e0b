"""Weights and KV cache of a rank, and how many sequences fit beside each other."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from cosmic_opt.workloads.engine import Engine, NumberFormat
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_designs import FloatArray, ServingDesigns


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
    """Return bytes of the cache one rank keeps per token of context: its stage's layers."""
    return np.ceil(setup.model.layers / designs.pp) * read_bytes_per_token(setup, designs)


def sequence_tokens(setup: Served, tokens: ArrayLike) -> FloatArray:
    """Return tokens of cache a sequence of `tokens` occupies: half a page more, as its last page is half full."""
    return np.asarray(tokens, dtype=float) + (setup.engine.memory.block_tokens - 1) / 2


def weight_bytes(setup: Served, designs: ServingDesigns) -> FloatArray:
    """Return bytes of weights on one rank of the first stage; token table and head stay in 16 bits."""
    model, experts = setup.model, setup.model.experts
    layers = np.ceil(model.layers / designs.pp)
    dense = (model.attention_parameters + model.dense_mlp_parameters) / designs.tp
    held = layers * (dense + model.expert_parameters / (designs.tp * designs.ep))
    if experts is not None and experts.dense_layers:
        first = sum(each.parameters for each in model.mlp_matmuls(experts.dense_ffn)) / designs.tp
        replaced = model.dense_mlp_parameters / designs.tp + model.expert_parameters / (designs.tp * designs.ep)
        held = held + np.minimum(experts.dense_layers, layers) * (first - replaced)
    tables = model.head_parameters / designs.tp * np.where((designs.pp > 1) | model.tied_embeddings, 1.0, 2.0)
    return np.asarray(setup.numbers.weight_bytes * held + 2 * tables)


def cache_capacity_bytes(setup: Served, designs: ServingDesigns) -> FloatArray:
    """Return bytes a rank has left for the cache; negative where the weights do not fit."""
    memory, weights = setup.engine.memory, weight_bytes(setup, designs)
    installed = setup.memory_bytes
    if memory.share_of_free:
        return np.asarray(memory.share * (installed - memory.workspace_bytes - weights))
    return np.asarray(memory.share * installed - memory.workspace_bytes - weights)


def resident_sequences(setup: Served, designs: ServingDesigns, tokens: ArrayLike) -> FloatArray:
    """Return how many sequences of `tokens` tokens each fit in one replica's cache; not rounded, at least 0."""
    each = sequence_tokens(setup, tokens) * cache_bytes_per_token(setup, designs)
    return np.asarray(np.maximum(cache_capacity_bytes(setup, designs) / each, 0.0) * designs.ep)


def held_tokens(setup: Served, requests: Requests) -> float:
    """Return the tokens of cache the engine counts for a sequence when it decides whether another one fits."""
    return requests.prompt + setup.engine.memory.output_share * requests.output
