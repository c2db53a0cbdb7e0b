"""Reads JSON that is checked or scored: a key means one thing, so it may not be given twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.document import brief


class _RepeatedKeyError(ValueError):
    """An object has a key twice."""


def read_json(text: str | bytes, file: str, *, hint: str) -> Any:
    """Return the value that JSON text spells; `hint` says what belongs into the file.

    Raises:
        SpecError: not JSON, nested too deeply, or a key that an object has twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except _RepeatedKeyError as error:
        raise SpecError(str(error), where=Where(file), hint="keep one of the two") from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the file is not JSON: {error}", where=Where(file), hint=hint) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        ((key, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise _RepeatedKeyError(f"the key {brief(key)} appears twice")
    return entries
