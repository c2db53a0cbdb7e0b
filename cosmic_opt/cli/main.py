"""The entry point: commands, and what every error becomes."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from cosmic_opt.cli import (
    calibrate,
    collective,
    compare,
    count,
    designs,
    explain,
    export,
    import_,
    listing,
    optimise,
    pareto,
    simulate,
    solve,
    study,
    validate,
    validation,
    verify,
    what_if,
)
from cosmic_opt.cli.exits import BAD_INPUT, BUG, DONE, INFEASIBLE, INTERRUPTED, LIMIT
from cosmic_opt.cli.options import Commands, ReaderGoneError, StoppedError
from cosmic_opt.errors import CosmicError, InfeasibleError, LimitError, SpecError

EXITS: tuple[tuple[type[CosmicError], int], ...] = (
    (SpecError, BAD_INPUT),
    (InfeasibleError, INFEASIBLE),
    (LimitError, LIMIT),
)


def build_app() -> typer.Typer:
    """Return the application with every command."""
    app = typer.Typer(
        name="cosmic-opt",
        cls=Commands,
        help="Full-stack co-design of distributed ML: exact counts, simulation, proved optima.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def common(
        show_version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        del show_version  # its callback has printed it

    for group in (
        listing,
        validate,
        count,
        designs,
        optimise,
        simulate,
        compare,
        solve,
        what_if,
        explain,
        pareto,
        collective,
        export,
        import_,
        validation,
        calibrate,
        verify,
        study,
    ):
        group.add(app)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no exception leaves, and an expected one shows no traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.set_int_max_str_digits(0)  # counts are printed in full, however long
    try:
        code = _run(given)
        if sys.stdout is None:
            raise OSError(errno.EBADF, "stdout is closed")
        sys.stdout.flush()
    except CosmicError as error:
        code = next((exit_code for kind, exit_code in EXITS if isinstance(error, kind)), BUG)
        if code == BUG:
            _report_bug(error)
        else:
            _say(f"error: {error}" if error.hint else f"error: {error}\n  hint: see 'cosmic-opt {given[0]} --help'")
    except typer.TyperException as error:
        _say(_usage(error))
        code = BAD_INPUT
    except (KeyboardInterrupt, StoppedError, typer.Abort):
        _say("interrupted")
        code = INTERRUPTED
    except (BrokenPipeError, ReaderGoneError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = DONE
    except OSError as error:  # files are read and written with errors of their own: this is stdout
        _say(f"error: cannot write the answer: {error.strerror}\n  hint: free the disk, or open stdout")
        sys.stdout = None  # what is buffered cannot be flushed at exit
        code = BAD_INPUT
    except MemoryError:
        _say("error: the computer has too little memory for this\n  hint: make the problem smaller")
        code = LIMIT
    except Exception as error:
        _report_bug(error)
        code = BUG
    return code


def _run(arguments: list[str]) -> int:
    return int(build_app()(args=arguments, prog_name="cosmic-opt", standalone_mode=False) or DONE)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"cosmic-opt {version('cosmic-opt')}")
        except PackageNotFoundError:
            print("cosmic-opt, run from its source")
        raise typer.Exit(DONE)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "cosmic-opt"
    return f"error: {error.format_message()}\n  hint: see '{command} --help'"


def _report_bug(error: Exception) -> None:
    _say(f"error: this is a bug of ours, please report it: {type(error).__name__}: {error}")
    if os.environ.get("COSMIC_OPT_DEBUG"):
        traceback.print_exception(error)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
