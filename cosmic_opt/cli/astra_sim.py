"""ASTRA-sim as an engine of `simulate`: one design, exported, run and read back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cosmic_opt.api import Problem
from cosmic_opt.cli.time_limit import seconds_of
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.interop.astra_sim_binary import LONGEST_S, astra_sim_time_ns, configured_binary
from cosmic_opt.interop.export import astra_sim_run, export_astra_sim
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.astra_sim_scores import AstraSimScore
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.search.engine_names import ASTRA_SIM
from cosmic_opt.units import TICKS_PER_SECOND

if TYPE_CHECKING:
    from cosmic_opt.search.events import EventReport

NS_PER_S = 10**9


def program_of(engine: str, path: Path | None, time_limit: str | None) -> tuple[Path, float] | None:
    """Return the program to run and its limit in seconds; None for another engine.

    Raises:
        SpecError: no program is configured, or its options are given to another engine.
    """
    if engine != ASTRA_SIM:
        for option, value in (("--astra-sim", path), ("--time-limit", time_limit)):
            if value is not None:
                raise SpecError(
                    f"{option} is of another engine",
                    where=Where(option),
                    hint=f"add --engine {ASTRA_SIM}, or leave it out",
                )
        return None
    return configured_binary(path), LONGEST_S if time_limit is None else seconds_of(time_limit)


def astra_sim_score(
    problem: Problem, batch: DesignBatch, scored: EventReport, program: tuple[Path, float]
) -> AstraSimScore:
    """Return the step of a design as ASTRA-sim reports it, beside ours; the exported run is not kept.

    Raises:
        SpecError: the design cannot be exported, or ASTRA-sim does not bring it to an end.
        InfeasibleError: ASTRA-sim would not bring it to an end.
        LimitError: it is too large, or takes too long.
    """
    binary, limit_s = program
    run = astra_sim_run(problem.instance, batch)
    with TemporaryDirectory(prefix="cosmic-opt-") as folder:
        place = Path(folder, "run")
        done = export_astra_sim(run, place, next(designs_keys(batch)))
        measured = astra_sim_time_ns(binary, place, done.npus, limit_s=limit_s, is_kept=False)
    return AstraSimScore(
        astra_sim_ns=measured,
        expected_ns=done.time_ns,
        analytical_ns=scored.analytical_step_s * NS_PER_S,
        events_ns=scored.step_ticks * NS_PER_S / TICKS_PER_SECOND,
        notes=done.notes,
    )
