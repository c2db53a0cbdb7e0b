"""A progress bar on stderr, with a percentage that never rounds up; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def exact_percent(done: int, total: int) -> str:
    """Return what part of `total` is done, cut to two decimals: 100.00 % is all of it, however large."""
    hundredths = 10_000 * done // total if total else 10_000
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


@contextmanager
def progress_bar(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Give a function that shows how many of `total` are done."""
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console  # a tenth of a second to load
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(exact_percent(0, total), total=total)

        def show(done: int) -> None:
            bar.update(task, completed=done, description=f"{exact_percent(done, total)}  {done:,} of {total:,}")

        yield show
