"""Prefill and decode in pools of their own: prompts are read by one, their cache moves to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import admitted, prefill_busy_s, total_s
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup
from cosmic_opt.workloads.kv_cache import cache_bytes_per_token
from cosmic_opt.workloads.requests import Requests


@dataclass(frozen=True, slots=True)
class Pools:
    """A server of two pools, one entry per design.

    Attributes:
        first_token_s: A batch of prompts and the transfer of their cache (TTFT without waiting).
        output_token_s: A decode step, which no prefill interrupts (TPOT).
        transfer_s: The transfer's part of the first.
        requests_per_s: What the slower pool serves; `prefill_share` and `decode_share` say how busy each pool is.
        output_tokens_per_s_per_gpu: Over the GPUs of both pools.
    """

    first_token_s: FloatArray
    output_token_s: FloatArray
    transfer_s: FloatArray
    requests_per_s: FloatArray
    prefill_share: FloatArray
    decode_share: FloatArray
    output_tokens_per_s_per_gpu: FloatArray


def disaggregated(
    prefill: ServingSetup,
    prefill_designs: ServingDesigns,
    decode: ServingSetup,
    decode_designs: ServingDesigns,
    requests: Requests,
) -> Pools:
    """Return the rate of two pools in balance; `batch` is prompts of one prefill, and sequences decoded at once.

    The pools serve the requests of the slower one. A batch's cache leaves through the network cards of its ranks
    while others are prefilled, so it delays the first token but costs no rate.
    Source: Zhong 2024 (DistServe, sections 3 and 4).

    Raises:
        SpecError: the two pools serve different models, or store the cache in different widths.
    """
    if prefill.model != decode.model or prefill.numbers.cache_bytes != decode.numbers.cache_bytes:
        raise SpecError("the pools cannot share a cache", hint="serve one model with one width of the cache")
    prompts = total_s(prefill_terms(prefill, prefill_designs, requests.prompt))
    batch = np.minimum(decode_designs.batch, admitted(decode, decode_designs, requests))
    loaded = decode_designs.with_batch(np.maximum(batch, 1.0))
    step = total_s(decode_terms(decode, loaded, requests.mean_context, most=decode_designs.batch))
    read = prefill_designs.dp * prefill_designs.batch / prefill_busy_s(prefill, prefill_designs, requests)
    steps = requests.output - 1  # prefill gives the first token
    answered = decode_designs.dp * batch / (steps * step) if steps else np.where(batch > 0, np.inf, 0.0)
    rate = np.minimum(read, answered)
    transfer = transfer_s(prefill, prefill_designs, requests)
    gpus = prefill_designs.gpus + decode_designs.gpus
    return Pools(
        first_token_s=prompts + transfer,
        output_token_s=step,
        transfer_s=transfer,
        requests_per_s=rate,
        prefill_share=rate / read,
        decode_share=rate / np.where(answered > 0, answered, np.inf),
        output_tokens_per_s_per_gpu=rate * requests.output / gpus,
    )


def transfer_s(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> FloatArray:
    """Return seconds in which one rank sends its part of the batch's cache; ranks send side by side."""
    fabric = setup.device.fabric
    if fabric is None:
        raise SpecError(f"{setup.device.name!r} has no fabric", hint="give its file a 'fabric:' section")
    rate = fabric.nic_bytes_per_s if setup.nic_bytes_per_s is None else setup.nic_bytes_per_s
    size = designs.sequences * requests.prompt * cache_bytes_per_token(setup, designs)
    return np.asarray(fabric.inter_node_s + size / (rate * fabric.nic_efficiency))
