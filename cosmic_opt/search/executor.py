"""Where the tasks of a search run: threads of this process, or any `concurrent.futures.Executor`.

Results come back in the order of the tasks and depend on nothing else, so a search gives the same answer and counts the
same evaluations for any number of workers.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from threading import Lock
from typing import Protocol, TypeVar

from cosmic_opt.catalog.bind import bind
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.errors import LimitError
from cosmic_opt.ir.lower import lower
from cosmic_opt.search.tasks import Task, Worker, worker_of

Result = TypeVar("Result")

GONE = (BrokenExecutor, CancelledError)
"""What executors of the standard library raise when their workers are gone."""
AHEAD = 4
"""Tasks that are waiting or running, per worker."""


class Engine(Protocol):
    """Runs tasks of one problem."""

    @property
    def worker(self) -> Worker:
        """The problem, in this process."""

    def map(self, tasks: Sequence[Task[Result]]) -> Iterator[Result]:
        """Yield the result of each task, in order; when the iterator is closed early, the rest is given up."""


EngineOf = Callable[[Worker], Engine]
"""Makes the engine of a problem."""


@dataclass(frozen=True)
class Threads:
    """Runs tasks on threads of this process: compiled code releases the interpreter's lock."""

    worker: Worker
    workers: int

    def map(self, tasks: Sequence[Task[Result]]) -> Iterator[Result]:
        """Yield the result of each task, in order."""
        if self.workers == 1 or len(tasks) <= 1:
            yield from (task.run(self.worker) for task in tasks)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            yield from _in_order(lambda task: pool.submit(task.run, self.worker), tasks, self.workers)


@dataclass(frozen=True)
class Recipe:
    """How another process makes the same problem: quantities hold functions, which do not travel."""

    spec: InstanceSpec
    edits: Edits

    def worker(self) -> Worker:
        """Return the worker of the problem."""
        instance = bind(self.spec, self.edits)
        return worker_of(instance, lower(instance.parameter_set))


@dataclass(frozen=True)
class Remote:
    """Runs tasks on an executor whose workers may be other processes on other computers.

    A lone task runs here: sending it away would gain nothing. The executor's owner shuts it down.
    """

    worker: Worker
    executor: Executor
    workers: int
    recipe: bytes
    lost: tuple[type[Exception], ...]
    """What the executor raises when its workers are gone."""

    def map(self, tasks: Sequence[Task[Result]]) -> Iterator[Result]:
        """Yield the result of each task, in order.

        Raises:
            LimitError: the workers are gone.
        """
        if len(tasks) <= 1:
            yield from (task.run(self.worker) for task in tasks)
            return
        try:
            yield from _in_order(lambda task: self.executor.submit(run_task, self.recipe, task), tasks, self.workers)
        except self.lost as error:
            raise LimitError(
                f"the workers are gone: {type(error).__name__}: {error}",
                hint="start them again; with --study, what was done until now is kept",
            ) from None


def threads(workers: int) -> EngineOf:
    """Return what makes an engine of so many threads."""
    return lambda worker: Threads(worker, workers)


def remote(executor: Executor, workers: int, recipe: Recipe, lost: tuple[type[Exception], ...]) -> EngineOf:
    """Return what makes an engine on an executor with so many workers; `lost` is raised when they are gone."""
    payload = pickle.dumps(recipe)
    return lambda worker: Remote(worker, executor, workers, payload, lost)


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Return an executor of new processes; forking one that runs threads would not be safe."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def run_task(recipe: bytes, task: Task[Result]) -> Result:
    """Run a task in the process of a worker."""
    with _MAKING:
        worker = _worker(recipe)
    return task.run(worker)


_MAKING = Lock()


@lru_cache(maxsize=2)
def _worker(recipe: bytes) -> Worker:
    """Return the worker of a recipe, made once per process."""
    made: Recipe = pickle.loads(recipe)
    return made.worker()


def _in_order(
    submit: Callable[[Task[Result]], Future[Result]], tasks: Sequence[Task[Result]], workers: int
) -> Iterator[Result]:
    """Submit tasks a few ahead of the one waited for; those not begun are cancelled when the iterator is closed."""
    waiting: deque[Future[Result]] = deque()
    left = iter(tasks)
    try:
        for task in left:
            waiting.append(submit(task))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
