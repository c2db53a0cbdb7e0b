"""The options that every problem command shares, defined once, and what they ask for."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from cosmic_opt.api import Problem
from cosmic_opt.catalog.edits import Edits, parse_edits
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import SpecError, Where

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No log on stderr.")]
NOT_READ = (".json", ".et", ".pb")


@dataclass(frozen=True)
class Request:
    """What the common options ask for."""

    name: str
    edits: Edits
    seed: int
    output: Output

    @cached_property
    def problem(self) -> Problem:
        """The instance, edited; loaded when first asked for."""
        return Problem.load(self.name).edit(self.edits)

    @property
    def title(self) -> str:
        """The problem's name and scope."""
        instance = self.problem.instance
        return f"{instance.name} (scope {instance.scope})" if instance.scope else instance.name


def read_request(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Instance: a name that 'list' shows, or a YAML file.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change data: memory_capacity=80GB.")
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", metavar="NAME=VALUE", help="Fix a parameter: tp=8, bandwidth[0]=50GB/s."),
    ] = None,
    free: Annotated[list[str] | None, typer.Option("--free", metavar="NAME", help="Free a parameter.")] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", metavar="RULE", help="Add a rule: 'network_cost <= 5000000'.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="NAME", help="Drop a declared rule.")
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Which parameters are free, by name.")] = None,
    objective: Annotated[
        str | None, typer.Option("--objective", help="step_time, throughput, 'step_time * network_cost', ...")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> Request:
    """Return the request. Its signature is the definition of the common options.

    Raises:
        SpecError: no such instance, or options that contradict each other.
    """
    edits = parse_edits(
        set_=set_ or (),
        fix=fix or (),
        free=free or (),
        require=require or (),
        without=without or (),
        scope=_not_empty(scope, "--scope"),
        objective=_spaced(_not_empty(objective, "--objective")),
    )
    _refuse_contradictions(edits)
    return Request(_readable_name(name), edits, seed, Output(as_json, quiet))


def _readable_name(name: str) -> str:
    """Return NAME, or refuse what this version does not read."""
    hint = "give a name that 'cosmic-opt list' shows, or a YAML instance file"
    if name.endswith(NOT_READ):
        raise SpecError(
            f"{name!r}: a Hugging Face config or a trace is not read in this version", where=Where("NAME"), hint=hint
        )
    if not name.strip() or not _can_be_a_path(name):
        raise SpecError("this cannot be the name of an instance or a file", where=Where("NAME"), hint=hint)
    return name


def _can_be_a_path(name: str) -> bool:
    try:
        Path(name).is_file()
    except (OSError, ValueError):  # too long, or with a null byte
        return False
    return True


def _not_empty(text: str | None, option: str) -> str | None:
    if text is not None and not text.strip():
        raise SpecError("the value is empty", where=Where(option), hint=f"leave {option} out, or give a name")
    return text


def _spaced(objective: str | None) -> str | None:
    """Return "a*b" as "a * b"."""
    return None if objective is None else " * ".join(part.strip() for part in objective.split("*"))


def _refuse_contradictions(edits: Edits) -> None:
    for option, pairs in (("--set", edits.set), ("--fix", edits.fix)):
        repeated = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        if repeated:
            raise SpecError(f"{repeated[0]!r} is given twice", where=Where(option), hint="keep one of the two")
    both = [name for name, _ in edits.fix if name in edits.free]
    if both:
        raise SpecError(f"{both[0]!r} is fixed and freed", where=Where("--fix"), hint="keep one of the two")


class ReaderGoneError(Exception):
    """Whoever read stdout has closed it."""


class StoppedError(Exception):
    """Ctrl-C ended a command that had no answer yet."""


class Commands(typer.core.TyperGroup):
    """All commands; Ctrl-C before one of them runs is said, as it is while one does."""

    def make_context(self, *arguments: Any, **keys: Any) -> Any:
        """Parse what stands before the command."""
        with _stoppable():
            return super().make_context(*arguments, **keys)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Parse and run the command."""
        with _stoppable():
            return super().invoke(ctx)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Make Ctrl-C an error of ours: typer's own is an exit code without a word."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError from None


class Command(typer.core.TyperCommand):
    """A command that refuses an option given twice, instead of keeping the last one."""

    def invoke(self, ctx: typer.Context) -> int:  # type: ignore[override]
        """Run; a closed pipe is no error of a file."""
        try:
            return int(super().invoke(ctx))
        except BrokenPipeError:
            raise ReaderGoneError from None

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse, after a look at what is repeated."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(given).items():
            if times > 1 and not getattr(parameter, "multiple", False):
                option = parameter.opts[0]
                raise SpecError("the option is given twice", where=Where(option), hint=f"keep one {option}")
        return super().parse_args(ctx, args)


def problem_command(app: typer.Typer, name: str, command: Callable[..., int]) -> None:
    """Make `command(request, own options) -> exit code` the command `name`, with the common options beside its own."""
    common = inspect.signature(read_request, eval_str=True).parameters
    first, *others = common.values()
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    def run(**values: object) -> int:
        asked = {key: values.pop(key) for key in common}
        return command(read_request(**asked), **values)  # type: ignore[arg-type]

    run.__signature__ = inspect.Signature([first, *_keyword_only(own), *others])  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    app.command(name, cls=Command)(run)


def _keyword_only(parameters: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
