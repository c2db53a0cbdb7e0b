"""The score of one design by events: that of the analytical simulator, and what contention does to it."""

from __future__ import annotations

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.reporting.numbers import percent, table
from cosmic_opt.reporting.scores import score_keys, score_text
from cosmic_opt.search.events import EventReport
from cosmic_opt.units import show_seconds


def event_keys(scored: EventReport) -> dict[str, object]:
    """Return the keys of an analytical score; beside them the lower bound, utilisation and exposed communication."""
    return {
        **score_keys(scored.report),
        "analytical_step_time_s": scored.analytical_step_s,
        "utilisation": list(scored.utilisation),
        "exposed_communication": {f"{group}_s": seconds for group, seconds in scored.exposed_s.items()},
    }


def event_text(scored: EventReport, instance: BoundInstance) -> str:
    """Return the score on one screen, without the design itself."""
    step = float(scored.report.metrics["step_time_s"] or 0)
    over = percent(step / scored.analytical_step_s - 1)
    exposed = [(group, show_seconds(seconds)) for group, seconds in scored.exposed_s.items() if seconds > 0]
    busy = [(f"dimension {dim}", percent(share)) for dim, share in enumerate(scored.utilisation)]
    parts = [
        score_text(scored.report, instance),
        f"  by events: {over} above the analytical lower bound, {show_seconds(scored.analytical_step_s)}",
        table(("network", "busy"), busy, right=(1,)),
    ]
    if exposed:
        parts.append(table(("exposed communication", "time"), exposed, right=(1,)))
    return "\n\n".join(parts)
