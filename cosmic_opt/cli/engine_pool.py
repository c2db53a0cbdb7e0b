"""Where a search runs: the options `--workers`, `--engine-pool` and `--scheduler`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError, Where

if TYPE_CHECKING:
    from cosmic_opt.search.executor import EngineOf


class EnginePool(Enum):
    """Where the exact work is done."""

    THREADS = "threads"
    PROCESSES = "processes"
    DASK = "dask"


Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=1024, help="Threads or processes; by default, one per core.")
]
Pool = Annotated[EnginePool, typer.Option("--engine-pool", help="Work on threads, processes or a Dask cluster.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="With dask: tcp://HOST:PORT of its scheduler.")
]


@dataclass(frozen=True)
class Place:
    """What the options ask for."""

    workers: int | None
    pool: EnginePool
    scheduler: str | None

    def __post_init__(self) -> None:
        if self.pool is EnginePool.DASK:
            if not self.scheduler:
                hint = "add --scheduler tcp://HOST:8786"
                raise SpecError("which cluster?", where=Where("--engine-pool"), hint=hint)
            if self.workers is not None:
                hint = "leave --workers out: the cluster has the workers that were started"
                raise SpecError("a cluster has its own workers", where=Where("--workers"), hint=hint)
        elif self.scheduler is not None:
            hint = "add --engine-pool dask"
            raise SpecError("a scheduler is of a Dask cluster", where=Where("--scheduler"), hint=hint)

    @contextmanager
    def engine(self, problem: Problem) -> Iterator[EngineOf]:
        """Give the engine of a problem; its processes end, and a cluster is left, when the block ends."""
        from cosmic_opt.search.executor import process_pool, threads  # numba takes a second to load

        workers = self.workers or os.cpu_count() or 1
        if self.pool is EnginePool.DASK:
            from cosmic_opt.search.dask_pool import dask_pool

            with dask_pool(str(self.scheduler)) as cluster:
                yield problem.on(cluster.executor, workers=cluster.workers, lost=cluster.lost)
        elif self.pool is EnginePool.PROCESSES:
            with process_pool(workers) as executor:
                yield problem.on(executor, workers=workers)
        else:
            yield threads(workers)
