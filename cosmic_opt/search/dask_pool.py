"""Dask as an executor: the workers of a cluster, reached by the address of its scheduler (extra `dask`)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager
from dataclasses import dataclass

from cosmic_opt.catalog.digest import program_digest
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.search.agents.extras import load

WHERE = Where("--scheduler")
TIMEOUT_S = 10


@dataclass(frozen=True)
class DaskPool:
    """A cluster. `lost` is what its executor raises when workers or the scheduler are gone for good."""

    executor: Executor
    workers: int
    lost: tuple[type[Exception], ...]


@contextmanager
def dask_pool(address: str) -> Iterator[DaskPool]:
    """Give the executor of the cluster whose scheduler is at an address; "tcp://10.0.0.7:8786".

    A worker that dies is replaced by the others: Dask runs its tasks again, and as tasks are pure functions the answer
    stays the same.

    Raises:
        SpecError: Dask is not installed, nothing answers at the address within ten seconds, there is no worker, or a
            worker has another version of this program.
    """
    distributed = load("distributed", "dask", where=Where("--engine-pool"))
    try:
        client = distributed.Client(address, timeout=f"{TIMEOUT_S}s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        hint = "give the address that 'dask scheduler' prints, for example tcp://10.0.0.7:8786"
        text = str(error).partition("\n")[0] or type(error).__name__
        raise SpecError(f"no scheduler answers at {address!r}: {text}", where=WHERE, hint=hint) from None
    try:
        threads = client.nthreads()
        if not threads:
            hint = f"start some: dask worker {address}"
            raise SpecError(f"the scheduler at {address!r} has no workers", where=WHERE, hint=hint)
        _check_program(client, address)
        lost = (distributed.scheduler.KilledWorker, CancelledError, OSError)
        yield DaskPool(client.get_executor(pure=False), sum(threads.values()), lost)
    finally:
        client.close()


def _check_program(client: object, address: str) -> None:
    """Refuse workers that would compute something else."""
    try:
        found = set(client.run(program_digest).values())  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        found = set()
    if found != {program_digest()}:
        raise SpecError(
            f"workers of {address!r} have another version of this program, or none",
            where=WHERE,
            hint="install the same version of cosmic-opt on every worker",
        )
