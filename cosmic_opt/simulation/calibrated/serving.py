"""Jobs of prompts and answers: one batch from start to end, a saturated server, pools for prefill and decode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_opt.simulation.calibrated.captured import tuned_batch
from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.replicas import Replicas
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.workloads.kv_cache import held_tokens, whole_sequences
from cosmic_opt.workloads.requests import Requests


@dataclass(frozen=True, slots=True)
class Waves:
    """A batch cut in what the cache holds: `full` waves of `fit` sequences, then one of `rest` (0: none)."""

    full: FloatArray
    fit: FloatArray
    rest: FloatArray


def waves(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> Waves:
    """Return the waves of a batch; a sequence that alone does not fit is taken to run alone."""
    fit = np.clip(admitted(setup, designs, requests), 1.0, designs.batch)
    full = np.floor(designs.batch / fit)
    return Waves(full, fit, designs.batch - full * fit)


def batch_terms(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> Terms:
    """Return seconds, by term, until the last answer of a batch that arrives at once.

    Answers are equally long, so what does not fit in the cache starts when a whole wave is done. Terms are `prefill`
    and those of `decode_terms`. The server is set up for the whole batch, as that of a steady state is.
    """
    cut, most = waves(setup, designs, requests), designs.batch
    whole = _wave_terms(setup, designs.with_batch(cut.fit), requests, most)
    terms = {name: cut.full * each for name, each in whole.items()}
    if np.any(cut.rest):
        last = _wave_terms(setup, designs.with_batch(np.maximum(cut.rest, 1.0)), requests, most)
        terms = {name: each + np.where(cut.rest > 0, last[name], 0.0) for name, each in terms.items()}
    return terms


def _wave_terms(setup: ServingSetup, designs: ServingDesigns, requests: Requests, most: FloatArray) -> Terms:
    """Return the terms of sequences that all fit: prefill, then a step at the mean context per further token.

    `most` is the largest batch the server is set up for: of captured steps, it is the largest.
    """
    terms = {"prefill": total_s(prefill_terms(setup, designs, requests.prompt))}
    decode = decode_terms(setup, designs, requests.mean_context, most=most)
    return terms | {name: (requests.output - 1) * each for name, each in decode.items()}


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Continuous batching with as many requests as the batch holds, one entry per design.

    Attributes:
        batch: Sequences one replica decodes at once; 0 where none fits, and then there is no rate.
        first_token_s: From admission to the first token: a step that is under way, then the own prompt (TTFT).
        output_tokens_per_s: Of all replicas together.
        output_tokens_per_s_per_gpu: The same per GPU.
        terms: Seconds of one replica in which it gives `batch` answers, by term.
        step: Seconds of one decode step, by term; 0 where answers have one token, since prefill gives the first.
        token: Seconds between two tokens of an answer (TPOT), by term; see `token_terms`.
    """

    batch: FloatArray
    first_token_s: FloatArray
    output_tokens_per_s: FloatArray
    output_tokens_per_s_per_gpu: FloatArray
    terms: Terms
    step: Terms
    token: Terms

    @property
    def output_token_s(self) -> FloatArray:
        """Seconds between two tokens of an answer (TPOT)."""
        return total_s(self.token)


def admitted(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> FloatArray:
    """Return the most sequences one replica holds at once: what the cache and the engine's own limit allow."""
    fit = whole_sequences(setup, designs, held_tokens(setup, requests))
    return np.minimum(fit, setup.engine.memory.most_sequences * designs.ep)


def steady_state(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> SteadyState:
    """Return the steady state at the designs' batch, or at what is admitted of it; answers are half done on average.

    While `batch` answers are given, as many prompts are prefilled, each of which gives the first token:
    rate = n out / ((out - 1) step(n) + prefill(n)). Source: Yu 2022 (Orca, section 4.1: iteration-level scheduling).
    The designs' batch is the most the server is set up for: of captured steps, it is the largest.
    Where stages overlap, prompts keep the slowest of them busy, but an answer does not begin before its own prompt has
    passed all.
    """
    batch = np.minimum(designs.batch, admitted(setup, designs, requests))
    loaded = designs.with_batch(np.maximum(batch, 1.0))
    step = decode_terms(setup, loaded, requests.mean_context, most=designs.batch)
    under_way = times(min(requests.output - 1, 1), step)
    own = lone_prompt_s(setup, designs, requests)
    read = np.maximum(prefill_busy_s(setup, loaded, requests), own)
    terms = {"prefill": read, **times(requests.output - 1, step)}
    rate = np.where(batch > 0, designs.dp * batch * requests.output / total_s(terms), 0.0)
    token = token_terms(step, read - own, requests)
    return SteadyState(batch, own + total_s(under_way), rate, rate / designs.gpus, terms, under_way, token)


def token_terms(step: Terms, others_s: FloatArray, requests: Requests) -> Terms:
    """Return seconds between two tokens of an answer, by term: (end to end - first token) / (output - 1).

    After its first token an answer takes `output - 1` decode steps, and waits `others_s` in all while others' prompts
    are read. An answer of one token has no second: it is given the decode step, what another one would take.
    Source: vLLM's serving benchmark (`tpot`), MLPerf Inference (time per output token).
    """
    return {"prefill": others_s / (requests.output - 1) if requests.output > 1 else np.zeros_like(others_s), **step}


def times(number: int, terms: Terms) -> Terms:
    """Return so many times as long, by term."""
    return {name: number * each for name, each in terms.items()}


def lone_prompt_s(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> FloatArray:
    """Return seconds of one prompt alone; replicas that differ in their batch or number only take equally long."""
    replicas = Replicas.of(designs.with_batch(1))
    seconds = total_s(prefill_terms(setup, replicas.kinds, requests.prompt))
    return replicas.spread(np.broadcast_to(seconds, replicas.kinds.tp.shape))


def prefill_busy_s(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> FloatArray:
    """Return seconds the prompts of a batch keep a replica busy: with overlapping stages, the slowest of these."""
    return total_s(prefill_terms(setup, designs, requests.prompt, busy=setup.engine.overlaps_stages))


def saturated(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> SteadyState:
    """Return the steady state of a server with more requests than it can hold; the designs' batch does not matter.

    Where steps are captured, the server is set up for a batch before it knows what it can hold (`tuned_batch`).
    """
    most = np.maximum(admitted(setup, designs, requests), 1.0)
    if setup.engine.graph_batches:
        most = np.maximum(most, tuned_batch(setup, designs, requests))
    return steady_state(setup, designs.with_batch(most), requests)


def cosmic_terms(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> Terms:
    """Return seconds by term of COSMIC's inference jobs: prefill + output tokens x one decode step at mean context.

    The whole batch runs at once, on a server that is set up for it, whether or not it fits.
    Source: arXiv 2505.15020, section 5; its question answering and chat are `QUESTION_ANSWERING` and `CHAT`.
    """
    terms = {"prefill": total_s(prefill_terms(setup, designs, requests.prompt))}
    decode = decode_terms(setup, designs, requests.mean_context, most=designs.batch)
    return terms | {name: requests.output * each for name, each in decode.items()}


def total_s(terms: Terms) -> FloatArray:
    """Return the sum of terms in their order."""
    first, *rest = terms.values()
    return sum(rest, first)
