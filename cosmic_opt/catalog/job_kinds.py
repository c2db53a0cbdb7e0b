"""The kinds of job an instance may have, and what each can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cosmic_opt.psa.quantity import SimulatedQuantity
from cosmic_opt.units import Unit

THROUGHPUT, PER_NPU = "throughput", "throughput_per_npu"


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job.

    Attributes:
        software: Keys of an instance file that name the software which runs it.
        objectives: What `--objective` may be; the first is the default.
        simulated: Quantities only a simulator gives, by name; `ENERGY` comes to them where a power is known.
    """

    name: str
    software: tuple[str, ...]
    objectives: tuple[str, ...]
    simulated: Mapping[str, SimulatedQuantity]

    def __reduce__(self) -> tuple[Callable[[str], JobKind], tuple[str]]:
        """Travel by name: kinds are told apart by identity, in every process."""
        return kind_called, (self.name,)


def _simulated(unit: Unit, **described: str) -> dict[str, SimulatedQuantity]:
    return {name: SimulatedQuantity(name, unit, text) for name, text in described.items()}


ENERGY = SimulatedQuantity("energy", Unit.ENERGY, "board power of all NPUs for a step, or for one output token")
"""What a job draws where the power of its device is known: an upper figure, boards rarely stand at their limit."""
TRAINING = JobKind(
    "training",
    ("stack", "precision"),
    (
        *("step_time", "step_time * total_bandwidth", "step_time * network_cost", "step_time * system_cost"),
        *(THROUGHPUT, ENERGY.name),
    ),
    {
        **_simulated(Unit.TIME, step_time="time of one optimizer step"),
        **_simulated(Unit.NONE, throughput="sequences per second"),
    },
)
LATENCIES = _simulated(
    Unit.TIME,
    first_token_time="from admission to the first token of an answer (TTFT without waiting)",
    output_token_time="between two tokens of an answer: (end to end - first token) / (output - 1) (TPOT)",
    batch_time="a batch that arrives at once, until its last answer",
    cosmic_time="COSMIC's inference job: prefill, then a decode step per output token",
)
RATES = _simulated(
    Unit.NONE, throughput="output tokens per second", throughput_per_npu="output tokens per second and NPU in use"
)
INFERENCE = JobKind("inference", ("engine", "precision"), (*RATES, *LATENCIES, ENERGY.name), {**LATENCIES, **RATES})
KINDS: Mapping[str, JobKind] = {kind.name: kind for kind in (TRAINING, INFERENCE)}
SOFTWARE = tuple(dict.fromkeys(key for kind in KINDS.values() for key in kind.software))
SIMULATED = frozenset({ENERGY.name, *(name for kind in KINDS.values() for name in kind.simulated)})


def kind_called(name: str) -> JobKind:
    """Return the kind of a name in `KINDS`."""
    return KINDS[name]
