"""Studies for tests: a small problem with every kind of task, and what a study file holds."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosmic_opt.search.executor import threads
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.study_identity import Identity, identity_of
from tests.unit.search.spaces import SPACES

PROBLEM = SPACES["an order between dimensions, naive dominance fails"]
ONE = threads(1)


def identity(seed: int = 0) -> Identity:
    return identity_of(PROBLEM.spec, PROBLEM.instance, seed=seed)


def solve(study: Path | None = None, **options: Any) -> Outcome:
    return PROBLEM.solve(**{"engine": ONE, "study": study, **options})


def facts(outcome: Outcome) -> tuple[object, ...]:
    """What must not depend on stops, workers or studies."""
    design = outcome.design.codes.tolist()
    return outcome.status, outcome.stop, design, outcome.value, outcome.bound, outcome.evaluations, outcome.proof


def held(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in the order of recording."""
    connection = sqlite3.connect(path)
    try:
        tables = ("evaluations", "agents", "blocks", "solved", "incumbents", "answers")
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY number").fetchall() for table in tables}
    finally:
        connection.close()


def in_child(work: Callable[[], object], kill: Callable[[int], None] | None = None) -> int:
    """Do some work in a forked process and return how it ended; `kill` may end it from outside."""
    with (
        warnings.catch_warnings()
    ):  # Python 3.12 warns where another thread runs: pytest-xdist's, which waits for messages
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = 70
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    if kill is not None:
        kill(child)
    return os.waitpid(child, 0)[1]
