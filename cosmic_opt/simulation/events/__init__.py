"""Event-driven simulation in whole picoseconds: chunks of collectives on dimensions that others use, too."""

from __future__ import annotations

from cosmic_opt.simulation.events.collective import SCHEDULERS, Group, ScheduledCollective, schedule_collective
from cosmic_opt.simulation.events.program import POLICIES, Call, Op, Program, Stream, Visit
from cosmic_opt.simulation.events.replay import Replay, run_program

__all__ = [
    "POLICIES",
    "SCHEDULERS",
    "Call",
    "Group",
    "Op",
    "Program",
    "Replay",
    "ScheduledCollective",
    "Stream",
    "Visit",
    "run_program",
    "schedule_collective",
]
