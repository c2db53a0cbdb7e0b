from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.ir.lower import lower
from cosmic_opt.search import bounding, frontier
from cosmic_opt.search.dask_pool import dask_pool
from cosmic_opt.search.executor import Recipe, process_pool, run_task, threads
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.space import RegionProduct
from cosmic_opt.search.tasks import ScoreDesigns, worker_of
from tests.unit.search.spaces import SPACES
from tests.unit.search.studies import facts, held

PROBLEM = SPACES["a budget and a lower limit"]
LARGE = Problem.load("cosmic/gpt3-175b-system3").objective("step_time * network_cost")


def all_facts(outcome: Outcome) -> tuple[object, ...]:
    return *facts(outcome), outcome.nodes, outcome.regions


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small problems into many tasks (of this process; others do not see it)."""
    monkeypatch.setattr(bounding, "BLOCK", 16)
    monkeypatch.setattr(frontier, "SOLVE_CHUNK", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", SPACES)
def test_one_two_and_four_workers_give_the_same_answer_and_count_the_same(name: str) -> None:
    one, two, four = (all_facts(SPACES[name].solve(seed=3, engine=threads(workers))) for workers in (1, 2, 4))
    assert one == two == four


@pytest.mark.slow
def test_the_full_stack_gives_the_same_answer_for_one_two_and_four_workers() -> None:
    one, two, four = (all_facts(LARGE.solve(engine=threads(workers))) for workers in (1, 2, 4))
    assert one == two == four


@pytest.mark.usefixtures("small")
def test_an_engine_of_threads_works_on_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, take = set[int](), RegionProduct.take
    both = threading.Barrier(2, timeout=60)

    def spying(product: RegionProduct, numbers: Any) -> Any:
        if threading.current_thread() is not threading.main_thread() and len(seen) < 2:
            seen.add(threading.get_ident())
            both.wait()
        return take(product, numbers)

    monkeypatch.setattr(RegionProduct, "take", spying)
    PROBLEM.solve(engine=threads(2))
    assert len(seen) == 2


class Shuffling(Executor):
    """Runs what it was given only when somebody waits, in random order."""

    def __init__(self) -> None:
        self.rng, self.tasks = random.Random(5), list[tuple[Future[Any], Callable[[], Any]]]()

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        future = Waited(self)
        self.tasks.append((future, lambda: function(*arguments, **options)))
        return future

    def run_all(self) -> None:
        self.rng.shuffle(self.tasks)
        while self.tasks:
            future, work = self.tasks.pop()
            if future.set_running_or_notify_cancel():
                future.set_result(work())


class Waited(Future[Any]):
    def __init__(self, executor: Shuffling) -> None:
        super().__init__()
        self.executor = executor

    def result(self, timeout: float | None = None) -> Any:
        self.executor.run_all()
        return super().result(timeout)


@pytest.mark.usefixtures("small")
def test_the_order_in_which_an_executor_works_does_not_matter() -> None:
    engine = PROBLEM.on(Shuffling(), workers=3)
    assert all_facts(PROBLEM.solve(engine=engine)) == all_facts(PROBLEM.solve())


@pytest.mark.slow
def test_processes_give_the_answer_of_threads() -> None:
    with process_pool(2) as executor:
        outcome = LARGE.solve(engine=LARGE.on(executor, workers=2))
    assert all_facts(outcome) == all_facts(LARGE.solve())


@pytest.mark.parametrize("name", ["llama3-70b/h200-16-pools-serving", "llama3-70b/h100-64", "cosmic/gpt3-13b-system2"])
def test_a_problem_is_the_same_in_another_process(name: str) -> None:
    problem = Problem.load(name)
    elsewhere = pickle.loads(pickle.dumps(Recipe(problem.spec, problem.edits)))
    assert elsewhere.spec.kind is problem.spec.kind
    here = worker_of(problem.instance, lower(problem.parameter_set))
    task = ScoreDesigns(problem.baseline().codes)
    assert task.run(elsewhere.worker()).ticks == task.run(here).ticks


class Breaking(ThreadPoolExecutor):
    """Breaks at its third task."""

    count = 0

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.count += 1
        if self.count > 2:
            raise BrokenExecutor("a worker was killed")
        return super().submit(function, *arguments, **options)


@pytest.mark.usefixtures("small")
def test_workers_that_are_gone_are_a_limit_and_the_study_keeps_what_they_did(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with Breaking(1) as executor, pytest.raises(LimitError, match="a worker was killed") as caught:
        PROBLEM.solve(engine=PROBLEM.on(executor, workers=1), study=path)
    assert "--study" in str(caught.value)
    assert held(path)["evaluations"]
    assert all_facts(PROBLEM.solve(study=path)) == all_facts(PROBLEM.solve())


def test_an_error_of_a_task_is_raised_as_it_is() -> None:
    with ThreadPoolExecutor(1) as executor:
        problem = PROBLEM.require("step_time == 3 s")
        with pytest.raises(SpecError, match="not a limit on the step"):
            problem.solve(engine=problem.on(executor))


# --- Dask -----------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as started:
        yield started


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dask_worker_killed_during_the_search_changes_nothing(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    expected = all_facts(LARGE.solve())
    with dask_pool(cluster.scheduler_address) as pool:
        assert pool.workers == 2
        submit, victims = pool.executor.submit, [worker.pid for worker in cluster.workers.values()]

        def killing(function: Any, *arguments: Any) -> Future[Any]:
            future = submit(function, *arguments)
            if function is run_task and victims:
                os.kill(victims.pop(), signal.SIGKILL)
                victims.clear()
            return future

        monkeypatch.setattr(pool.executor, "submit", killing)
        outcome = LARGE.solve(engine=LARGE.on(pool.executor, workers=pool.workers, lost=pool.lost))
        assert not victims
    assert all_facts(outcome) == expected


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_refused() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(SpecError, match="no scheduler answers"), dask_pool("tcp://127.0.0.1:9"):
        pass


@pytest.mark.parametrize("address", ["nonsense://x", "tcp://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(SpecError, match="no scheduler answers"), dask_pool(address):
        pass


def test_without_dask_the_hint_is_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SpecError, match=r"pip install 'cosmic-opt\[dask\]'"), dask_pool("tcp://127.0.0.1:9"):
        pass
