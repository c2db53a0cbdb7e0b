"""`export`: one design as the files of another tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.cli.design_file import read_design
from cosmic_opt.cli.exits import DONE, INFEASIBLE
from cosmic_opt.cli.options import Request, problem_command
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.interop.astra_sim_binary import astra_sim_time_ns, configured_binary
from cosmic_opt.interop.export import Exported, astra_sim_run, export_astra_sim
from cosmic_opt.interop.export_readme import COMMAND
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.astra_sim_scores import agrees, disagreement
from cosmic_opt.reporting.designs import design_text, designs_keys
from cosmic_opt.reporting.rules import rule_keys, rules_text
from cosmic_opt.units import Unit, show, show_seconds

Write = Callable[[Problem, DesignBatch, Path], Exported]


def export(
    request: Request,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty folder.")],
    format_: Annotated[str, typer.Option("--format", help="astra-sim.")] = "astra-sim",
    design: Annotated[
        str | None,
        typer.Option("--design", metavar="FILE", help="JSON or YAML, '-' for stdin; default: the instance's own."),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Also run ASTRA-sim on it, and report both times.")] = False,
    astra_sim: Annotated[
        Path | None,
        typer.Option("--astra-sim", metavar="PATH", help="Run this binary; default: $COSMIC_OPT_ASTRA_SIM."),
    ] = None,
) -> int:
    """Write one design as a complete run of another tool. A design that breaks a rule is refused."""
    if format_ not in FORMATS:
        raise SpecError(f"unknown format {format_!r}", where=Where("--format"), hint=nearest(format_, FORMATS))
    binary = configured_binary(astra_sim) if run or astra_sim is not None else None
    problem, batch = read_design(request.problem, design)
    keys: dict[str, object] = {"name": problem.instance.name, "design": next(designs_keys(batch)), "format": format_}
    broken = problem.violations(batch)
    if broken:
        keys |= {"folder": None, "violations": [rule_keys(rule) for rule in broken]}
        text = f"{request.title}: refused, the design breaks\n{rules_text(broken)}\n\n{design_text(batch)}"
        request.output.result("export", keys, text)
        return INFEASIBLE
    done = FORMATS[format_](problem, batch, to)
    measured = None if binary is None else astra_sim_time_ns(binary, to, done.npus)
    times = {"astra_sim_time_ns": measured, "agrees": agrees(measured, done.time_ns)}
    keys |= {"folder": str(to), **_keys(done), **times, "violations": []}
    request.output.result("export", keys, f"{request.title}\n\n{_text(done, to, measured)}")
    return DONE


def _astra_sim(problem: Problem, batch: DesignBatch, folder: Path) -> Exported:
    return export_astra_sim(astra_sim_run(problem.instance, batch), folder, next(designs_keys(batch)))


FORMATS: dict[str, Write] = {"astra-sim": _astra_sim}


def _keys(done: Exported) -> dict[str, object]:
    return {
        "npus": done.npus,
        "operations": done.operations,
        "trace_bytes": done.trace_bytes,
        "groups": done.groups,
        "time_ns": done.time_ns,
        "command": " ".join(COMMAND),
        "notes": list(done.notes),
    }


def _text(done: Exported, folder: Path, measured_ns: int | None) -> str:
    expected = "not known: the run is too large to be replayed here"
    if done.time_ns is not None:
        expected = f"{show_seconds(done.time_ns / 1e9)} ({done.time_ns:,} ns)"
    lines = [
        f"wrote {folder}: {done.npus:,} traces, {done.operations:,} operations, "
        f"{show(done.trace_bytes, Unit.BYTES)}, {done.groups:,} communicator groups",
        f"ASTRA-sim will report: {expected}",
        *([] if measured_ns is None else [f"ASTRA-sim reports: {measured_ns:,} ns"]),
        *disagreement(measured_ns, done.time_ns),
        "run there:",
        "  " + " \\\n    ".join(COMMAND),
        *(["what it does not express (README.md has the rest):"] if done.notes else []),
        *(f"  {note}" for note in done.notes),
    ]
    return "\n".join(lines)


def add(app: typer.Typer) -> None:
    """Add the command."""
    problem_command(app, "export", export)
