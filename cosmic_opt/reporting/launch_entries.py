"""Entries of a command line that stand for what a framework cannot be told."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.psa.domain import Value

NO_OPTION = "# no option known:"
"""Begins an entry that says which knob of the design, and which of its values, the framework cannot be told."""


def missing(knobs: Mapping[str, Value], options: Mapping[str, Collection[Value]]) -> list[str]:
    """Return an entry for each knob whose value is none of those that have an option."""
    return [f"{NO_OPTION} {name}={knobs[name]}" for name, known in options.items() if knobs[name] not in known]


def further_tokens(own: Calibrated) -> list[str]:
    """Return an entry for the layers of multi-token prediction, where the framework has no option for them."""
    return [f"{NO_OPTION} mtp_layers={own.model.mtp_layers}"] if own.model.mtp_layers else []


def notes_last(entries: list[str]) -> list[str]:
    """Return the options, then what has none."""
    return sorted(entries, key=lambda entry: entry.startswith(NO_OPTION))
