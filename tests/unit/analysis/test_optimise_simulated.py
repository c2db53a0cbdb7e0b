"""Optimising under the simulator: every answer against scoring every design, by three engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from cosmic_opt.analysis import optimise as module
from cosmic_opt.analysis import simulated_table
from cosmic_opt.analysis.optimise import Optimum, optimise
from cosmic_opt.analysis.simulated_table import in_ticks
from cosmic_opt.analysis.simulated_table import simulated_table as build_table
from cosmic_opt.api import Problem
from cosmic_opt.errors import EngineDisagreement, LimitError, SpecError
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.score import kernel_columns, simulator_of
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.units import TICKS_PER_SECOND
from tests.unit.search.spaces import SPACES

ENGINES = ("exhaustive", "cp_sat", "milp")
LLAMA = Problem.load("llama3-8b/h100-8")
SERVING = Problem.load("llama3-70b/h100-8-serving")
BANDWIDTHS = (
    Problem.load("cosmic/gpt3-175b-system2")
    .fix({f"npus_per_dim[{d}]": n for d, n in enumerate((4, 8, 4, 8))})
    .fix(dp=64, tp=8, sp=2, pp=1, chunks=8, multidim="blueconnect")
    .fix({f"topology[{d}]": "ring" for d in range(4)})
    .fix({f"algorithm[{d}]": "ring" for d in range(4)})
    .fix({f"bandwidth[{d}]": "100 GB/s" for d in (2, 3)})
)
"""Eleven bandwidths in each of two dimensions, and two knobs."""
FEW = 3000
"""Designs of a drawn problem, at most: every one of them is scored."""


@dataclass(frozen=True)
class Scored:
    """Every structurally feasible design of a problem with its step in ticks."""

    batch: DesignBatch
    ticks: np.ndarray


def score(problem: Problem) -> Scored:
    """Score every design without looking at any rule on the step."""
    feasible = problem.feasible
    batch = problem.parameter_set.batch(feasible.everything(limit=200_000))
    columns = kernel_columns(batch)
    return Scored(batch, simulator_of(problem.instance).evaluate(columns, strict=False).step_ticks)


def narrowed(problem: Problem, random: Random) -> Problem:
    """Fix free columns to values of one feasible design until few designs are left."""
    problem = problem.edit(
        type(problem.edits)(without=tuple(r.name for r in problem.parameter_set.constraints if r.simulated))
    )
    design = next(problem.sample(1, seed=random.randrange(10**6)).points())
    names = [c.name for c in problem.parameter_set.columns if len(c.values) > 1]
    random.shuffle(names)
    for name in names:
        if problem.feasible.size <= FEW:
            break
        problem = problem.fix({name: str(design[name])})
    return problem


def quantile(scored: Scored, share: float) -> int:
    """Return a step between the fastest and the slowest."""
    return int(np.quantile(scored.ticks[scored.ticks != NO_TIME], share, method="nearest"))


Rule = tuple[str, Callable[[Scored], np.ndarray]]


def rules_of(scored: Scored, random: Random) -> list[Rule]:
    """Return rules on the step in every form, with what each means written out."""
    low, high = quantile(scored, 0.3), quantile(scored, 0.7)
    work = int(scored.batch.parameter_set.data["global_batch"]) * TICKS_PER_SECOND
    rate = max(1, work // high)
    tp = int(random.choice(scored.batch.values("tp").tolist()))

    def is_tp(every: Scored) -> np.ndarray:
        return np.asarray(every.batch.values("tp") == tp)

    return [
        (f"step_time <= {high} ps", lambda every: every.ticks <= high),
        (f"{low} ps < step_time", lambda every: every.ticks > low),
        (f"{low} ps <= step_time and step_time < {high} ps", lambda every: (every.ticks >= low) & (every.ticks < high)),
        (f"step_time == {low} ps or step_time >= {high} ps", lambda e: (e.ticks == low) | (e.ticks >= high)),
        (f"not (step_time <= {low} ps)", lambda every: every.ticks > low),
        (f"tp == {tp} implies step_time <= {low} ps", lambda every: ~is_tp(every) | (every.ticks <= low)),
        (f"tp == {tp} or step_time > {high} ps", lambda every: is_tp(every) | (every.ticks > high)),
        (f"throughput >= {rate}", lambda every: work >= rate * every.ticks.astype(object)),
        (f"throughput <= {rate}", lambda every: work <= rate * every.ticks.astype(object)),
        (f"throughput > {rate} * tp", lambda e: work > rate * e.batch.values("tp").astype(object) * e.ticks),
        (
            f"step_time != {low} ps and throughput < {rate + 1}",
            lambda e: (e.ticks != low) & (work < (rate + 1) * e.ticks.astype(object)),
        ),
    ]


def objectives_of(random: Random) -> list[tuple[str, Callable[[Scored], np.ndarray]]]:
    """Return expressions, with what each is."""
    weights = [random.randint(-3, 3) or 1 for _ in range(4)]
    spread = " + ".join(f"{weight} * bandwidth[{d}]" for d, weight in enumerate(weights))

    def spread_of(every: Scored) -> np.ndarray:
        return np.asarray(sum(weight * every.batch.values(f"bandwidth[{d}]") for d, weight in enumerate(weights)))

    return [
        ("sum(bandwidth)", lambda e: sum(e.batch.values(f"bandwidth[{d}]") for d in range(4))),
        (spread, spread_of),
        ("10 * tp + dp", lambda e: 10 * e.batch.values("tp") + e.batch.values("dp")),
        ("step_time", lambda e: e.ticks),
    ]


def expected(every: Scored, keep: np.ndarray, values: np.ndarray, *, maximise: bool) -> tuple[int, list[int]] | None:
    """Return the best value and the least code that has it."""
    keep = np.asarray(keep, dtype=bool) & (every.ticks != NO_TIME)
    if not keep.any():
        return None
    kept = np.asarray(values)[keep]
    best = kept.max() if maximise else kept.min()
    return int(best), min(every.batch.codes[keep][kept == best].tolist())


def drawn(seed: int) -> Iterator[tuple[Problem, Scored, Rule, str, np.ndarray, bool]]:
    """Yield problems with a rule and an objective."""
    random = Random(seed)
    problem = narrowed(random.choice(list(SPACES.values())), random)
    every = score(problem)
    for text, meaning in random.sample(rules_of(every, random), 2):
        expression, measure = random.choice(objectives_of(random))
        yield problem, every, (text, meaning), expression, measure(every), random.random() < 0.5


def assert_optimum(optimum: Optimum, best: tuple[int, list[int]] | None) -> None:
    if best is None:
        assert (optimum.status, optimum.value, optimum.bound) == (SolveStatus.INFEASIBLE, None, None)
        return
    value, code = best
    assert (optimum.status, optimum.value, optimum.bound) == (SolveStatus.OPTIMAL, value, value)
    assert optimum.design.codes[0].tolist() == code


def cold(problem: Problem, expression: str, **options: Any) -> Optimum:
    """Leave an engine on its own: nothing to begin with, and so nothing proved before it runs."""
    return optimise(problem.spec, problem.edits, expression, cold=True, **options)


def assert_engines_are_right(seed: int, *, cold: bool) -> None:
    """With `cold` every engine is on its own: nothing to begin with, and so nothing proved before it runs."""
    for problem, every, (rule, meaning), expression, values, maximise in drawn(seed):
        best = expected(every, meaning(every), values, maximise=maximise)
        asked = problem.require(rule)
        for engine in ENGINES:
            ask = partial(optimise, asked.spec, asked.edits, expression, maximise=maximise, solver=engine, cold=cold)
            if len(set(np.asarray(values).tolist())) > 1:
                optimum = ask()
                assert_optimum(optimum, best)
                assert not cold or (optimum.start, optimum.proved_by_start) == (None, False)


@pytest.mark.parametrize("seed", range(8))
def test_engines_find_what_scoring_every_design_finds(seed: int) -> None:
    assert_engines_are_right(seed, cold=bool(seed % 2))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_engines_find_what_scoring_every_design_finds_on_120_more_problems(block: int) -> None:
    for seed in range(100 + 10 * block, 110 + 10 * block):
        assert_engines_are_right(seed, cold=bool(block % 2))


# --- against the Pareto search --------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["total_bandwidth", "network_cost"])
def test_the_least_amount_within_each_step_of_the_front_is_the_front(quantity: str) -> None:
    problem = BANDWIDTHS
    front = problem.pareto(quantity)
    points = list(zip(front.step_ticks.tolist(), front.amounts[:, 0].tolist(), strict=True))
    assert len(points) > 3
    for ticks, amount in points[:: len(points) // 6 + 1]:
        within = problem.require(f"step_time <= {ticks} ps").optimise(quantity)
        assert (within.status, within.value) == (SolveStatus.OPTIMAL, amount)
        faster = problem.require(f"step_time < {ticks} ps").optimise(quantity)
        assert faster.value is None or faster.value > amount


@pytest.mark.parametrize("solver", ENGINES)
def test_the_front_of_a_calibrated_instance_is_met_point_by_point(solver: str) -> None:
    front = LLAMA.pareto("memory_per_npu")
    points = list(zip(front.step_ticks.tolist(), front.amounts[:, 0].tolist(), strict=True))
    for ticks, amount in points[:: len(points) // 6 + 1]:
        optimum = LLAMA.require(f"step_time <= {ticks} ps").optimise("memory_per_npu", solver=solver)
        assert (optimum.status, optimum.value) == (SolveStatus.OPTIMAL, amount)


# --- other simulated quantities -------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ENGINES)
@pytest.mark.parametrize("problem", [LLAMA, SERVING], ids=["training", "serving"])
def test_the_greatest_throughput_is_that_of_solve_as_a_fraction(problem: Problem, solver: str) -> None:
    outcome = problem.objective("throughput").solve()
    optimum = problem.optimise("throughput", maximise=True, solver=solver)
    assert outcome.value is not None
    assert isinstance(optimum.value, Fraction)
    assert optimum.value == Fraction((outcome.objective.samples or 0) * TICKS_PER_SECOND, outcome.value)
    assert optimum.design.codes.tolist() == outcome.design.codes.tolist()


@pytest.mark.parametrize("metric", ["first_token_time", "output_token_time", "batch_time", "cosmic_time"])
def test_each_time_of_a_served_model_is_that_of_solve(metric: str) -> None:
    outcome = SERVING.objective(metric).solve()
    assert SERVING.optimise(metric).value == outcome.value


def test_rules_on_two_times_of_a_served_model_hold_together() -> None:
    rule = "first_token_time <= 200 ms or output_token_time <= 15 ms"
    optimum = SERVING.require(rule).optimise("throughput", maximise=True)
    (codes,) = optimum.design.codes
    times = {}
    for metric in ("first_token_time", "output_token_time"):
        instance = SERVING.objective(metric).instance
        batch = instance.parameter_set.batch(codes.reshape(1, -1))
        times[metric] = int(simulator_of(instance).evaluate(kernel_columns(batch)).step_ticks[0])
    assert times["first_token_time"] <= 200 * 10**9 or times["output_token_time"] <= 15 * 10**9
    free = SERVING.optimise("throughput", maximise=True)
    assert free.value is not None
    assert optimum.value is not None
    assert optimum.value <= free.value


def test_two_rates_are_compared_by_their_ticks() -> None:
    """Of two rates of the same work, the smaller has more ticks."""
    rule = SERVING.require("throughput <= throughput_per_npu").parameter_set.constraints[-1]
    ticks = {"throughput": np.array([5, 7, 9]), "throughput_per_npu": np.array([7, 7, 7])}
    assert evaluate(in_ticks(rule.term, 1000), ticks, 3).tolist() == [0, 1, 1]


def test_a_rate_between_two_whole_numbers_is_not_rounded() -> None:
    """15 samples in 2 s are 7.5 a second: more than 7, less than 8, equal to neither."""
    for text, expected_truth in (("> 7", 1), ("<= 7", 0), ("< 8", 1), (">= 8", 0), ("== 7", 0), ("!= 7", 1)):
        rule = LLAMA.require(f"throughput {text}").parameter_set.constraints[-1]
        ticks = {"throughput": np.array([2 * TICKS_PER_SECOND])}
        assert evaluate(in_ticks(rule.term, 15 * TICKS_PER_SECOND), ticks, 1).tolist() == [expected_truth], text


# --- the table ------------------------------------------------------------------------------------------------


def test_the_table_leaves_out_what_cannot_change_the_step() -> None:
    """The order in which collectives are served is open, but has no effect: 11 x 11 bandwidths are left."""
    assert BANDWIDTHS.feasible.size == 2 * 2 * 11 * 11
    table = build_table(BANDWIDTHS.instance, BANDWIDTHS.model, "step_time")
    names = [BANDWIDTHS.parameter_set.columns[column].name for column in table.columns]
    assert set(names) == {"bandwidth[0]", "bandwidth[1]", "weight_sharded"}
    assert len(table) == 2 * 11 * 11
    every = score(BANDWIDTHS)
    rows = {tuple(row): int(ticks) for row, ticks in zip(table.rows.tolist(), table.times["step_time"], strict=True)}
    for codes, ticks in zip(every.batch.codes[:, list(table.columns)].tolist(), every.ticks.tolist(), strict=True):
        assert rows[tuple(codes)] == ticks


def test_a_column_without_effect_that_a_rule_reads_is_in_the_table() -> None:
    fast = quantile(score(BANDWIDTHS), 0.2)
    problem = BANDWIDTHS.require(f"scheduling_policy == fifo implies step_time <= {fast} ps")
    table = build_table(problem.instance, problem.model, None)
    names = [problem.parameter_set.columns[column].name for column in table.columns]
    assert "scheduling_policy" in names
    least = problem.fix(scheduling_policy="fifo").optimise("total_bandwidth").value
    free = problem.optimise("total_bandwidth")
    assert (free.value, next(free.design.points())["scheduling_policy"]) == (4 * 10**11 - 10**11, "lifo")
    assert least is not None
    assert free.value is not None
    assert least > free.value


def test_too_many_combinations_are_refused_before_anything_is_simulated() -> None:
    problem = Problem.load("cosmic/gpt3-175b-system2")
    with pytest.raises(
        LimitError, match=r"23 free parameters in 5,432,942,592,000 combinations; up to 1,000,000"
    ) as caught:
        problem.optimise("step_time")
    hint = str(caught.value.hint)
    assert "fix some of them: bandwidth[0] (11 values)" in hint
    assert "'solve' and 'pareto'" in hint


@pytest.mark.parametrize("solver", ENGINES)
def test_more_rows_than_an_engine_takes_are_refused_by_name(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = module.load_solver(solver)
    monkeypatch.setattr(type(backend), "table_rows", 241)
    assert BANDWIDTHS.optimise("step_time", solver=solver).table_rows == 242, "proved without the engine"
    with pytest.raises(LimitError, match=f"in 242 combinations; up to 241 are read by {solver}"):
        cold(BANDWIDTHS, "step_time", solver=solver)
    within = BANDWIDTHS.require(f"step_time <= {quantile(score(BANDWIDTHS), 0.9)} ps")
    assert cold(within, "total_bandwidth", solver=solver).status is SolveStatus.OPTIMAL


def test_a_step_that_is_the_same_everywhere_is_refused() -> None:
    one = BANDWIDTHS.fix({"bandwidth[0]": "50 GB/s", "bandwidth[1]": "50 GB/s"}).fix(weight_sharded=1)
    with pytest.raises(SpecError, match="the same for every design"):
        one.optimise("step_time")


def test_a_rule_on_a_step_that_nothing_open_decides_allows_everything_or_nothing() -> None:
    one = BANDWIDTHS.fix({"bandwidth[0]": "50 GB/s", "bandwidth[1]": "50 GB/s"}).fix(weight_sharded=1)
    (ticks,) = set(score(one).ticks.tolist())
    for limit, allowed in ((ticks, True), (ticks - 1, False), (0, False)):
        asked = one.require(f"step_time <= {limit} ps")
        assert build_table(asked.instance, asked.model, None).columns == ()
        optimum = asked.optimise("1 + count(scheduling_policy == fifo)")
        assert (optimum.status, optimum.value) == (
            (SolveStatus.OPTIMAL, 1) if allowed else (SolveStatus.INFEASIBLE, None)
        )


def test_a_table_that_lies_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = module.simulated_table

    def lying(*arguments: object) -> object:
        table = honest(*arguments)  # type: ignore[arg-type]
        times = {name: ticks[::-1] for name, ticks in table.times.items()}
        return simulated_table.SimulatedTable(table.columns, table.designs, times, table.origin, table.some_run)

    monkeypatch.setattr(module, "simulated_table", lying)
    with pytest.raises(EngineDisagreement, match="the table says otherwise than the simulator"):
        BANDWIDTHS.optimise("step_time")


def test_a_design_that_cannot_run_obeys_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = simulated_table.simulate

    def without_the_first(instance: object, names: object, designs: DesignBatch) -> object:
        times = plain(instance, names, designs)  # type: ignore[arg-type]
        for ticks in times.values():
            ticks[designs.values("bandwidth[0]") == 50 * 10**9] = NO_TIME
        return times

    for place in (module, simulated_table):
        monkeypatch.setattr(place, "simulate", without_the_first)
    optimum = BANDWIDTHS.require("step_time >= 0 s").optimise("total_bandwidth")
    assert next(optimum.design.points())["bandwidth[0]"] == 100 * 10**9
