"""One feasible design, scored: what `simulate` shows and `what-if` compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cosmic_opt.simulation.calibrated.predict import Prediction
from cosmic_opt.simulation.calibrated.serving_predict import ServingPrediction
from cosmic_opt.workloads.memory import MemoryBreakdown
from cosmic_opt.workloads.serving_quantities import ServingMemory


@dataclass(frozen=True)
class Report:
    """One feasible design, scored.

    Attributes:
        terms_s: Parts of `metrics["step_time_s"]`, exactly in ticks; of a server, of `output_token_time_s`.
        hidden_s: Communication behind compute, not part of the sum.
        memory: The faithful footprint; of a server, that of each pool by name ("" where one server does both).
        quantities: The structural quantities of the problem.
        prediction: How sure a calibrated time is.
        first_token_s: Parts of `metrics["first_token_time_s"]` of a server.
        npus_used: NPUs that the degrees of the design multiply to; `npus`, those of the problem. They differ only where
            the rule that ties them was dropped, or where it lets a server leave some idle. `stated_npus` are those of
            the system's dimensions, None where the model chooses their extents.
    """

    metrics: Mapping[str, float | int | None]
    terms_s: Mapping[str, float]
    hidden_s: Mapping[str, float]
    bottleneck: str
    memory: MemoryBreakdown | Mapping[str, ServingMemory]
    quantities: Mapping[str, int]
    prediction: Prediction | ServingPrediction | None = None
    first_token_s: Mapping[str, float] = field(default_factory=dict)
    npus_used: int = 0
    npus: int = 0
    stated_npus: int | None = None
