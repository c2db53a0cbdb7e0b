"""Compile a function with numba, from its cache on disk when there is a folder to keep one.

numba puts a compiled function's code into that of every caller and optimises it there again, level by level: a large
function at the bottom costs as much once more for each level above it. So some are compiled apart, and called by their
address.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding
from numba.core import cgutils
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
_build: Any = cgutils
_config: Any = numba.config
_without_literal: Any = numba.types.unliteral


def jit(function: Function) -> Function:
    """Compile `function` in nopython mode; its compiled form is kept on disk where that is possible.

    numba looks for a changed source in the function's own file only. A kernel may inline functions of this package
    and of its own, so the cache entry also carries a digest of every source file of both.
    """
    return cast(Function, _compile(function))


def jit_inline(function: Function) -> Function:
    """Compile as `jit`, and put the code into every caller: for small functions that pass arrays on.

    An array that crosses a call costs atomic reference counting, more than these functions themselves. Only compiled
    code can call the result.
    """
    return _for_compiled(function, _compile(function, forceinline=True, no_cpython_wrapper=True), "")


def jit_apart(function: Function) -> Function:
    """Compile as `jit`, once: compiled callers jump to it. For large functions, and for those with many callers.

    Only compiled code can call the result, and the function is one of a module, which other processes can find.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    assert "<locals>" not in name
    _APART[name] = _compile(function, no_cpython_wrapper=True)
    return _for_compiled(function, _APART[name], name)


_APART: dict[str, Any] = {}
"""What is compiled apart, by module and name."""


@dataclass(frozen=True, slots=True)
class _Address:
    """Tells LLVM the address of a function that is compiled apart, for one signature.

    numba keeps it with the compiled form of every caller, and calls it before it loads that form from its cache.
    """

    name: str
    arguments: tuple[Any, ...]

    @property
    def symbol(self) -> str:
        return f"{self.name} {_APART[self.name].py_func.__qualname__} {self.arguments}"

    def __call__(self) -> None:
        if self.name not in _APART:
            import_module(self.name.rpartition(".")[0])
        _APART[self.name].compile(self.arguments)
        compiled = _APART[self.name].overloads[self.arguments]
        binding.add_symbol(self.symbol, compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def _for_compiled(function: Function, dispatcher: Any, apart: str) -> Function:
    """Return what only compiled code can call: a dispatcher's code or, for the name of one `apart`, its address."""
    if _config.DISABLE_JIT:
        return function

    def typed(_: Any, *arguments: Any) -> Any:
        kinds = tuple(dispatcher.get_call_template(arguments, {})[2])
        compiled, address = dispatcher.overloads[kinds], _Address(apart, kinds)
        if apart:
            address()

        def call(context: Any, builder: Any, called: Any, values: Any) -> Any:
            library, convention = context.active_code_library, context.call_conv
            if apart:
                library._reload_init.add(address)
                shape = convention.get_function_type(called.return_type, called.args)
                entry = _build.get_or_insert_function(builder.module, shape, address.symbol)
            else:
                library.add_linking_library(compiled.library)
                entry = context.declare_function(builder.module, compiled.fndesc)
            status, result = convention.call_function(builder, entry, called.return_type, called.args, values)
            with _build.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result

        return compiled.signature, call

    own, context = inspect.signature(function), inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)
    cast(Any, typed).__signature__ = own.replace(parameters=[context, *own.parameters.values()])
    return cast(Function, cast(Any, intrinsic)(typed))


def _compile(function: Callable[..., Any], **options: bool) -> Any:
    function.__qualname__ = f"{function.__qualname__}_{_digest(Path(__file__).parent)}_{_own_digest(function)}"
    if _config.DISABLE_JIT:
        return function
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    compiler: Any = numba.njit
    try:
        kept = _kept_if_possible(compiler(error_model="numpy", cache=True, **options)(function))
        return _with_addresses(_without_literals(kept))
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        return _without_literals(compiler(error_model="numpy", **options)(function))


def _without_literals(dispatcher: Any) -> Any:
    """Compile no form of its own for every constant that compiled callers pass: LLVM sees it where it inlines."""
    template = dispatcher.get_call_template

    def of_values(arguments: Any, keywords: Any) -> Any:
        values = {name: _without_literal(kind) for name, kind in keywords.items()}
        return template(tuple(map(_without_literal, arguments)), values)

    dispatcher.get_call_template = of_values
    return dispatcher


def _kept_if_possible(dispatcher: Any) -> Any:
    """Go on with what was just compiled where it cannot be written: a full disk, a quota, a limit on the size of files.

    numba writes its index before the code. An index that names code which was not written is taken away.
    """
    save = dispatcher._cache.save_overload

    def save_if_possible(signature: Any, compiled: Any) -> None:
        try:
            save(signature, compiled)
        except OSError:
            with suppress(OSError):
                Path(dispatcher._cache._cache_file._index_path).unlink(missing_ok=True)

    dispatcher._cache.save_overload = save_if_possible
    return dispatcher


def _with_addresses(dispatcher: Any) -> Any:
    """Let a function from the cache pass the addresses it needs on to its callers, as one just compiled does."""
    cached = getattr(dispatcher._cache, "_impl", None)
    if cached is None:  # nothing is kept
        return dispatcher
    rebuild = cached.rebuild

    def with_addresses(context: Any, payload: Any) -> Any:
        result = rebuild(context, payload)
        result.library._reload_init.update(result.reload_init)
        return result

    cached.rebuild = with_addresses
    return dispatcher


def _own_digest(function: Callable[..., Any]) -> str:
    path = sys.modules[function.__module__].__file__
    return _digest(Path(path).parent) if path else "interactive"


@cache
def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
