"""Structural quantities of a served model: what a rule such as `kv_cache_per_npu <= cache_room_per_npu` refers to.

A model's knobs are those of one server (`tp`), or of two pools, each knob behind its pool's name (`prefill_tp`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, Values
from cosmic_opt.units import Unit
from cosmic_opt.workloads.engine import Engine, NumberFormat
from cosmic_opt.workloads.kv_cache import held_tokens, holdings, sequence_tokens, whole_sequences
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_designs import FloatArray, ServingDesigns

KNOBS = ("dp", "tp", "pp", "ep", "batch")
"""Every knob of a pool; 1 where neither a column nor the instance's data give it."""
POOLS = ("prefill", "decode")
MOST_BYTES = 2.0**59


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model in the memory of a device, and what is asked of it; see `workloads.kv_cache.Served`."""

    model: LanguageModel
    engine: Engine
    numbers: NumberFormat
    memory_bytes: float
    requests: Requests


@dataclass(frozen=True, slots=True)
class ServingMemory:
    """Whole bytes of the rank with the least headroom, an entry per design: the one that decides what fits.

    Attributes:
        weights_bytes: Weights, token table and head.
        kv_cache_bytes: Cache of as many sequences as the batch holds, as the engine's admission counts it: prompts and
            its `output_share` of the answers (vLLM 80 %, all of them where answers are reserved), last pages half used.
        workspace_bytes: What the engine sets aside for activations, graphs and buffers.
        room_bytes: What the engine leaves for the cache; negative where weights and workspace do not fit.
    """

    weights_bytes: IntArray
    kv_cache_bytes: IntArray
    workspace_bytes: IntArray
    room_bytes: IntArray

    @property
    def total_bytes(self) -> IntArray:
        """Weights, cache and workspace."""
        return self.weights_bytes + self.kv_cache_bytes + self.workspace_bytes


def pools_of(names: Collection[str]) -> tuple[str, ...]:
    """Return the pools whose knobs a model has: none is named ("") where one server does both."""
    apart = any(f"{pool}_{knob}" in names for pool in POOLS for knob in KNOBS)
    return POOLS if apart else ("",)


def knob_name(pool: str, knob: str) -> str:
    """Return what a knob of a pool is called."""
    return f"{pool}_{knob}" if pool else knob


def designs_of_pool(values: Mapping[str, Values], pool: str) -> ServingDesigns:
    """Return the designs of a pool; a knob without values is 1.

    The knob `batch` counts the sequences of one ep group, as engines do; a replica's designs count those of all.
    """
    one = np.ones(1, dtype=np.int64)
    knobs = {knob: np.asarray(values.get(knob_name(pool, knob), one)) for knob in KNOBS}
    return ServingDesigns.of(**knobs | {"batch": knobs["batch"] * knobs["ep"]})


def serving_memory(served: ServedModel, designs: ServingDesigns, pool: str = "") -> ServingMemory:
    """Return the footprint of one rank; a prefill pool holds prompts only, the others what admission counts.

    A rank with the most sequences, ceil(batch / ep), of the pipeline stage that leaves least of its room.

    Raises:
        LimitError: a part is beyond 2^59 bytes.
    """
    tokens = served.requests.prompt if pool == POOLS[0] else held_tokens(served, served.requests)
    found = holdings(served, designs, designs.sequences * sequence_tokens(served, tokens))
    weights, cache, room = (
        np.stack([_whole(part) for part in parts])
        for parts in (
            [each.weights_bytes for each in found],
            [each.cache_bytes for each in found],
            [np.floor(each.room_bytes) for each in found],
        )
    )
    fullest = np.argmin(room - cache, axis=0)[np.newaxis]
    weights, cache, room = (np.take_along_axis(each, fullest, axis=0)[0] for each in (weights, cache, room))
    workspace = np.full_like(designs.tp, served.engine.memory.workspace_bytes)
    return ServingMemory(weights, cache, _whole(workspace), room)


def _whole(amount: FloatArray) -> IntArray:
    if np.any(np.abs(amount) >= MOST_BYTES):
        raise LimitError("a design needs more bytes than are counted here (2^59 in one part)", hint="check the job")
    return np.ceil(amount).astype(np.int64)


def serving_quantities(
    served: ServedModel, data: Mapping[str, int | str], columns: Collection[str]
) -> dict[str, Quantity]:
    """Return the quantities of a model with these columns; a knob that is no column has the value in `data`, or 1."""
    found: dict[str, Quantity] = {}
    pools = pools_of({*columns, *data})
    for pool in pools:
        for quantity in _pool_quantities(served, pool, data, columns):
            found[quantity.name] = quantity
    terms = tuple(term for pool in pools for term in found[knob_name(pool, "npus_used")].terms)
    found["npus_used"] = Quantity("npus_used", Unit.NONE, terms, "NPUs of all replicas")
    return found


def holds_a_sequence(served: ServedModel, data: Mapping[str, int | str], columns: Collection[str]) -> QuantityTerm:
    """Return 1 where a replica that writes answers admits a sequence beside its weights, else 0.

    Whatever the rules say, nothing runs without. Of two pools, the one that decodes decides.
    """
    pool = pools_of({*columns, *data})[-1]
    knobs = [knob_name(pool, knob) for knob in ("tp", "pp", "ep")]
    fixed: dict[str, Values] = {name: np.array([int(data.get(name, 1))]) for name in knobs if name not in columns}

    def evaluate(values: Mapping[str, Values]) -> IntArray:
        designs = designs_of_pool({**fixed, **values}, pool)
        return np.asarray(whole_sequences(served, designs, held_tokens(served, served.requests)) >= 1, dtype=np.int64)

    return QuantityTerm(tuple(name for name in knobs if name in columns), evaluate)


def _pool_quantities(
    served: ServedModel, pool: str, data: Mapping[str, int | str], columns: Collection[str]
) -> list[Quantity]:
    knobs = [knob_name(pool, knob) for knob in KNOBS]
    fixed: dict[str, Values] = {name: np.array([int(data.get(name, 1))]) for name in knobs if name not in columns}

    def term(names: Collection[str], amount: Callable[[ServingDesigns], IntArray]) -> QuantityTerm:
        own = tuple(knob_name(pool, name) for name in names if knob_name(pool, name) in columns)

        def evaluate(values: Mapping[str, Values]) -> IntArray:
            return amount(designs_of_pool({**fixed, **values}, pool))

        return QuantityTerm(own, evaluate)

    def memory(designs: ServingDesigns) -> ServingMemory:
        return serving_memory(served, designs, pool)

    def quantity(name: str, unit: Unit, what: str, *terms: QuantityTerm) -> Quantity:
        return Quantity(knob_name(pool, name), unit, terms, f"{what}, {pool} pool" if pool else what)

    knobs_of_memory = ("tp", "pp", "ep", "batch")  # the batch decides, too, which stage is the fullest
    weights = term(knobs_of_memory, lambda designs: memory(designs).weights_bytes)
    cache = term(knobs_of_memory, lambda designs: memory(designs).kv_cache_bytes)
    workspace = term((), lambda designs: memory(designs).workspace_bytes)
    room = term(knobs_of_memory, lambda designs: memory(designs).room_bytes)
    taken = term(knobs_of_memory, lambda designs: -memory(designs).kv_cache_bytes)
    gpus = term(("dp", "tp", "pp", "ep"), lambda designs: designs.gpus.astype(np.int64))
    held = "the prompts" if pool == POOLS[0] else f"prompts and {served.engine.memory.output_share:.0%} of the answers"
    cached = f"cache of a full batch on the fullest NPU as admission counts it: {held}"
    return [
        quantity("weights_per_npu", Unit.BYTES, "weights of the fullest NPU", weights),
        quantity("kv_cache_per_npu", Unit.BYTES, cached, cache),
        quantity("cache_room_per_npu", Unit.BYTES, "what the engine leaves for the cache on the fullest NPU", room),
        quantity(
            "headroom_per_npu",
            Unit.BYTES,
            "what a full batch leaves of the cache's room on the fullest NPU",
            room,
            taken,
        ),
        quantity(
            "memory_per_npu", Unit.BYTES, "weights, cache and workspace of the fullest NPU", weights, cache, workspace
        ),
        quantity("npus_used", Unit.NONE, "NPUs of all replicas", gpus),
    ]
