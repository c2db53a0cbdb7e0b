"""Designs that obey every rule and yet cannot run: how many there are, one of them, and why it has no step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.errors import CosmicError, InfeasibleError, LimitError
from cosmic_opt.feasibility.feasible_set import FeasibleSet
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.limits import limits_simulated
from cosmic_opt.search.score import Simulator, kernel_columns, simulator_of
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator

EVERY = 1 << 16
"""Up to so many designs, each is looked at; of more, a sample of `DRAWN`."""
DRAWN = 1 << 12
_ASKED = 64
"""How many designs without a step are asked for the reason."""


@dataclass(frozen=True)
class CannotRun:
    """Feasible designs without a step: `designs` of the `looked_at`, which are all of them where `exact`.

    `design` is one of them (a batch of one), `reason` says why that one cannot run, and `hint` which rule keeps such
    designs out. `too_long` tells that it could run, for longer than the simulator's clock can hold.
    """

    designs: int
    looked_at: int
    exact: bool
    design: DesignBatch
    reason: str
    hint: str
    too_long: bool = False

    @property
    def every(self) -> bool:
        """Whether none of the designs looked at can run."""
        return self.designs == self.looked_at


def cannot_run(
    instance: BoundInstance, feasible: FeasibleSet, *, seed: int = 0, every: int = EVERY
) -> CannotRun | None:
    """Return what is known of feasible designs that cannot run; None where each one looked at can.

    Each design is looked at where there are at most `every`, else independent ones drawn with `seed`. Rules on
    simulated quantities are left aside.
    """
    exact = feasible.size <= every
    if not feasible.size:
        return None
    codes = feasible.span(0, feasible.size) if exact else feasible.sample(DRAWN, np.random.default_rng(seed))
    batch = instance.parameter_set.batch(codes)
    simulator = simulator_of(instance)
    without = batch.take(~runs(simulator, batch))
    return refused(simulator, without, len(batch), exact=exact) if len(without) else None


def why_none(instance: BoundInstance, feasible: FeasibleSet, seed: int, *, none_runs: bool = False) -> CannotRun | None:
    """Return why no feasible design can run, once a search has proved that none runs and keeps the limits.

    Where rules limit what is simulated, that is no proof that none runs at all: then the answer is None, unless each
    design was looked at and has no step, or the caller has proved that `none_runs`.

    Raises:
        LimitError: without such rules, a design could run, for longer than the simulator's clock can hold.
    """
    limited = limits_simulated(instance.parameter_set)
    found = cannot_run(instance, feasible, seed=seed)
    if found is None:
        return None
    if found.too_long and not limited:
        raise LimitError(found.reason, hint=found.hint)
    if found.too_long or not (found.every and (found.exact or none_runs or not limited)):
        return None
    return replace(found, designs=feasible.size, looked_at=feasible.size, exact=True)


def runs(simulator: Simulator, batch: DesignBatch) -> NDArray[np.bool_]:
    """Return which designs have a step (a served model: its metric has a time), whatever its limits say."""
    columns = kernel_columns(batch)
    if isinstance(simulator, ServingSimulator):
        ticks = simulator.ticks_of(columns, simulator.metric)
    else:
        ticks = simulator.evaluate(columns, strict=False).step_ticks
    return np.broadcast_to(ticks != NO_TIME, (len(batch),))  # one time stands for all where no column matters


def refused(simulator: Simulator, without: DesignBatch, looked_at: int, *, exact: bool) -> CannotRun:
    """Return what the simulator says of designs that have no step; one that takes too long speaks for all."""
    reasons = [_reason(simulator, without.take([row])) for row in range(min(len(without), _ASKED))]
    row = next((row for row, reason in enumerate(reasons) if isinstance(reason, LimitError)), 0)
    chosen = reasons[row]
    too_long = isinstance(chosen, LimitError)
    return CannotRun(
        len(without), looked_at, exact, without.take([row]), chosen.message, chosen.hint or "", too_long=too_long
    )


def why_not(instance: BoundInstance, design: DesignBatch) -> CannotRun | None:
    """Return why a single design cannot run; None where it can.

    The simulator is made for its values alone: one for wide domains tabulates millions of groups first.
    """
    (point,) = design.points()
    whole = design.parameter_set
    columns = tuple(replace(column, values=(point[column.name],)) for column in whole.columns)
    narrow = replace(whole, columns=columns)
    simulator = simulator_of(replace(instance, parameter_set=narrow))
    alone = narrow.design(point)
    return None if runs(simulator, alone)[0] else refused(simulator, alone, 1, exact=True)


def _reason(simulator: Simulator, design: DesignBatch) -> CosmicError:
    try:
        simulator.evaluate(kernel_columns(design))
    except (InfeasibleError, LimitError) as refusal:
        return refusal
    raise AssertionError("a design without a step is refused")
