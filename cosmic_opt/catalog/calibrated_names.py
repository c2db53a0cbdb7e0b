"""The names of software an instance may give: a stack, a precision recipe."""

from __future__ import annotations

from pathlib import Path

from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.errors import SpecError, Where


def read_software(name: str, text: str, where: Where) -> str:
    """Return the `stack` or `precision` that a text names; a stack may be a user's file.

    Raises:
        SpecError: there is none of that name.
    """
    try:
        return load_recipe(text).name if name == "precision" else _known(text)
    except SpecError as error:
        own = error.where if error.where and error.where.file else where
        raise SpecError(error.message, where=own, hint=error.hint) from None


def _known(stack: str) -> str:
    load_stack(stack)
    return stack


def own_stack(name: str, beside: Path) -> str:
    """Return a stack's name, or the path of a user's file relative to the file that names it."""
    own = beside.parent / name
    return str(own) if name.endswith((".yaml", ".yml")) and own.is_file() else name
