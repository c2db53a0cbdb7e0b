"""`import`: the files of another tool as a system file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.catalog.amounts import LARGEST
from cosmic_opt.catalog.data import check_typed
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.files import check_target, require_file, whole_file
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.interop.system_import import DeviceNumbers, import_astra_sim
from cosmic_opt.units import Unit, parse

SYSTEM_SUFFIXES = (".yaml", ".yml")


def import_(
    network: Annotated[Path, typer.Option("--astra-sim-network", metavar="FILE", help="Its network file, YAML.")],
    system: Annotated[Path, typer.Option("--astra-sim-system", metavar="FILE", help="Its system file, JSON.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The system file to write: system.yaml.")],
    peak: Annotated[str | None, typer.Option("--peak", help="Of one NPU: '312 TFLOPS'; default: the file's.")] = None,
    memory_bandwidth: Annotated[
        str | None, typer.Option("--memory-bandwidth", help="Of one NPU: '2 TB/s'; default: the file's.")
    ] = None,
    memory_capacity: Annotated[
        str | None, typer.Option("--memory-capacity", help="Of one NPU: '80 GB'; default: never full.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write ASTRA-sim's network and system as a system file, which an instance names under 'system:'."""
    output = Output(as_json, quiet)
    require_file(network, "--astra-sim-network")
    require_file(system, "--astra-sim-system")
    check_target(out, SYSTEM_SUFFIXES, force=force)
    device = DeviceNumbers(
        _number(peak, Unit.FLOP_PER_S, "--peak"),
        _number(memory_bandwidth, Unit.BYTES_PER_S, "--memory-bandwidth"),
        _number(memory_capacity, Unit.BYTES, "--memory-capacity"),
    )
    imported = import_astra_sim(network, system, out.stem, device)
    with whole_file(out) as file:
        file.write(imported.text)
    for note in imported.notes:
        output.log(note)
    keys = {
        "file": str(out),
        "dimensions": imported.dimensions,
        "npus": imported.npus,
        "notes": list(imported.notes),
    }
    text = f"wrote {out}: {imported.npus:,} NPUs in {imported.dimensions} dimensions; use it as 'system: ./{out.name}'"
    output.result("import", keys, text)
    return DONE


def _number(text: str | None, unit: Unit, option: str) -> int | None:
    if text is None:
        return None
    check_typed(text, unit, Where(option))
    value = parse(text, unit, where=Where(option))
    if not 1 <= value <= LARGEST:
        raise SpecError(f"{text!r} is out of range", where=Where(option), hint="give a number above zero")
    return value


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import", cls=Command)(import_)
