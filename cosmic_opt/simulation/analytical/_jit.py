"""Compile a function with numba, from its cache on disk when there is a folder to keep one."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Compile `function` in nopython mode; its compiled form is kept on disk where that is possible.

    numba looks for a changed source in the function's own file only. A kernel may inline functions of this package
    and of its own, so the cache entry also carries a digest of every source file of both.
    """
    return _compile(function, forceinline=False)


def jit_inline(function: Function) -> Function:
    """Compile as `jit`, and put the code into every caller: for small functions that pass arrays on.

    An array that crosses a call costs atomic reference counting, more than these functions themselves.
    """
    return _compile(function, forceinline=True)


def _compile(function: Function, *, forceinline: bool) -> Function:
    function.__qualname__ = f"{function.__qualname__}_{_digest(Path(__file__).parent)}_{_own_digest(function)}"
    options = {"error_model": "numpy", "nogil": True, "forceinline": forceinline}
    compiler: Any = numba.njit
    try:
        return cast(Function, compiler(cache=True, **options)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        return cast(Function, compiler(**options)(function))


def _own_digest(function: Callable[..., Any]) -> str:
    path = sys.modules[function.__module__].__file__
    return _digest(Path(path).parent) if path else "interactive"


@cache
def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
