"""A serving prediction as it is shipped: a value, its terms, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.decode import decode_terms
from cosmic_opt.simulation.calibrated.predict import OUTSIDE, UNKNOWN_GROUP
from cosmic_opt.simulation.calibrated.prefill import prefill_terms
from cosmic_opt.simulation.calibrated.serving import SteadyState, batch_terms, saturated, total_s, waves
from cosmic_opt.simulation.calibrated.serving_coverage import LATENCY, SATURATED, accuracy_group, unmeasured
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingDesigns, ServingSetup, Terms
from cosmic_opt.system.hardware import Origin
from cosmic_opt.workloads.kv_cache import (
    cache_capacity_bytes,
    held_tokens,
    weight_bytes,
    whole_sequences,
)
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.stack import Accuracy

SPREAD = {"attention generation": 0.5, "engine release": 0.4, "kernel library": 0.2, "fabric": 0.3}
"""How far each hidden input moves the terms it rules: decode kernels of one engine differ by half between releases, its
host time by two fifths, exposed collectives by a third."""
RULED = {
    "attention generation": ("attention",),
    "engine release": ("host", "kernels"),
    "kernel library": ("matmul", "experts", "head", "prefill"),
    "fabric": ("tensor_parallel", "dispatch", "sends"),
}


@dataclass(frozen=True, slots=True)
class ServingPrediction:
    """One design's time.

    Attributes:
        seconds: The sum of `terms` in their order, exactly.
        batch: Sequences answered in that time: the given batch, or what a saturated replica holds.
        group: The accuracy group whose p90 made `interval`.
        hidden_input: The input that is usually not stated and moves this time most.
        interval: Seconds (low, high) a measurement lies between nine times in ten; outside what was measured twice as
            wide as the group's, at least as wide as an unknown group's.
        extrapolates: What about this job lies outside what was measured.
        origin: What a calibrated device was calibrated from; the interval is still that of its board.
    """

    seconds: float
    batch: float
    terms: Mapping[str, float]
    group: str
    hidden_input: str
    interval: tuple[float, float]
    extrapolates: tuple[str, ...]
    origin: Origin | None = None


def predict_batch(
    setup: ServingSetup, designs: ServingDesigns, requests: Requests, accuracy: Accuracy
) -> ServingPrediction:
    """Return the time of one batch until its last answer.

    Raises:
        SpecError: `designs` holds more than one design.
    """
    return prediction_of(setup, designs, requests, accuracy, batch_terms(setup, designs, requests), LATENCY)


def predict_prefill(
    setup: ServingSetup, designs: ServingDesigns, requests: Requests, accuracy: Accuracy
) -> ServingPrediction:
    """Return the time until each sequence of a batch has its first token.

    Raises:
        SpecError: `designs` holds more than one design.
    """
    return prediction_of(setup, designs, requests, accuracy, prefill_terms(setup, designs, requests.prompt), LATENCY)


def predict_saturated(
    setup: ServingSetup, designs: ServingDesigns, requests: Requests, accuracy: Accuracy
) -> ServingPrediction:
    """Return the time in which a saturated replica gives as many answers as it holds sequences.

    Raises:
        SpecError: `designs` holds more than one design, or no sequence fits.
    """
    state = _full_server(setup, designs, requests)
    return prediction_of(setup, designs.with_batch(state.batch), requests, accuracy, state.terms, SATURATED)


def predict_token(
    setup: ServingSetup, designs: ServingDesigns, requests: Requests, accuracy: Accuracy
) -> ServingPrediction:
    """Return the mean time between two tokens of an answer in a batch that arrives at once, as much as fits of it.

    Raises:
        SpecError: `designs` holds more than one design.
    """
    fit = designs.with_batch(waves(setup, designs, requests).fit)
    step = decode_terms(setup, fit, requests.mean_context, most=designs.batch)
    return prediction_of(setup, fit, requests, accuracy, step, LATENCY)


def predict_token_saturated(
    setup: ServingSetup, designs: ServingDesigns, requests: Requests, accuracy: Accuracy
) -> ServingPrediction:
    """Return the time between two tokens of an answer of a saturated replica, prefill of newcomers included.

    Raises:
        SpecError: `designs` holds more than one design, or no sequence fits.
    """
    state = _full_server(setup, designs, requests)
    return prediction_of(setup, designs.with_batch(state.batch), requests, accuracy, state.token, SATURATED)


def predict_first_token_saturated(
    setup: ServingSetup, designs: ServingDesigns, requests: Requests, accuracy: Accuracy
) -> ServingPrediction:
    """Return the time from admission to a saturated replica to the first token: a step under way, then the own prompt.

    Raises:
        SpecError: `designs` holds more than one design, or no sequence fits.
    """
    state = _full_server(setup, designs, requests)
    own = total_s(prefill_terms(setup, designs.with_batch(1), requests.prompt))
    terms = {"prefill": own, **state.step}
    return prediction_of(setup, designs.with_batch(state.batch), requests, accuracy, terms, SATURATED)


def _full_server(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> SteadyState:
    state = saturated(setup, designs, requests)
    if np.any(state.batch < 1):
        raise SpecError("no sequence fits beside the weights", hint="use more GPUs, or fewer bytes per weight")
    return state


def prediction_of(
    setup: ServingSetup,
    designs: ServingDesigns,
    requests: Requests,
    accuracy: Accuracy,
    terms: Terms,
    load: str,
    *,
    gpus: FloatArray | None = None,
    more: tuple[str, ...] = (),
) -> ServingPrediction:
    """Return how sure any time of one design is, given by term, under a kind of load (`LOADS`).

    `gpus` are those of the whole server where `designs` are a part of it; `more` is what else was not measured.

    Raises:
        SpecError: `designs` holds more than one design.
    """
    if designs.tp.size != 1:
        raise SpecError(f"{designs.tp.size} designs, expected one", hint="batch_terms and saturated take many designs")
    shares = {name: float(value[0]) for name, value in terms.items()}
    seconds = sum(shares.values())
    size = float((designs.gpus if gpus is None else gpus)[0])
    outside = (*unmeasured(setup, requests, accuracy, load, size), *more)
    low, high = _interval(seconds, accuracy, accuracy_group(setup), outside=bool(outside))
    return ServingPrediction(
        seconds=seconds,
        batch=float(designs.batch[0]),
        terms=shares,
        group=accuracy_group(setup),
        hidden_input=_hidden_input(shares),
        interval=(low, high),
        extrapolates=(
            *setup.device.borrowed,
            *outside,
            *_crowded(setup, designs, requests),
        ),
        origin=setup.device.origin,
    )


def _interval(seconds: float, accuracy: Accuracy, group: str, *, outside: bool) -> tuple[float, float]:
    """Return the times between which a measurement lies nine times in ten."""
    unknown = accuracy.p90[UNKNOWN_GROUP]
    p90 = accuracy.p90.get(group, unknown)
    if outside and group in accuracy.p90:
        p90 = max(OUTSIDE * p90, unknown)
    return seconds / (1 + p90), seconds / max(1 - p90, 0.1)


def _hidden_input(terms: Mapping[str, float]) -> str:
    weights = {name: SPREAD[name] * sum(terms.get(term, 0.0) for term in ruled) for name, ruled in RULED.items()}
    return max(weights, key=lambda name: weights[name])


def _crowded(setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> tuple[str, ...]:
    """Return what does not fit in the memory of the devices."""
    found = []
    if np.any(weight_bytes(setup, designs) > setup.memory_bytes):
        found.append("the weights exceed the device's memory")
    elif np.any(whole_sequences(setup, designs, held_tokens(setup, requests)) < designs.batch):
        found.append("the batch does not fit in the cache: it runs in waves")
    if np.any(cache_capacity_bytes(setup, designs) <= 0):
        found.append("the engine's share of the memory leaves nothing for the cache")
    return tuple(found)
