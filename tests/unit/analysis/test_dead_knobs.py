from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.dead_knobs import MOST_TRIED, TRIED, DeadKnobs, count_up_to_equivalence, dead_knobs
from cosmic_opt.analysis.projection import count_projections
from cosmic_opt.api import Problem
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.score import Scorer, Scores
from cosmic_opt.simulation.analytical.layout import NO_TIME
from tests.strategies import FOCUSES, Source, brute_force, sources
from tests.unit.search.spaces import SPACES, scorer_of

SYSTEM1 = Problem.load("cosmic/gpt3-13b-system1")
GPT3 = Problem.load("cosmic/gpt3-175b-system2")
WIDE = Problem.load("llama3-70b/h100-8-serving").set(npus=10_000)
Point = tuple[Value, ...]


def scored(problem: Problem) -> dict[Point, int]:
    """The value of every feasible design, rules on the step included; -1 for one that cannot run."""
    scorer = scorer_of(problem)
    values: dict[Point, int] = {}
    for batch in problem.enumerate():
        if len(batch):
            scores = scorer.score(batch, strict=False)
            for point, ticks, value in zip(batch.points(), scores.evaluation.step_ticks, scores.values, strict=True):
                values[tuple(point.values())] = -1 if ticks == NO_TIME else int(value)
    return values


def without(point: Point, positions: set[int]) -> Point:
    return tuple(value for at, value in enumerate(point) if at not in positions)


def assert_proved(problem: Problem, knobs: DeadKnobs) -> None:
    """Check every claim against all designs."""
    values = scored(problem)
    positions = problem.parameter_set.positions
    names = list(positions)
    free = {names[at] for at in range(len(names)) if len({point[at] for point in values}) > 1}
    claimed = [*knobs.dead, *knobs.live, *knobs.tied, *knobs.undecided]
    assert len(claimed) == len(set(claimed))
    assert free <= set(claimed)
    dead = {positions[name] for name in knobs.dead}
    seen: dict[Point, int] = {}
    for point, value in values.items():
        assert seen.setdefault(without(point, dead), value) == value
    for name, witness in knobs.live.items():
        left, right = tuple(witness.left.values()), tuple(witness.right.values())
        assert values[left] != values[right]
        apart = {at for at, (one, other) in enumerate(zip(left, right, strict=True)) if one != other}
        assert positions[name] in apart
        assert apart <= {positions[name], *dead}
    for name in knobs.tied:  # of designs within the limits on the step
        assert len({without(point, {positions[name]}) for point in values}) == len(values)
    counted = count_up_to_equivalence(problem.instance, (problem.count().lower, problem.count().value))
    dead = {positions[name] for name in counted.knobs.dead}
    distinct = len({without(point, dead) for point in values})
    assert counted.lower <= distinct <= counted.value
    if counted.exact:
        assert counted.value == distinct


RULES = (
    "scheduling_policy == lifo implies chunks == 2",
    "topology[0] == topology[1]",
    "algorithm[0] == algorithm[3]",
    "bandwidth[0] + bandwidth[3] <= 150 GB/s",
    "tp * 50 GB/s <= bandwidth[0] or chunks == 4",
    "step_time <= 3 s",
    "topology[3] == switch implies algorithm[3] == direct",
)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw a problem of at most a few thousand designs, with knobs of every stack free."""
    tp, sp, pp = draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (8, 2, 2), (16, 1, 32), (32, 1, 16), (8, 2, 32)]))
    fixed: dict[str, Value] = {
        "npus_per_dim[0]": 4,
        "npus_per_dim[1]": 4,
        "npus_per_dim[2]": 4,
        "bandwidth[1]": "100 GB/s",
        "bandwidth[2]": "100 GB/s",
        "topology[2]": "ring",
        "algorithm[2]": "ring",
    }
    optional: dict[str, Value] = {
        "tp": tp,
        "sp": sp,
        "pp": pp,
        "weight_sharded": 0,
        "scheduling_policy": "fifo",
        "multidim": "baseline",
        "topology[0]": "ring",
        "topology[1]": "ring",
        "topology[3]": "fully_connected",
        "algorithm[0]": "ring",
        "algorithm[1]": "direct",
        "algorithm[3]": "halving_doubling",
    }
    kept = draw(st.sets(st.sampled_from(sorted(optional)), min_size=1, max_size=5))
    problem = SYSTEM1.fix(fixed | {name: value for name, value in optional.items() if name not in kept})
    rules = draw(st.lists(st.sampled_from(RULES), unique=True, max_size=2))
    limits = [f"bandwidth[{dim}] <= 100 GB/s" for dim in (0, 3)] + ["chunks <= 4"]
    objective = draw(st.sampled_from(["step_time", "step_time * total_bandwidth", "step_time * network_cost"]))
    return problem.without("fits").require(*limits, *rules).objective(objective)


@pytest.mark.parametrize("limit", [0, 50_000])
def test_every_claim_on_a_generated_problem_is_what_all_designs_say(limit: int) -> None:
    seen: set[str] = set()

    @settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
    @given(problems())
    def check(problem: Problem) -> None:
        assume(1 < problem.feasible.size <= 3000)
        knobs = dead_knobs(problem.instance, exhaustive_limit=limit)
        assert_proved(problem, knobs)
        assert not knobs.undecided or limit == 0
        seen.update({family_of(name) for name in knobs.dead})

    check()
    assert {"scheduling_policy", "algorithm"} <= seen


@pytest.mark.parametrize("name", SPACES)
def test_in_the_restricted_spaces_every_claim_is_what_a_search_can_show(name: str) -> None:
    knobs = dead_knobs(SPACES[name].instance)
    assert not knobs.dead
    assert not knobs.undecided


def test_the_order_of_service_is_the_only_dead_knob_of_the_full_stack() -> None:
    knobs = dead_knobs(GPT3.instance)
    assert (knobs.dead, knobs.undecided) == (("scheduling_policy",), ())
    assert set(knobs.tied) == {"dp", "tp", "sp", "pp", *(f"npus_per_dim[{d}]" for d in range(4))}
    counted = count_up_to_equivalence(GPT3.instance, (0, 0))
    assert counted.exact
    assert 2 * counted.value == GPT3.feasible.size


def test_an_algorithm_of_a_dimension_that_only_stages_cross_is_dead() -> None:
    knobs = dead_knobs(GPT3.fix(dp=1, sp=1, tp=64, pp=16).instance)
    assert "algorithm[3]" in knobs.dead
    assert "topology[3]" in knobs.live


def test_a_knob_that_only_a_rule_reads_is_dead_and_one_the_amount_reads_is_not() -> None:
    fixed = GPT3.scope("collective").require("scheduling_policy == lifo implies chunks == 2")
    assert dead_knobs(fixed.instance).dead == ("scheduling_policy", "multidim")  # gradients are sharded: no all-reduce
    idle = GPT3.scope("workload").free("bandwidth").fix(tp=1, sp=1, pp=2, dp=512)
    assert "bandwidth[0]" in dead_knobs(idle.objective("step_time * total_bandwidth").instance).live


def test_nothing_is_claimed_of_an_infeasible_problem() -> None:
    assert dead_knobs(GPT3.require("tp == 3").instance) == DeadKnobs((), {}, (), ())


def test_knobs_that_a_rule_ties_together_are_dead_together_only_when_nothing_reads_them() -> None:
    tied = SYSTEM1.scope("collective").require("scheduling_policy == lifo implies chunks == 2", "chunks in {2, 4}")
    tied = tied.require("scheduling_policy == fifo implies chunks == 4").fix(algorithm="ring", multidim="baseline")
    knobs = dead_knobs(tied.instance)
    assert knobs.dead == ("scheduling_policy",)
    assert "chunks" in knobs.tied


@pytest.fixture
def scored_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many designs each call of the scorer was given."""
    asked: list[int] = []
    score = Scorer.score

    def counted(self: Scorer, batch: DesignBatch, *, strict: bool = True) -> Scores:
        asked.append(len(batch))
        return score(self, batch, strict=strict)

    monkeypatch.setattr(Scorer, "score", counted)
    return asked


def test_a_knob_with_thousands_of_values_is_shown_live_by_one_pair(scored_at_once: list[int]) -> None:
    knobs = dead_knobs(WIDE.instance)
    assert {"dp", "tp", "batch"} <= set(knobs.live)
    assert max(scored_at_once) <= TRIED
    assert len(scored_at_once) <= 1 + 2 * len(knobs.live)  # not the 200,000 designs that differ from another in dp


def test_a_wide_knob_without_effect_is_not_tried_at_every_value(scored_at_once: list[int]) -> None:
    knobs = dead_knobs(WIDE.objective("first_token_time").instance)
    assert "dp" in knobs.undecided
    assert sum(scored_at_once) <= 2 * MOST_TRIED


def test_without_time_only_what_nothing_reads_is_called_dead_and_the_rest_is_undecided() -> None:
    spent = Budget(seconds=0.0)
    knobs = dead_knobs(GPT3.instance, budget=spent)
    assert not knobs.live
    assert set(knobs.dead) <= {"scheduling_policy"}
    assert {"topology[0]", "chunks"} <= set(knobs.undecided)
    assert dead_knobs(SYSTEM1.instance, budget=spent).undecided
    assert dead_knobs(SYSTEM1.instance, budget=Budget(seconds=3600.0)) == dead_knobs(SYSTEM1.instance)


def test_knobs_that_a_limit_on_the_step_ties_are_not_called_without_effect() -> None:
    problem = Problem.load("llama3-70b/h100-64").fix(dp=4)
    knobs = dead_knobs(problem.require("step_time <= 11 s").instance)
    assert knobs.dead == ()
    assert "sequence_parallel" in knobs.tied
    assert "sequence_parallel" in dead_knobs(problem.instance).live


@pytest.mark.parametrize("focus", FOCUSES)
def test_projections_are_counted_as_by_brute_force(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
    @given(sources(focus), st.data())
    def check(source: Source, data: st.DataObject) -> None:
        parameter_set = source.bind()
        model = lower(parameter_set)
        designs = brute_force(parameter_set)
        columns = range(len(parameter_set.columns))
        for dropped in itertools.islice(
            data.draw(st.permutations([c for n in (1, 2) for c in itertools.combinations(columns, n)])), 4
        ):
            kept = [column for column in columns if column not in dropped]
            expected = len({tuple(row) for row in designs[:, kept].tolist()})
            assert count_projections(model, dropped, feasible_set(model)) == expected

    check()
