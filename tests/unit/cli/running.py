"""Runs a command in this process, as `cosmic-opt` would."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import signal
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from cosmic_opt.cli.interrupt import StoppableBudget
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


def interrupt_at_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when a search asks for the second time whether it is out of time, and never again."""
    looks = itertools.count(1)

    def out_of_time(budget: StoppableBudget) -> bool:
        if next(looks) == 2:
            signal.raise_signal(signal.SIGINT)
        return budget.stopped.is_set()

    monkeypatch.setattr(StoppableBudget, "out_of_time", out_of_time)
