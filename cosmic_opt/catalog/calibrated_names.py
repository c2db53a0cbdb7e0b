"""The names of software an instance may give: a stack or an engine, a precision."""

from __future__ import annotations

from pathlib import Path

from cosmic_opt.catalog.engines import load_engine, load_number_format
from cosmic_opt.catalog.job_kinds import INFERENCE, JobKind
from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.errors import SpecError, Where


def read_software(kind: JobKind, name: str, text: str, where: Where) -> str:
    """Return the `stack`, `engine` or `precision` that a text names; all but a precision may be a user's file.

    Raises:
        SpecError: there is none of that name.
    """
    try:
        if name == "precision":
            return (load_number_format(text) if kind is INFERENCE else load_recipe(text)).name
        _ = load_engine(text) if name == "engine" else load_stack(text)
    except SpecError as error:
        own = error.where if error.where and error.where.file else where
        raise SpecError(error.message, where=own, hint=error.hint) from None
    return text


def own_file(name: str, beside: Path) -> str:
    """Return a shipped name as it is, and the path of a user's file relative to the file that names it."""
    own = beside.parent / name
    return str(own) if name.endswith((".yaml", ".yml")) and own.is_file() else name
