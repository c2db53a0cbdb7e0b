"""The MILP backend against three other exact engines, and where floating point would go wrong."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir import draft
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import check
from cosmic_opt.ir.model import Linear, LoweredModel, Product
from cosmic_opt.ir.objective import LinearObjective, lower_objective
from cosmic_opt.psa.bind import Names, bind_rule
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.family import Family, numbered
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.term import Apply, Term
from cosmic_opt.solvers import linearise, milp
from cosmic_opt.solvers.base import Codes, Limits, Solver, SolveStatus, StopReason, objective_values
from cosmic_opt.solvers.cp_sat import CpSat
from cosmic_opt.solvers.exhaustive import Exhaustive
from cosmic_opt.solvers.milp import Milp
from cosmic_opt.solvers.ties import least_code
from tests.strategies import FOCUSES, Source, sorted_codes, sources
from tests.unit.solvers.small import ORIGIN, model_of, table

NONE = Limits()
ENGINES = (Exhaustive(), CpSat(), Milp())
FEW = 12


def fixed(examples: int) -> settings:
    return settings(derandomize=True, deadline=None, max_examples=examples)


@st.composite
def problems(draw: st.DrawFn, focus: str) -> tuple[Source, str, bool]:
    """Draw a PSA, an expression over its columns and quantities, and a direction."""
    source = draw(sources(focus))
    atoms = [*source.numbers, "curved", "spread", f"{source.numbers[0]} * {source.numbers[-1]}"]
    chosen = draw(st.lists(st.sampled_from(atoms), min_size=1, max_size=3))
    weights = draw(st.lists(st.integers(-9, 9), min_size=len(chosen), max_size=len(chosen)))
    return source, " + ".join(f"{w} * {a}" for w, a in zip(weights, chosen, strict=True)), draw(st.booleans())


def expression_of(source: Source, parameter_set: ParameterSet, text: str) -> Term:
    """Return the bound form of an expression: the left side of a rule that compares it."""
    columns = {column.name: column.term for column in parameter_set.columns}
    families = {name: Family(name, (numbered("dim", int(source.data["dims"])),)) for name in source.families}
    names = Names(columns, source.data, {}, families, source.quantities, {})
    term = bind_rule(parse_rule(f"{text} >= 0"), text, names)
    assert isinstance(term, Apply)
    return term.operands[0]


def assert_engines_agree(source: Source, text: str, maximise: bool) -> None:
    parameter_set = source.bind()
    term = expression_of(source, parameter_set, text)
    model, objective = lower_objective(parameter_set, lowering.lower(parameter_set), term, maximise=maximise)
    designs = feasible_set(model).everything(limit=100_000)
    if len(designs) == 0:
        assert [engine.solve(model, objective, limits=NONE).status for engine in ENGINES] == [
            SolveStatus.INFEASIBLE
        ] * len(ENGINES)
        return
    batch = parameter_set.batch(designs)
    declared = evaluate(term, batch.value_columns(term.columns), len(batch))
    np.testing.assert_array_equal(objective_values(model, objective, designs), declared)
    best = int(declared.max() if maximise else declared.min())
    first = designs[np.flatnonzero(declared == best)[:1]]
    for engine in ENGINES:
        result = engine.solve(model, objective, limits=NONE)
        assert (result.status, result.value, result.bound) == (SolveStatus.OPTIMAL, best, best), engine.name
        codes, _ = least_code(engine, model, objective, best, result.codes, limits=NONE)
        np.testing.assert_array_equal(codes, first, engine.name)
    if len(designs) <= FEW:
        found = sorted_codes(model, list(Milp().enumerate(model, limits=NONE)))
        np.testing.assert_array_equal(found, designs)


@pytest.mark.parametrize("focus", FOCUSES)
@pytest.mark.parametrize(
    ("small", "wide"),
    [pytest.param(1 << 12, 1 << 16, marks=pytest.mark.slow), (8, 64), pytest.param(1, 1, marks=pytest.mark.slow)],
)
def test_milp_cp_sat_exhaustive_and_diagram_agree(
    monkeypatch: pytest.MonkeyPatch, focus: str, small: int, wide: int
) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", small)
    monkeypatch.setattr(draft, "WIDE_TABLE", wide)

    @fixed(20)
    @given(problems(focus))
    def agree(problem: tuple[Source, str, bool]) -> None:
        assert_engines_agree(*problem)

    agree()


@pytest.mark.slow
@pytest.mark.parametrize("focus", FOCUSES)
def test_engines_agree_where_every_sum_is_split_into_digits(monkeypatch: pytest.MonkeyPatch, focus: str) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 1)
    for module in (linearise, milp):
        monkeypatch.setattr(module, "DIRECT", 2)
    monkeypatch.setattr(linearise, "BASE", 3)

    @fixed(20)
    @given(problems(focus))
    def agree(problem: tuple[Source, str, bool]) -> None:
        assert_engines_agree(*problem)

    agree()


LARGE = st.one_of(st.integers(-(2**70), 2**70), st.integers(-3, 3), st.integers(10**14 - 3, 10**14 + 3))


@st.composite
def large_sums(draw: st.DrawFn) -> LoweredModel:
    """Draw a model of one sum whose bounds lie at, or one beside, the sum of some design."""
    sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    weights = tuple(tuple(draw(LARGE) for _ in range(size)) for size in sizes)
    typical = [draw(st.sampled_from(row)) for row in weights]
    bounds = [sum(typical) + draw(st.integers(-1, 1)) for _ in range(2)]
    form = draw(st.sampled_from(("at most", "at least", "equal", "between")))
    lower, upper = min(bounds), max(bounds)
    if form == "equal":
        lower = upper
    return model_of(
        sizes,
        Linear(
            tuple(range(len(sizes))),
            weights,
            None if form == "at most" else lower,
            None if form == "at least" else upper,
            ORIGIN,
        ),
    )


def test_sums_beyond_the_precision_of_a_float_are_exact() -> None:
    @fixed(60)
    @given(large_sums(), st.booleans(), st.lists(LARGE, min_size=3, max_size=3))
    def agree(model: LoweredModel, maximise: bool, objective_weights: list[int]) -> None:
        expected = sorted_codes(model, list(Exhaustive().enumerate(model, limits=NONE)))
        np.testing.assert_array_equal(sorted_codes(model, list(Milp().enumerate(model, limits=NONE))), expected)
        objective = LinearObjective((0,), (tuple(objective_weights[: model.columns[0].size]),), maximise, 7)
        ours, plain = (engine.solve(model, objective, limits=NONE) for engine in (Milp(), Exhaustive()))
        assert (ours.status, ours.value, ours.bound) == (plain.status, plain.value, plain.bound)

    agree()


def test_a_budget_of_1e14_dollars_is_kept_to_the_dollar() -> None:
    price = 10**14 + 1
    for budget, expected in ((2 * price, [[0, 0], [0, 1], [1, 0], [1, 1]]), (2 * price - 1, [[0, 0], [0, 1], [1, 0]])):
        rule = Linear((0, 1), ((0, price), (0, price)), None, budget, ORIGIN)
        found = sorted_codes(model := model_of((2, 2), rule), list(Milp().enumerate(model, limits=NONE)))
        assert found.tolist() == expected


def test_a_product_of_large_factors_is_exact() -> None:
    rule = Product((0, 1), ((1, 2**40 + 1), (1, 2**40 - 1)), 2, 2**80 - 2, ORIGIN)
    found = sorted_codes(model := model_of((2, 2), rule), list(Milp().enumerate(model, limits=NONE)))
    assert found.tolist() == [[0, 1], [1, 0]]
    rule = Product((0, 1), ((1, 2**40 + 1), (1, 2**40 - 1)), 2, 2**80 - 1, ORIGIN)
    assert sum(map(len, Milp().enumerate(model_of((2, 2), rule), limits=NONE))) == 3


def test_a_point_that_the_checker_rejects_is_excluded_and_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected: list[list[int]] = []

    def check_but_reject_two(model: LoweredModel, codes: Codes) -> np.ndarray:
        if len(rejected) < 2:
            rejected.append(codes[0].tolist())
            return np.zeros(len(codes), dtype=bool)
        return check(model, codes)

    monkeypatch.setattr(milp, "check", check_but_reject_two)
    result = Milp().solve(model_of((2, 2)), LinearObjective((0, 1), ((0, 1), (0, 2))), limits=NONE)
    assert rejected == [[0, 0], [1, 0]]
    assert (result.codes.tolist(), result.value) == ([[0, 1]], 2)


def test_a_solver_that_only_gives_rejected_points_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "check", lambda model, codes: np.zeros(len(codes), dtype=bool))
    monkeypatch.setattr(milp, "ATTEMPTS", 3)
    with pytest.raises(LimitError, match="3 attempts") as caught:
        Milp().solve(model_of((9,)), limits=NONE)
    assert caught.value.hint == "use cp_sat or exhaustive"


def test_time_spent_before_the_first_point_gives_unknown() -> None:
    result = Milp().solve(model_of((2, 2)), LinearObjective((0,), ((0, 1),)), limits=Limits(seconds=0.0))
    assert (result.status, result.stop, result.value) == (SolveStatus.UNKNOWN, StopReason.TIME, None)
    with pytest.raises(LimitError, match="ran out of time"):
        list(Milp().enumerate(model_of((2, 2)), limits=Limits(seconds=0.0)))


@pytest.mark.parametrize(
    ("maximise", "weights", "bound"), [(False, (0, 50, 100), 100), (True, (100, 50, 0), 200)], ids=["least", "greatest"]
)
def test_the_bound_of_an_unfinished_run_is_in_the_objective_s_units(
    monkeypatch: pytest.MonkeyPatch, maximise: bool, weights: tuple[int, ...], bound: int
) -> None:
    unfinished = milp._Answer(infeasible=False, finished=False, codes=np.array([[1]], dtype=np.int32), bound=0)
    monkeypatch.setattr(milp, "_run", lambda program, goal, limits, start: unfinished)
    result = Milp().solve(model_of((3,)), LinearObjective((0,), (weights,), maximise, 100), limits=NONE)
    assert (result.status, result.stop) == (SolveStatus.FEASIBLE, StopReason.TIME)
    assert (result.value, result.bound) == (150, bound)


def test_more_than_500_designs_are_not_listed_one_by_one() -> None:
    with pytest.raises(LimitError, match="more than 500 designs"):
        list(Milp().enumerate(model_of((10,) * 8), limits=NONE))


def test_more_designs_than_the_limit_behind_a_rule_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "ENUMERATION_LIMIT", 3)
    rule = Linear((0, 1), ((0, 1), (0, 1)), None, 2, ORIGIN)
    with pytest.raises(LimitError, match="more than 3 designs"):
        list(Milp().enumerate(model_of((2, 2), rule), limits=NONE))


def test_tables_too_large_for_a_milp_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearise, "ENTRY_LIMIT", 3)
    with pytest.raises(LimitError, match="more than 3 entries"):
        Milp().solve(model_of((2, 2), table((0, 1), (0, 0), (1, 1))), limits=NONE)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    Milp().solve(model_of((3, 3)), LinearObjective((0,), ((0, 1, 2),)), limits=NONE)
    assert capfd.readouterr() == ("", "")


def market_split() -> LoweredModel:
    """Halve five sums of 40 numbers at once: no solver settles it in a minute (Cornuejols and Dawande, 1998)."""
    numbers = np.random.default_rng(1).integers(0, 100, (5, 40)).tolist()
    rules = (
        Linear(tuple(range(40)), tuple((0, number) for number in row), sum(row) // 2, sum(row) // 2, ORIGIN)
        for row in numbers
    )
    return model_of((2,) * 40, *rules)


@pytest.mark.parametrize("solver", [CpSat(), Milp()], ids=lambda solver: solver.name)
def test_a_time_limit_ends_a_hard_problem(solver: Solver) -> None:
    limits = Limits(seconds=0.5)
    result = solver.solve(market_split(), LinearObjective((0,), ((0, 1),)), limits=limits)
    assert (result.status, result.stop) == (SolveStatus.UNKNOWN, StopReason.TIME)
    assert (limits.remaining_s() or 0.0) < 0.1  # CP-SAT may stop a little early


@pytest.mark.parametrize("solver", [CpSat(), Milp()], ids=lambda solver: solver.name)
def test_ctrl_c_ends_a_hard_problem(solver: Solver) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        solver.solve(market_split(), limits=Limits())
    timer.join()
