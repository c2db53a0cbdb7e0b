"""A prediction as it is shipped: the step, its terms, the memory, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.system.hardware import Origin
from cosmic_opt.workloads.footprint import Footprint, footprint
from cosmic_opt.workloads.stack import Accuracy, kept_cast_bytes

UNKNOWN_GROUP = "other"
WIDE = "16-bit"
"""Products in fp16 and bf16 run at one rate, and their steps are one group."""
OUTSIDE = 2
"""How many times as wide as its own a group's interval is outside what was measured, as that of unknown stacks is
against all rows'."""
DEGREES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
"""Kinds of parallelism, and what they are called."""
SPREAD = {"attention generation": 0.3, "host launches": 0.4, "overlap": 0.5, "release": 0.2}
"""How far each hidden input moves the terms it rules: kernel generations differ by about a third, exposed traffic by
half, releases of narrow-precision kernels by a fifth."""
RECOMPUTE_SPREAD = 0.33
"""Full recompute runs a third of the step's products again (Korthikanti 2022)."""
RULED = {
    "attention generation": ("attention",),
    "host launches": ("host",),
    "overlap": ("tensor_parallel", "context_parallel", "dispatch", "exchange", "sharding", "gradients"),
    "release": ("matmul", "casts"),
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """One design's step.

    Attributes:
        step_s: Seconds; the sum of `terms` in their order, exactly.
        memory: Bytes of the fullest pipeline stage.
        group: The accuracy group whose p90 made `interval`: the job's own, `UNKNOWN_GROUP` where too few were measured.
        hidden_input: The input that is usually not stated and moves this step most.
        interval: Seconds (low, high) a measurement lies between nine times in ten; outside the range of measured jobs
            twice as wide as that of `group`, at least as wide as an unknown group's.
        extrapolates: What about this job lies outside what was measured.
        origin: What a calibrated device was calibrated from; the interval is still that of its board.
    """

    step_s: float
    terms: Mapping[str, float]
    memory: Footprint
    group: str
    hidden_input: str
    interval: tuple[float, float]
    extrapolates: tuple[str, ...]
    origin: Origin | None = None


def predict(
    setup: TrainingSetup, designs: TrainingDesigns, accuracy: Accuracy, *, recompute_stated: bool = True
) -> Prediction:
    """Return the prediction of a single design; `step_time` predicts many.

    Raises:
        SpecError: `designs` holds more than one design.
    """
    if designs.tp.size != 1:
        raise SpecError(f"{designs.tp.size} designs, expected one", hint="use step_time for many designs")
    result = step_time(setup, designs)
    terms = {name: float(value[0]) for name, value in result.terms.items()}
    step_s = float(result.step_s[0])
    group = accuracy_group(setup)
    memory = footprint(setup, designs, setup.recipe.operand_bytes, kept_cast_bytes(setup.stack, setup.recipe))
    unmeasured = _unmeasured(setup, group, accuracy)
    outside = _outside(setup, designs, memory, accuracy)
    known = UNKNOWN_GROUP if unmeasured else group
    p90 = accuracy.p90[known]
    if outside:
        p90 = max(OUTSIDE * p90, accuracy.p90[UNKNOWN_GROUP])
    return Prediction(
        step_s=step_s,
        terms=terms,
        memory=memory,
        group=known,
        hidden_input=_hidden_input(setup, terms, recompute_stated),
        interval=(step_s / (1 + p90), step_s / max(1 - p90, 0.1)),
        extrapolates=(*setup.device.borrowed, *unmeasured, *outside),
        origin=setup.device.origin,
    )


def accuracy_group(setup: TrainingSetup) -> str:
    """Return the group of jobs a job is like: its stack, and experts or width of its products."""
    if not setup.stack.shipped:
        return UNKNOWN_GROUP
    kind = "experts" if setup.model.experts is not None else setup.recipe.precision if setup.recipe.cast_bytes else WIDE
    return f"{setup.stack.name} {kind}"


def _unmeasured(setup: TrainingSetup, group: str, accuracy: Accuracy) -> tuple[str, ...]:
    """Return why nothing is known of a group's own accuracy; empty where it is known."""
    if not setup.stack.shipped:
        return (f"{setup.stack.name} is a file of one's own: nothing was measured with it",)
    if group in accuracy.p90:
        return ()
    few = accuracy.few.get(group, 0)
    steps = f"{f'only {few}' if few else 'no'} measured {{}}step{'s'[: few > 1]}"
    if setup.model.experts is not None:
        return (f"{steps.format('')} of experts with {setup.stack.name}",)
    width = setup.recipe.precision if setup.recipe.cast_bytes else "16 bits"
    return (f"{steps.format('dense ')} in {width} with {setup.stack.name}",)


def _hidden_input(setup: TrainingSetup, terms: Mapping[str, float], recompute_stated: bool) -> str:
    total = sum(terms.values())
    weights = {
        name: SPREAD[name] * sum(terms.get(term, 0.0) for term in ruled) / total for name, ruled in RULED.items()
    }
    if setup.recipe.cast_bytes == 0:
        weights["release"] /= 2  # products in 16 bits changed little between releases
    if not recompute_stated:
        weights["recompute"] = RECOMPUTE_SPREAD
    return max(weights, key=lambda name: weights[name])


def _outside(setup: TrainingSetup, designs: TrainingDesigns, memory: Footprint, accuracy: Accuracy) -> tuple[str, ...]:
    """Return what of a job lies beyond the measured ones, of whatever stack."""
    found, board, origin = list[str](), setup.device.board, setup.device.origin
    if setup.device.gemm.joules_per_flop_bit and not setup.recipe.cast_bytes:
        found.append(f"16 bits on {board}: what power feeds is known of 8 and 4 bits")
    if setup.device.measured_as not in accuracy.devices:
        own = "" if setup.device.measured_as else ", a device of one's own"
        fitted = f" but the {origin.steps:,} of one's own" if origin is not None and origin.steps else ""
        found.append(f"no measured step on {board}{own}{fitted}")
    found += setup.device.altered
    if np.any(designs.gpus > accuracy.most_gpus):
        found.append(f"more than {accuracy.most_gpus:,} GPUs")
    if setup.sequence > accuracy.most_tokens:
        found.append(f"sequences longer than {accuracy.most_tokens:,} tokens")
    for name, kind in DEGREES.items():
        degree, most = int(getattr(designs, name)[0]), accuracy.most_degrees.get(name)
        if most is not None and degree > most:
            found.append(f"{kind} parallelism over {degree:,} ranks, measured up to {most:,}")
    if float(np.ravel(memory.states_bytes)[0]) > setup.device.installed_bytes:
        found.append("weights and optimizer exceed the device's memory")
    return tuple(found)
