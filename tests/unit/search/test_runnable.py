"""Designs that obey every rule and have no step: counted, shown, and explained alike by every question."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import InfeasibleError, LimitError
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.outcome import Stop
from cosmic_opt.solvers.base import SolveStatus
from tests.unit.search.six import ONE_RUNS, written, written_wide

RULE = (
    "all(algorithm[d] in {halving_doubling, double_binary_tree} implies npus_per_dim[d] in {1, 2, 4, 8, 16, 32} "
    "for d in dim)"
)


@pytest.fixture
def six(tmp_path: Path) -> Problem:
    """10 splits of 48 NPUs over dp and tp, 16 pairs of algorithms, 4 of bandwidths."""
    return Problem.load(written(tmp_path)).fix(pp=1)


def test_half_of_the_algorithms_cannot_run_in_a_dimension_of_six(six: Problem) -> None:
    found = six.cannot_run()
    assert six.count().value == 10 * 16 * 4
    assert found is not None
    assert (found.designs, found.looked_at, found.exact, found.every) == (320, 640, True, False)
    assert found.reason == "halving_doubling needs groups of a power of two, and dimension 0 has 6 NPUs"
    assert RULE in found.hint


def test_the_design_that_is_shown_cannot_run_and_obeys_every_rule(six: Problem) -> None:
    found = six.cannot_run()
    assert found is not None
    assert six.violations(found.design) == []
    with pytest.raises(InfeasibleError, match="dimension 0 has 6 NPUs") as refused:
        six.simulate(found.design)
    assert refused.value.where is None  # not "design 0": there is one


def test_with_the_rule_of_the_hint_every_design_can_run(six: Problem) -> None:
    ruled = six.require(RULE)
    assert ruled.count().value == 320
    assert ruled.cannot_run() is None
    assert ruled.solve().value == six.solve().value


def test_a_pipeline_of_three_stages_leaves_groups_of_two_where_such_algorithms_exist(tmp_path: Path) -> None:
    """Stages send and run no collective, so 6 NPUs as 2 x 3 stages run halving-doubling."""
    staged = Problem.load(written(tmp_path)).fix({"algorithm": "halving_doubling"}).fix(pp=3, tp=2)
    assert staged.cannot_run() is None
    assert staged.solve().status is SolveStatus.OPTIMAL


def test_of_many_designs_a_sample_is_looked_at_and_the_answer_says_so(tmp_path: Path) -> None:
    from cosmic_opt.search.runnable import DRAWN, cannot_run

    problem = Problem.load(written(tmp_path)).fix(pp=1)
    found = cannot_run(problem.instance, problem.feasible, seed=3, every=100)
    assert found is not None
    assert (found.looked_at, found.exact) == (DRAWN, False)
    assert abs(found.designs / DRAWN - 0.5) < 0.05
    again = cannot_run(problem.instance, problem.feasible, seed=3, every=100)
    assert again is not None
    assert again.designs == found.designs


@pytest.mark.parametrize("by_events", [False, True])
def test_a_search_that_proves_that_nothing_runs_is_an_answer(six: Problem, by_events: bool) -> None:
    outcome = six.fix({"algorithm[0]": "double_binary_tree"}).solve(by_events=by_events)
    assert (outcome.status, outcome.stop) == (SolveStatus.INFEASIBLE, Stop.PROVED)
    assert outcome.designs == 160  # as count says: they obey the rules
    found = outcome.cannot_run
    assert found is not None
    assert (found.designs, found.looked_at, found.exact) == (160, 160, True)
    assert "double_binary_tree needs groups of a power of two" in found.reason


def test_an_agent_alone_that_finds_nothing_that_runs_has_proved_nothing(six: Problem) -> None:
    nothing = six.fix({"algorithm[0]": "halving_doubling"})
    outcome = nothing.solve(agent="random", budget=Budget(evaluations=50))
    assert (outcome.status, outcome.cannot_run) == (SolveStatus.UNKNOWN, None)


def test_a_limit_on_the_step_does_not_hide_that_nothing_runs(six: Problem) -> None:
    nothing = six.fix({"algorithm[0]": "halving_doubling"})
    limited = nothing.require("step_time <= 10 h").solve()
    assert limited.status is SolveStatus.INFEASIBLE
    assert limited.cannot_run is not None
    slow = six.require("step_time <= 1 s").solve()  # here some run, too slowly
    assert (slow.status, slow.cannot_run, slow.designs) == (SolveStatus.INFEASIBLE, None, 0)


def test_a_sample_of_which_none_runs_is_no_proof_beside_a_limit(tmp_path: Path) -> None:
    one = Problem.load(written_wide(tmp_path)).require(ONE_RUNS)
    assert one.count().value == 300 * 300 + 1
    seen = one.cannot_run()
    assert seen is not None
    assert (seen.every, seen.exact) == (True, False)
    assert one.solve().status is SolveStatus.OPTIMAL  # the sample missed the one that runs
    slow = one.require("step_time <= 1 s").solve()
    assert (slow.status, slow.stop, slow.cannot_run, slow.designs) == (SolveStatus.INFEASIBLE, Stop.PROVED, None, 0)


def test_a_table_that_looked_at_each_combination_knows_that_some_run(tmp_path: Path) -> None:
    slow = Problem.load(written_wide(tmp_path)).require(ONE_RUNS, "step_time <= 1 s")
    optimum = slow.optimise("step_time")
    assert (optimum.status, optimum.cannot_run) == (SolveStatus.INFEASIBLE, None)


def test_without_a_limit_the_search_has_proved_that_none_runs_however_many_there_are(tmp_path: Path) -> None:
    none = Problem.load(written_wide(tmp_path)).fix({"algorithm": "halving_doubling"}).fix(pp=1, tp=1)
    found = none.solve().cannot_run
    assert found is not None
    assert (found.designs, found.looked_at, found.exact) == (90_000, 90_000, True)
    limited = none.require("step_time <= 10 h")
    assert limited.solve().cannot_run is None  # too many to look at each
    table = limited.optimise("step_time").cannot_run  # a table of what is simulated has looked at each
    assert table is not None
    assert (table.designs, table.exact) == (90_000, True)


def test_a_design_that_would_run_too_long_is_excluded_by_the_limit(six: Problem) -> None:
    slow = six.set(peak="1 MFLOPS").fix(algorithm="ring").require("step_time <= 1 s")
    outcome = slow.solve()
    assert (outcome.status, outcome.cannot_run) == (SolveStatus.INFEASIBLE, None)
    assert slow.why_none() is None
    assert slow.optimise("step_time").cannot_run is None


def test_steps_beyond_the_clock_are_a_limit_and_no_proof(six: Problem) -> None:
    with pytest.raises(LimitError, match="46 days"):
        six.set(peak="1 MFLOPS").fix(algorithm="ring").solve()


def test_degrees_that_do_not_fill_the_network_name_the_missing_rule(six: Problem) -> None:
    found = six.without("world_size").fix(dp=2, tp=2).cannot_run()
    assert found is not None
    assert found.every
    assert found.reason == "the degrees (dp 2, tp 2, pp 1, sp 1) do not fill a network of [6, 8] NPUs"
    assert "dp * tp * pp * sp == product(npus_per_dim)" in found.hint


def test_reduction_where_no_switch_is_names_the_missing_rule(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = tmp_path / "model.yaml"
    model.write_text(model.read_text(encoding="utf-8").replace("[ring, direct,", "[in_network, ring, direct,"))
    problem = Problem.load(path).set(in_network_reduction=1).fix({"algorithm[0]": "in_network"}).fix(pp=1)
    found = problem.cannot_run()
    assert found is not None
    assert found.every
    assert "in_network needs a switch that reduces, and the ring of dimension 0 has none" in found.reason
    asked = Problem.load(path).fix({"algorithm[0]": "ring"}).fix(pp=1).require("algorithm[1] == in_network")
    plain = asked.cannot_run()
    assert plain is not None
    assert "and the switch of dimension 1 does not" in plain.reason


def test_a_calibrated_problem_whose_designs_all_run_has_nothing_to_say() -> None:
    assert Problem.load("llama3-70b/h100-64").fix(recompute="none", micro_batch=1).cannot_run() is None
