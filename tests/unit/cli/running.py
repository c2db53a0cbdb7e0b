"""Runs a command in this process, as `cosmic-opt` would."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

from cosmic_opt.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def keys(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


def run(*arguments: str, stdin: str = "") -> Done:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
    ):
        code = main(arguments)
    return Done(code, out.getvalue(), err.getvalue())
