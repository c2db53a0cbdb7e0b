"""`verify`: check the evidence of an answer again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from cosmic_opt.cli.exits import DONE, REJECTED
from cosmic_opt.cli.files import require_file
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.reporting.verifications import verification_keys, verification_text


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate that 'solve --certificate' wrote.")],
    samples: Annotated[
        int, typer.Option("--samples", min=0, max=10_000_000, help="Random designs to score against the bound.")
    ] = 4096,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random designs and regions.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Derive everything a certificate claims again; exit code 0 when all of it holds, 1 when not."""
    from cosmic_opt.search.certificate import read_certificate  # numba takes a second to load
    from cosmic_opt.search.verify import verify as verify_certificate

    require_file(file, "FILE")
    began = time.perf_counter()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read the file: {error}", where=Where(str(file)), hint="give a JSON file") from None
    certificate = read_certificate(text, str(file))
    checks = verify_certificate(certificate, samples=samples, seed=seed)
    seconds = time.perf_counter() - began
    output = Output(as_json, quiet)
    output.result(
        "verify", verification_keys(certificate, checks, seconds), verification_text(certificate, checks, seconds)
    )
    return DONE if all(check.passed for check in checks) else REJECTED


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", cls=Command)(verify)
