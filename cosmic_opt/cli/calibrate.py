"""`calibrate`: a device's constants from measured kernels and collectives."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.measurements import read_measurements
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.files import check_target, require_file, whole_file
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.system.hardware import Device, Origin

if TYPE_CHECKING:
    from cosmic_opt.analysis.calibration import Calibration

SUFFIXES = (".yaml", ".yml")
DIGEST = 12


def run_calibrate(
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="The shipped device to start from.")],
    rows: Annotated[
        Path | None, typer.Option("--rows", metavar="FILE", help="Measured kernels and collectives: CSV or JSON.")
    ] = None,
    steps: Annotated[
        Path | None, typer.Option("--steps", metavar="FILE", help="Your own measured training steps, to refine with.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the device file here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Fit a device's few physical constants to measured rows, and print errors before and after."""
    from cosmic_opt.reporting.calibrations import calibration_keys, calibration_text  # scipy takes a second to load

    output = Output(as_json, quiet)
    if device.endswith(SUFFIXES):
        raise SpecError("a file cannot be refined again", where=Where("--device"), hint="name the shipped device")
    if rows is None and steps is None:
        raise SpecError("there is nothing to fit", where=Where("--rows"), hint="give --rows FILE, or --steps FILE")
    start = load_device(device, where=Where("--device"))
    for path, option in ((rows, "--rows"), (steps, "--steps")):
        if path is not None:
            require_file(path, option)
    if out is not None:
        check_target(out, SUFFIXES, force=force)
    results, origin, provenance = _fit(start, rows, steps)
    if out is not None:
        _write(out, results, origin, provenance)
        output.log(f"wrote {out}")
    shown = None if out is None else str(out)
    output.result("calibrate", calibration_keys(start.name, results, shown), calibration_text(start.name, results))
    return DONE


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate", cls=Command)(run_calibrate)


def _fit(start: Device, rows: Path | None, steps: Path | None) -> tuple[list[Calibration], Origin, str]:
    """Return the fits in their order (kernels first, then steps), and what the device file says of their origin."""
    from cosmic_opt.analysis.calibration import calibrate, read_rows, refine

    device, origins = start, list[str]()
    results: list[Calibration] = []
    counts = {"rows": 0, "steps": 0}
    if rows is not None:
        measured = read_rows(read_measurements(rows), device, where=Where(str(rows)))
        results.append(calibrate(device, measured))
        device = results[-1].device
        counts["rows"] = measured.fitted
        origins.append(f"fitted by cosmic-opt calibrate on {measured.fitted} rows of {_named(rows)}")
    if steps is not None:
        results.append(refine(device, read_measurements(steps), where=Where(str(steps))))
        counts["steps"] = number = results[-1].fitted
        origins.append(
            f"refined on {number} end-to-end steps of {_named(steps)}, which it no longer predicts independently"
        )
    return results, Origin(start.name, **counts), "; ".join([*origins, f"starting from {start.name}"])


def _named(path: Path) -> str:
    return f"{path.name} (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:DIGEST]})"


def _write(out: Path, results: list[Calibration], origin: Origin, provenance: str) -> None:
    from cosmic_opt.reporting.device_file import device_file

    fitted = [change.constant for result in results for change in result.changes]
    errors = [error for result in results for error in result.errors]
    with whole_file(out) as file:
        file.write(device_file(results[-1].device, fitted, origin, provenance=provenance, errors=errors))
