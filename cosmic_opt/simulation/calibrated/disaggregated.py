"""Prefill and decode in pools of their own: prompts are read by one, their cache moves to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import admitted, prefill_busy_s, total_s
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.simulation.calibrated.serving_layer import message_s
from cosmic_opt.workloads.kv_cache import cache_bytes_per_token
from cosmic_opt.workloads.requests import Requests


@dataclass(frozen=True, slots=True)
class Reading:
    """One replica of the prefill pool, one entry per design.

    Attributes:
        prompts_s: Until each prompt of a batch has its first token.
        busy_s: For which a batch keeps the replica busy; with overlapping stages, the slowest of these.
    """

    prompts_s: FloatArray
    busy_s: FloatArray


@dataclass(frozen=True, slots=True)
class Writing:
    """One replica of the decode pool, one entry per design.

    Attributes:
        batch: Sequences it decodes at once; 0 where none fits.
        step: Seconds of a decode step at the mean context, by term.
    """

    batch: FloatArray
    step: Terms


@dataclass(frozen=True, slots=True)
class Pools:
    """A server of two pools, one entry per design.

    Attributes:
        first_token_s: A batch of prompts and the transfer of their cache (TTFT without waiting).
        output_token_s: A decode step, which no prefill interrupts (TPOT; see `token_terms`).
        requests_per_s: What the slower pool serves; `prefill_share` and `decode_share` say how busy each pool is.
        requests: Under way in both pools: the rate times the time from admission to the last token (Little 1961).
        output_tokens_per_s_per_gpu: Over the GPUs of both pools.
    """

    first_token_s: FloatArray
    output_token_s: FloatArray
    requests_per_s: FloatArray
    requests: FloatArray
    prefill_share: FloatArray
    decode_share: FloatArray
    output_tokens_per_s_per_gpu: FloatArray


def reading(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> Reading:
    """Return what a replica of a prefill pool does; `batch` is prompts of one prefill."""
    prompts = total_s(prefill_terms(setup, designs, requests.prompt))
    return Reading(prompts, prefill_busy_s(setup, designs, requests))


def writing(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> Writing:
    """Return what a replica of a decode pool does; `batch` is sequences decoded at once, as far as they fit."""
    batch = np.minimum(designs.batch, admitted(setup, designs, requests))
    loaded = designs.with_batch(np.maximum(batch, 1.0))
    return Writing(batch, decode_terms(setup, loaded, requests.mean_context, most=designs.batch))


def share_a_domain(setup: ServingSetup, prefill: ServingDesigns, decode: ServingDesigns) -> NDArray[np.bool_]:
    """Return which pairs of pools fit into one scale-up domain; those that do are placed in one."""
    return np.asarray(prefill.gpus + decode.gpus <= setup.domain)


def balanced(
    prefill: ServingDesigns,
    reads: Reading,
    decode: ServingDesigns,
    writes: Writing,
    requests: Requests,
    *,
    moved_s: FloatArray,
) -> Pools:
    """Return the rate of two pools in balance: they serve the requests of the slower one.

    A batch's cache moves, in `moved_s`, while others are prefilled, so it delays the first token but costs no rate.

    Source: Zhong 2024 (DistServe, sections 3 and 4).
    """
    read = prefill.dp * prefill.batch / reads.busy_s
    steps, step = requests.output - 1, total_s(writes.step)  # prefill gives the first token
    answered = decode.dp * writes.batch / (steps * step) if steps else np.where(writes.batch > 0, np.inf, 0.0)
    rate, first = np.minimum(read, answered), reads.prompts_s + moved_s
    return Pools(
        first_token_s=first,
        output_token_s=step,
        requests_per_s=rate,
        requests=rate * (first + steps * step),
        prefill_share=rate / read,
        decode_share=rate / np.where(answered > 0, answered, np.inf),
        output_tokens_per_s_per_gpu=rate * requests.output / (prefill.gpus + decode.gpus),
    )


def disaggregated(
    prefill: ServingSetup,
    prefill_designs: ServingDesigns,
    decode: ServingSetup,
    decode_designs: ServingDesigns,
    requests: Requests,
) -> Pools:
    """Return the server that two pools make.

    Raises:
        SpecError: the two pools serve different models, or store the cache in different widths.
    """
    if prefill.model != decode.model or prefill.numbers.cache_bytes != decode.numbers.cache_bytes:
        raise SpecError("the pools cannot share a cache", hint="serve one model with one width of the cache")
    reads, writes = reading(prefill, prefill_designs, requests), writing(decode, decode_designs, requests)
    moved_s = transfer_s(prefill, prefill_designs, decode_designs, requests)
    return balanced(prefill_designs, reads, decode_designs, writes, requests, moved_s=moved_s)


def transfer_s(setup: ServingSetup, prefill: ServingDesigns, decode: ServingDesigns, requests: Requests) -> FloatArray:
    """Return seconds until the cache of a replica's batch of prompts has moved to the decode pool.

    Ranks of a pool work side by side, each with its part of the cache: those that read send theirs, and the prompts are
    dealt to the groups that will answer them. The side whose ranks have more to move takes longer. Where both pools fit
    into one scale-up domain its links carry the cache, else the network cards.

    Raises:
        SpecError: the device has no fabric.
    """
    sent = prefill.sequences * cache_bytes_per_token(setup, prefill)
    received = np.ceil(prefill.batch / (decode.dp * decode.ep)) * cache_bytes_per_token(setup, decode)
    size = requests.prompt * np.maximum(sent, received)
    return message_s(setup, size, inside=share_a_domain(setup, prefill, decode))
