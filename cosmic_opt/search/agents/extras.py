"""Libraries that only some agents need, each behind an extra of the package."""

from __future__ import annotations

import importlib
from types import ModuleType

from cosmic_opt.errors import SpecError, Where


def load(module: str, extra: str, *, where: Where | None = None) -> ModuleType:
    """Return a library.

    Raises:
        SpecError: it is not installed; the hint is the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SpecError(
            f"this needs {module.partition('.')[0]}: {error}",
            where=where,
            hint=f"pip install 'cosmic-opt[{extra}]'",
        ) from None
