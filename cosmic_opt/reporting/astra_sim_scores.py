"""The score of one design by ASTRA-sim, beside those of both simulators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosmic_opt.reporting.numbers import table
from cosmic_opt.units import show_seconds

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class AstraSimScore:
    """A step in ns: as ASTRA-sim reports it, as a replay of the same traces expects it (None: too large), and ours.

    `notes` says what ASTRA-sim does not express of the design, which is why the numbers differ.
    """

    astra_sim_ns: int
    expected_ns: int | None
    analytical_ns: float
    events_ns: float
    notes: Sequence[str]


def agrees(reported_ns: int | None, expected_ns: int | None) -> bool | None:
    """Return whether ASTRA-sim reports what a replay of its traces expects, as it should; None without one of them."""
    return None if reported_ns is None or expected_ns is None else reported_ns == expected_ns


def disagreement(reported_ns: int | None, expected_ns: int | None) -> list[str]:
    """Return the lines that warn of a difference."""
    if agrees(reported_ns, expected_ns) is not False:
        return []
    return [
        f"warning: ASTRA-sim reports {reported_ns:,} ns, a replay of the same traces {expected_ns:,} ns; they should",
        "  be equal: is this its congestion-unaware binary, in the version that docs/astra-sim.md names?",
    ]


def astra_sim_keys(score: AstraSimScore) -> dict[str, object]:
    """Return the key `astra_sim` of `simulate --json`."""
    return {
        "astra_sim": {
            "time_ns": score.astra_sim_ns,
            "expected_ns": score.expected_ns,
            "agrees": agrees(score.astra_sim_ns, score.expected_ns),
            "analytical_ns": score.analytical_ns,
            "events_ns": score.events_ns,
            "notes": list(score.notes),
        }
    }


def astra_sim_text(score: AstraSimScore) -> str:
    """Return one table of all four, and why they differ."""
    named = (
        ("analytical lower bound", score.analytical_ns),
        ("events", score.events_ns),
        ("ASTRA-sim, expected", score.expected_ns),
        ("ASTRA-sim, reported", score.astra_sim_ns),
    )
    rows = [
        (name, show_seconds(ns / NS_PER_S), f"{ns:,.0f}", f"{ns / score.events_ns:.3f}")
        if ns is not None
        else (name, "too large to replay", "-", "-")
        for name, ns in named
    ]
    lines = [table(("step", "time", "ns", "over events"), rows, right=(1, 2, 3))]
    lines += disagreement(score.astra_sim_ns, score.expected_ns)
    if score.notes:
        lines += ["", "what ASTRA-sim does not express of this design:", *(f"  {note}" for note in score.notes)]
    return "\n".join(lines)
