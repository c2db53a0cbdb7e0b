"""What one server, or a pair of pools, takes for what is asked of it: seconds by term, for every metric of serving."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.disaggregated import Pools, disaggregated
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import (
    SteadyState,
    admitted,
    batch_terms,
    cosmic_terms,
    prefill_busy_s,
    steady_state,
    total_s,
)
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.workloads.requests import TOKENS, Requests


@dataclass(frozen=True)
class OneServer:
    """Replicas that prefill and decode, with continuous batching."""

    setup: ServingSetup
    designs: ServingDesigns
    requests: Requests

    @cached_property
    def state(self) -> SteadyState:
        """The steady state at the designs' batch, or at what is admitted of it."""
        return steady_state(self.setup, self.designs, self.requests)

    @property
    def sequences(self) -> FloatArray:
        """Answers under way in all replicas; 0 where none fits."""
        return np.asarray(self.designs.dp * self.state.batch)

    @property
    def users(self) -> FloatArray:
        """Answers under way when as many are asked for as are given."""
        return self.sequences

    @property
    def gpus(self) -> FloatArray:
        """GPUs of all replicas."""
        return self.designs.gpus

    @property
    def full(self) -> NDArray[np.bool_]:
        """Whether a replica holds all that is admitted; else its batch is less, by choice."""
        return np.asarray(self.state.batch >= admitted(self.setup, self.designs, self.requests))

    def throughput(self) -> Terms:
        """Return seconds in which all replicas give `TOKENS` output tokens."""
        given = np.maximum(self.sequences, 1.0) * self.requests.output
        return {name: each * TOKENS / given for name, each in self.state.terms.items()}

    def throughput_per_npu(self) -> Terms:
        """Return seconds in which one NPU gives its share of `TOKENS` output tokens, times the NPUs that share them.

        Replicas are alike, so their number does not matter.
        """
        given = np.maximum(self.state.batch, 1.0) * self.requests.output
        return {name: each * self.designs.replica_gpus * TOKENS / given for name, each in self.state.terms.items()}

    def output_token_time(self) -> Terms:
        """Return seconds per token of an answer, prefill of newcomers included: the first comes from its own."""
        return {name: each / self.requests.output for name, each in self.state.terms.items()}

    def first_token_time(self) -> Terms:
        """Return seconds from admission to the first token: a step that is under way, then the own prompt."""
        own = total_s(prefill_terms(self.setup, self.designs.with_batch(1), self.requests.prompt))
        return {**self.state.step, "prefill": own}

    def batch_time(self) -> Terms:
        """Return seconds of a batch that arrives at once, until its last answer."""
        return batch_terms(self.setup, self.designs, self.requests)

    def cosmic_time(self) -> Terms:
        """Return seconds of COSMIC's inference job."""
        return cosmic_terms(self.setup, self.designs, self.requests)


@dataclass(frozen=True)
class TwoPools:
    """Replicas that prefill, and others that decode what these have read."""

    setup: ServingSetup
    prefill: ServingDesigns
    decode: ServingDesigns
    requests: Requests

    @cached_property
    def pools(self) -> Pools:
        """The two pools in balance."""
        return disaggregated(self.setup, self.prefill, self.setup, self.decode, self.requests)

    @cached_property
    def batch(self) -> FloatArray:
        """Sequences one decode replica holds at once."""
        return self._held(self.decode)

    def _held(self, designs: ServingDesigns) -> FloatArray:
        return steady_state(self.setup, designs, self.requests).batch

    @property
    def sequences(self) -> FloatArray:
        """Answers under way in all decode replicas when these are full; 0 where none fits."""
        return np.asarray(self.decode.dp * self.batch)

    @property
    def users(self) -> FloatArray:
        """Answers under way when as many are asked for as are given: fewer where the prefill pool is the slower one."""
        return np.asarray(np.floor(self.sequences * self.pools.decode_share))

    @property
    def gpus(self) -> FloatArray:
        """GPUs of both pools."""
        return np.asarray(self.prefill.gpus + self.decode.gpus)

    @property
    def full(self) -> NDArray[np.bool_]:
        """Whether a decode replica holds all that is admitted; else its batch is less, by choice."""
        return np.asarray(self.batch >= admitted(self.setup, self.decode, self.requests))

    @cached_property
    def step(self) -> Terms:
        """Seconds of a decode step at the mean context, by term."""
        loaded = self.decode.with_batch(np.maximum(self.batch, 1.0))
        return decode_terms(self.setup, loaded, self.requests.mean_context, most=self.decode.batch)

    @property
    def decode_bound(self) -> NDArray[np.bool_]:
        """Whether the decode pool is the slower one."""
        return np.asarray(self.pools.decode_share >= 1)

    def throughput(self) -> Terms:
        """Return seconds in which both pools together give `TOKENS` output tokens: the slower pool's work."""
        read = self.prefill.dp * self.prefill.batch * self.requests.output
        prefill = prefill_busy_s(self.setup, self.prefill, self.requests) * TOKENS / read
        steps = (self.requests.output - 1) / self.requests.output  # prefill gives the first token
        share = steps * TOKENS / np.maximum(self.sequences, 1.0)
        terms = {name: np.where(self.decode_bound, share * each, 0.0) for name, each in self.step.items()}
        return {"prefill": np.where(self.decode_bound, 0.0, prefill), **terms}

    def throughput_per_npu(self) -> Terms:
        """Return the same times the GPUs of both pools."""
        return {name: each * self.gpus for name, each in self.throughput().items()}

    def output_token_time(self) -> Terms:
        """Return seconds of a decode step, which no prefill interrupts."""
        return self.step

    def first_token_time(self) -> Terms:
        """Return seconds until a batch of prompts is read and its cache has moved."""
        prompts = total_s(prefill_terms(self.setup, self.prefill, self.requests.prompt))
        return {"prefill": prompts, "transfer": self.pools.transfer_s}

    def batch_time(self) -> Terms:
        """Return seconds of a batch of prompts, until its last answer."""
        return {**self.first_token_time(), **_times(self.requests.output - 1, self.step)}

    def cosmic_time(self) -> Terms:
        """Return the same with a decode step for the first output token, too."""
        return {**self.first_token_time(), **_times(self.requests.output, self.step)}


def _times(number: int, terms: Terms) -> Terms:
    return {name: number * each for name, each in terms.items()}


Server = OneServer | TwoPools
