"""What one server, or a pair of pools, takes for what is asked of it: seconds by term, for every metric of serving.

Replicas that are alike are computed once (`Replicas`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.calibrated.disaggregated import (
    Pools,
    Reading,
    Writing,
    balanced,
    reading,
    transfer_s,
    writing,
)
from cosmic_opt.simulation.calibrated.replicas import Replicas
from cosmic_opt.simulation.calibrated.serving import (
    SteadyState,
    admitted,
    batch_terms,
    cosmic_terms,
    lone_prompt_s,
    steady_state,
    times,
    token_terms,
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
    def replicas(self) -> Replicas:
        """The kinds of replica."""
        return Replicas.of(self.designs)

    @cached_property
    def state(self) -> SteadyState:
        """The steady state of each kind at its batch, or at what is admitted of it."""
        return steady_state(self.setup, self.replicas.kinds, self.requests)

    @cached_property
    def batch(self) -> FloatArray:
        """Sequences one replica holds at once."""
        return self.replicas.spread(self.state.batch)

    @property
    def sequences(self) -> FloatArray:
        """Answers under way in all replicas; 0 where none fits."""
        return np.asarray(self.designs.dp * self.batch)

    @property
    def users(self) -> FloatArray:
        """Requests under way when as many are asked for as are answered."""
        return self.sequences

    @property
    def gpus(self) -> FloatArray:
        """GPUs of all replicas."""
        return self.designs.gpus

    @property
    def full(self) -> NDArray[np.bool_]:
        """Whether a replica holds all that is admitted; else its batch is less, by choice."""
        return np.asarray(self.batch >= admitted(self.setup, self.designs, self.requests))

    def throughput(self) -> Terms:
        """Return seconds in which all replicas give `TOKENS` output tokens."""
        given = np.maximum(self.sequences, 1.0) * self.requests.output
        return {name: each * TOKENS / given for name, each in self.replicas.spread_terms(self.state.terms).items()}

    def throughput_per_npu(self) -> Terms:
        """Return seconds in which one NPU gives its share of `TOKENS` output tokens, times the NPUs that share them.

        Replicas are alike, so their number does not matter.
        """
        given = np.maximum(self.state.batch, 1.0) * self.requests.output
        gpus = self.replicas.kinds.replica_gpus
        return self.replicas.spread_terms(
            {name: each * gpus * TOKENS / given for name, each in self.state.terms.items()}
        )

    def output_token_time(self) -> Terms:
        """Return seconds between two tokens of an answer, prefill of newcomers included; see `token_terms`."""
        return self.replicas.spread_terms(self.state.token)

    def first_token_time(self) -> Terms:
        """Return seconds from admission to the first token: a step that is under way, then the own prompt."""
        own = lone_prompt_s(self.setup, self.replicas.kinds, self.requests)
        return self.replicas.spread_terms({**self.state.step, "prefill": own})

    def batch_time(self) -> Terms:
        """Return seconds of a batch that arrives at once, until its last answer."""
        return self.replicas.spread_terms(batch_terms(self.setup, self.replicas.kinds, self.requests))

    def cosmic_time(self) -> Terms:
        """Return seconds of COSMIC's inference job."""
        return self.replicas.spread_terms(cosmic_terms(self.setup, self.replicas.kinds, self.requests))


@dataclass(frozen=True)
class TwoPools:
    """Replicas that prefill, and others that decode what these have read."""

    setup: ServingSetup
    prefill: ServingDesigns
    decode: ServingDesigns
    requests: Requests

    @cached_property
    def reads(self) -> Reading:
        """One replica of the prefill pool."""
        replicas = Replicas.of(self.prefill)
        found = reading(self.setup, replicas.kinds, self.requests)
        return Reading(replicas.spread(found.prompts_s), replicas.spread(found.busy_s))

    @cached_property
    def writes(self) -> Writing:
        """One replica of the decode pool."""
        replicas = Replicas.of(self.decode)
        found = writing(self.setup, replicas.kinds, self.requests)
        return Writing(replicas.spread(found.batch), replicas.spread_terms(found.step))

    @cached_property
    def pools(self) -> Pools:
        """The two pools in balance."""
        pair = (self.prefill, self.reads, self.decode, self.writes)
        return balanced(*pair, self.requests, moved_s=self.moved_s)

    @cached_property
    def moved_s(self) -> FloatArray:
        """Until the cache of a batch of prompts lies where it is decoded."""
        return transfer_s(self.setup, self.prefill, self.decode, self.requests)

    @property
    def sequences(self) -> FloatArray:
        """Answers under way in all decode replicas when these are full; 0 where none fits."""
        return np.asarray(self.decode.dp * self.writes.batch)

    @property
    def users(self) -> FloatArray:
        """Requests under way when as many are asked for as are answered, those whose prompt is read included."""
        return np.asarray(np.rint(self.pools.requests))

    @property
    def gpus(self) -> FloatArray:
        """GPUs of both pools."""
        return np.asarray(self.prefill.gpus + self.decode.gpus)

    @property
    def full(self) -> NDArray[np.bool_]:
        """Whether a decode replica holds all that is admitted; else its batch is less, by choice."""
        return np.asarray(self.writes.batch >= admitted(self.setup, self.decode, self.requests))

    @property
    def decode_bound(self) -> NDArray[np.bool_]:
        """Whether the decode pool is the slower one."""
        return np.asarray(self.pools.decode_share >= 1)

    def throughput(self) -> Terms:
        """Return seconds in which both pools together give `TOKENS` output tokens: the slower pool's work."""
        prefill = self.reads.busy_s * TOKENS / (self.prefill.dp * self.prefill.batch * self.requests.output)
        steps = (self.requests.output - 1) / self.requests.output  # prefill gives the first token
        share = steps * TOKENS / np.maximum(self.sequences, 1.0)
        terms = {name: np.where(self.decode_bound, share * each, 0.0) for name, each in self.writes.step.items()}
        return {"prefill": np.where(self.decode_bound, 0.0, prefill), **terms}

    def throughput_per_npu(self) -> Terms:
        """Return the same times the GPUs of both pools."""
        return {name: each * self.gpus for name, each in self.throughput().items()}

    def output_token_time(self) -> Terms:
        """Return seconds between two tokens of an answer: a decode step, which no prefill interrupts."""
        return token_terms(self.writes.step, np.zeros_like(self.writes.batch), self.requests)

    def first_token_time(self) -> Terms:
        """Return seconds until a batch of prompts is read and its cache has moved."""
        return {"prefill": self.reads.prompts_s, "transfer": self.moved_s}

    def batch_time(self) -> Terms:
        """Return seconds of a batch of prompts, until its last answer."""
        return {**self.first_token_time(), **times(self.requests.output - 1, self.writes.step)}

    def cosmic_time(self) -> Terms:
        """Return the same with a decode step for the first output token, too."""
        return {**self.first_token_time(), **times(self.requests.output, self.writes.step)}


Server = OneServer | TwoPools
